//! A stop signal for many tasks, which receive it in the order in which they began to listen.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Stop {
    pulled: AtomicBool,
    listeners: Notify,
}

impl Stop {
    pub(crate) fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        self.listeners.notify_waiters();
    }

    pub(crate) fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::SeqCst)
    }

    /// Returns once the signal is set.
    pub(crate) async fn pulled(&self) {
        // It is created before the flag is read, so it does not miss a later signal.
        let heard = self.listeners.notified();
        if !self.is_pulled() {
            heard.await;
        }
    }
}

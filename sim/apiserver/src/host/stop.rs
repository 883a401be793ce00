//! A stop signal for many tasks, which receive it in the order in which they began to listen.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The signal.
#[derive(Debug, Default)]
pub struct Stop {
    pulled: AtomicBool,
    listeners: Notify,
}

impl Stop {
    /// Sets the signal.
    pub fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        self.listeners.notify_waiters();
    }

    /// Returns whether the signal is set.
    pub fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::SeqCst)
    }

    /// Returns once the signal is set.
    pub async fn pulled(&self) {
        // It is created before the flag is read, so it does not miss a later signal.
        let heard = self.listeners.notified();
        if !self.is_pulled() {
            heard.await;
        }
    }
}

//! A shutdown request that reaches many listeners, in the order in which they started to listen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Requests all holders of a [`Shutdown`] to stop. Dropping it does the same.
#[derive(Debug)]
pub struct Trigger(Arc<Flag>);

/// Receives the shutdown request.
#[derive(Debug, Clone)]
pub struct Shutdown(Arc<Flag>);

/// The shared state. It is not a [`tokio::sync::watch`], which wakes its listeners in a random order.
#[derive(Debug, Default)]
struct Flag {
    asked: AtomicBool,
    listeners: Notify,
}

/// Creates a trigger and its first listener.
pub fn channel() -> (Trigger, Shutdown) {
    let flag = Arc::new(Flag::default());
    (Trigger(Arc::clone(&flag)), Shutdown(flag))
}

impl Trigger {
    /// Requests the shutdown.
    pub fn pull(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.0.listeners.notify_waiters();
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        self.pull();
    }
}

impl Shutdown {
    /// Returns once the shutdown has been requested.
    pub async fn requested(&mut self) {
        // The future is created before the flag is read, so it receives any later request.
        let heard = self.0.listeners.notified();
        if !self.0.asked.load(Ordering::SeqCst) {
            heard.await;
        }
    }
}

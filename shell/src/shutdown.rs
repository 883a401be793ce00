//! One request to stop, heard by many in the order in which they began to listen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks everyone who holds a [`Shutdown`] to stop. Dropping it asks too.
#[derive(Debug)]
pub struct Trigger(Arc<Flag>);

/// Hears the request to stop.
#[derive(Debug, Clone)]
pub struct Shutdown(Arc<Flag>);

/// Not a [`tokio::sync::watch`], which wakes its listeners in a random order.
#[derive(Debug, Default)]
struct Flag {
    asked: AtomicBool,
    listeners: Notify,
}

/// Makes a trigger and the first of its listeners.
pub fn channel() -> (Trigger, Shutdown) {
    let flag = Arc::new(Flag::default());
    (Trigger(Arc::clone(&flag)), Shutdown(flag))
}

impl Trigger {
    /// Asks to stop.
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
    /// Returns once stopping has been asked for.
    pub async fn requested(&mut self) {
        // Made before the flag is read, it hears of whatever comes after.
        let heard = self.0.listeners.notified();
        if !self.0.asked.load(Ordering::SeqCst) {
            heard.await;
        }
    }
}

//! One request to stop, heard by many.

use tokio::sync::watch;

/// Asks everyone who holds a [`Shutdown`] to stop. Dropping it asks too.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Hears the request to stop.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Makes a trigger and the first of its listeners.
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Asks to stop.
    pub fn pull(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Returns once stopping has been asked for.
    pub async fn requested(&mut self) {
        // An error means that the trigger was dropped, which asks to stop as well.
        let _ = self.0.wait_for(|asked| *asked).await;
    }
}

//! The signals that request a shutdown: Ctrl-C and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// Receives the signals that request a shutdown.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    first: Option<Instant>,
}

impl Signals {
    /// Installs handlers of both signals.
    pub(crate) fn new() -> std::io::Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, first: None })
    }

    /// Returns at the next signal.
    pub(crate) async fn next(&mut self) {
        // Both signals have the same effect.
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.first.get_or_insert_with(Instant::now);
    }

    /// Returns the time of the first signal.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.first
    }

    /// Returns at the next Ctrl-C. SIGTERM is ignored: supervisors may send it several times.
    pub(crate) async fn interrupted(&mut self) {
        self.interrupt.recv().await;
    }
}

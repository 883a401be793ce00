//! Requests to stop from outside: Ctrl-C and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// Hears the signals that ask a program to stop.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    first: Option<Instant>,
}

impl Signals {
    /// Takes over both signals.
    pub(crate) fn new() -> std::io::Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, first: None })
    }

    /// Returns at the next signal.
    pub(crate) async fn next(&mut self) {
        // Either may come first; which it was makes no difference.
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.first.get_or_insert_with(Instant::now);
    }

    /// When the first signal came.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.first
    }

    /// Returns at the next Ctrl-C. SIGTERM doesn't count: supervisors may send it several times.
    pub(crate) async fn interrupted(&mut self) {
        self.interrupt.recv().await;
    }
}

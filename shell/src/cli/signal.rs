//! Requests to stop from outside: Ctrl-C and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears the signals that ask a program to stop.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes over both signals.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Returns at the next signal.
    pub(crate) async fn next(&mut self) {
        // Either may come first; which it was makes no difference.
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Returns at the next Ctrl-C. SIGTERM doesn't count: supervisors may send it several times.
    pub(crate) async fn interrupted(&mut self) {
        self.interrupt.recv().await;
    }
}

//! Ctrl-C and SIGTERM during a search.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::signal::Signals;

/// The exit code of a program that Ctrl-C has ended.
pub(super) const INTERRUPTED: u8 = 130;

/// Whether the user has requested the end of the search.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether a search continues.
    pub(super) fn flow(&self) -> ControlFlow<()> {
        if self.is_asked_for() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Starts to listen for signals. The first one ends the search, the second ends the program.
pub(super) fn listen() -> anyhow::Result<Stop> {
    let asked = Arc::<AtomicBool>::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        heard.store(true, Ordering::Relaxed);
        runtime.block_on(signals.next());
        std::process::exit(INTERRUPTED.into());
    });
    Ok(Stop(asked))
}

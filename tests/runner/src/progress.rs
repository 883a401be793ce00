//! Prints the progress while suites run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::outcome::Outcome;

/// The interval at which a run without other output prints the running tests.
const PERIOD: Duration = Duration::from_secs(30);

/// The running tests of each suite.
pub(crate) struct Progress {
    start: Instant,
    suites: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: usize,
    running: BTreeMap<String, BTreeMap<String, Instant>>,
}

impl Progress {
    pub(crate) fn new(suites: usize) -> Self {
        Self { start: Instant::now(), suites, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn test_started(&self, suite: &str, test: &str) {
        let mut state = self.state();
        state.running.entry(suite.to_owned()).or_default().insert(test.to_owned(), Instant::now());
    }

    pub(crate) fn test_ended(&self, suite: &str, test: &str) {
        if let Some(running) = self.state().running.get_mut(suite) {
            running.remove(test);
        }
    }

    /// Prints that a test failed, at once; its output is in the report at the end.
    pub(crate) fn test_failed(&self, suite: &str, test: &str) {
        println!("[{}] FAILED {suite} {test}", clock(self.start.elapsed()));
    }

    /// Returns the running tests of a suite.
    pub(crate) fn running(&self, suite: &str) -> Vec<String> {
        self.state().running.get(suite).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    pub(crate) fn ended(&self, outcome: &Outcome) {
        let mut state = self.state();
        state.running.remove(&outcome.suite);
        state.ended += 1;
        let result = if outcome.passed() { "ok    " } else { "FAILED" };
        println!(
            "[{}] {result} {:>2}/{} {:<36} {:>4} tests in {:>4} s",
            clock(self.start.elapsed()),
            state.ended,
            self.suites,
            outcome.suite,
            outcome.tests.len(),
            outcome.took.as_secs()
        );
    }

    /// Prints the running tests periodically, until the other end of the channel is dropped.
    pub(crate) fn print_until(&self, finished: &mpsc::Receiver<()>) {
        while finished.recv_timeout(PERIOD) == Err(mpsc::RecvTimeoutError::Timeout) {
            let state = self.state();
            let oldest = state.running.iter().filter_map(|(suite, tests)| {
                let (test, since) = tests.iter().min_by_key(|(_, since)| **since)?;
                Some(format!("{suite} {test} ({} s)", since.elapsed().as_secs()))
            });
            let oldest = oldest.collect::<Vec<_>>().join(", ");
            println!("[{}] waiting for {oldest}", clock(self.start.elapsed()));
        }
    }
}

/// Formats a duration as minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    format!("{:02}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

//! The results of suites and tests.

use std::time::Duration;

/// The result of a suite.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) suite: String,
    pub(crate) took: Duration,
    pub(crate) tests: Vec<Test>,
    pub(crate) ignored: usize,
    /// Why the suite as a whole failed, other than because of a test: it crashed or hung.
    pub(crate) broken: Option<String>,
    /// Its standard error.
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn passed(&self) -> bool {
        self.broken.is_none() && self.tests.iter().all(|test| test.passed)
    }
}

/// The result of a test.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) passed: bool,
    pub(crate) took: Duration,
    pub(crate) output: String,
}

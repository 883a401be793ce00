//! The record of a run, in order: its hash, the facts that the rules check, and a timeline for people.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// One run of one operator's program: host `operator-<host>`, and the number of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// 1 or 2.
    pub host: usize,
    /// The number of the start of the host's program, from 1.
    pub start: u32,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "operator-{}_{}", self.host, self.start)
    }
}

/// A fact that the rules check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A process became the leader.
    Leads(Process),
    /// A process ended: by itself, by a crash, or because it lost the lease.
    Ended(Process),
    /// The lease was granted to a process, by a request sent at this time.
    Granted(Process, Duration),
    /// A controller requested a write.
    Writes(Process, String),
    /// The server executed a write for a client, which is named; writes of the lease are ignored.
    Written(String, String),
}

/// The trace, shared by all hosts of a run.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Inner>>);

struct Inner {
    /// The start of the current simulation step.
    now: Duration,
    hash: Sha256,
    facts: Vec<(Duration, Fact)>,
    timeline: Option<String>,
}

impl Trace {
    /// Creates an empty trace. The timeline is kept only if requested.
    pub fn new(timeline: bool) -> Self {
        let timeline = timeline.then(String::new);
        let inner = Inner { now: Duration::ZERO, hash: Sha256::new(), facts: Vec::new(), timeline };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Sets the time of the current step.
    pub fn step(&self, now: Duration) {
        self.with(|inner| inner.now = now);
    }

    /// Records an event, as a line for people, and as the bytes that must be the same in every run of the seed.
    pub fn record(&self, lane: &str, what: &str, bytes: &[&[u8]]) {
        let now = self.now();
        self.with(|inner| {
            let head = format!("{:>11.3} {lane:<14} {what}", now.as_secs_f64());
            inner.hash.update(head.as_bytes());
            for part in bytes {
                inner.hash.update(part.len().to_be_bytes());
                inner.hash.update(part);
            }
            if let Some(timeline) = &mut inner.timeline {
                timeline.push_str(&head);
                timeline.push('\n');
            }
        });
    }

    /// Records a fact.
    pub fn fact(&self, fact: Fact) {
        let now = self.now();
        self.with(|inner| inner.facts.push((now, fact)));
    }

    /// Passes all facts so far to a function.
    pub fn facts<T>(&self, look: impl FnOnce(&[(Duration, Fact)]) -> T) -> T {
        self.with(|inner| look(&inner.facts))
    }

    /// Returns the hash of the records.
    pub fn hash(&self) -> String {
        let digest = self.with(|inner| inner.hash.clone().finalize());
        digest.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all writes");
            text
        })
    }

    /// Returns the timeline, if it was kept.
    pub fn timeline(&self) -> String {
        self.with(|inner| inner.timeline.clone().unwrap_or_default())
    }

    /// Returns the virtual time: that of the running host, to the millisecond; between hosts, that of the step.
    pub fn now(&self) -> Duration {
        // Outside of a runtime there is no virtual clock, for example while a crashed host is torn down.
        let inside = tokio::runtime::Handle::try_current().is_ok();
        inside.then(turmoil::sim_elapsed).flatten().unwrap_or_else(|| self.with(|inner| inner.now))
    }

    fn with<T>(&self, run: impl FnOnce(&mut Inner) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

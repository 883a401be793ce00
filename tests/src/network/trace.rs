//! What happened in a run, in order: its hash, the facts that rules are checked on, and a timeline for people.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// One run of one operator's program: host `operator-<host>`, and which start of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// 1 or 2.
    pub host: usize,
    /// Counts the starts of the host's program from 1.
    pub start: u32,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "operator-{}_{}", self.host, self.start)
    }
}

/// Something that the rules look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A process was told to lead.
    Leads(Process),
    /// A process ended: by itself, by a crash, or because it lost the lease.
    Ended(Process),
    /// The lease was granted to a process, by a request sent at this time.
    Granted(Process, Duration),
    /// A controller asked for a write.
    Writes(Process, String),
    /// The server carried out a write for a client, which is named; writes of the lease are left out.
    Written(String, String),
}

/// Shared by all hosts of a run.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Inner>>);

struct Inner {
    /// The beginning of the step that is being simulated.
    now: Duration,
    hash: Sha256,
    facts: Vec<(Duration, Fact)>,
    timeline: Option<String>,
}

impl Trace {
    /// An empty trace; the timeline is kept only if wanted.
    pub fn new(timeline: bool) -> Self {
        let timeline = timeline.then(String::new);
        let inner = Inner { now: Duration::ZERO, hash: Sha256::new(), facts: Vec::new(), timeline };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Moves on to a step.
    pub fn step(&self, now: Duration) {
        self.with(|inner| inner.now = now);
    }

    /// Records what happened, as a line for people, and the bytes that must be the same in every run of the seed.
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

    /// Looks at all facts so far.
    pub fn facts<T>(&self, look: impl FnOnce(&[(Duration, Fact)]) -> T) -> T {
        self.with(|inner| look(&inner.facts))
    }

    /// The hash of all that was recorded.
    pub fn hash(&self) -> String {
        let digest = self.with(|inner| inner.hash.clone().finalize());
        digest.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all writes");
            text
        })
    }

    /// The timeline, if it was kept.
    pub fn timeline(&self) -> String {
        self.with(|inner| inner.timeline.clone().unwrap_or_default())
    }

    /// Virtual time: the host's that runs now, to the millisecond; between hosts, that of the step.
    pub fn now(&self) -> Duration {
        // Outside of a runtime there is no virtual clock to read, as when a crashed host is torn down.
        let inside = tokio::runtime::Handle::try_current().is_ok();
        inside.then(turmoil::sim_elapsed).flatten().unwrap_or_else(|| self.with(|inner| inner.now))
    }

    fn with<T>(&self, run: impl FnOnce(&mut Inner) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

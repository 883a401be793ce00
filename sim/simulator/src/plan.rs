//! The plan of a run: its faults and operations as data. A plan follows from a seed, can be stored and can be shrunk.

use std::fmt;
use std::ops::Not;
use std::time::Duration;

use lockstep_engine::action::ErrorKind;
use serde::{Deserialize, Serialize};

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The controller under test.
    pub controller: String,
    /// The seed of delays and all other random choices.
    pub seed: u64,
    /// Duration of fault injection, in milliseconds of simulated time.
    pub stormy_ms: u64,
    /// Whether each controller has a second process, which observes without leading and takes over whenever leadership moves.
    /// Otherwise a new process takes over. The default is false.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub standby: bool,
    /// The faults and operations, ordered by time.
    pub faults: Vec<Fault>,
}

/// One fault or one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// The kind of fault.
    pub what: What,
    /// Start of the window, in milliseconds of simulated time.
    pub from_ms: u64,
    /// End of the window, in milliseconds of simulated time.
    pub until_ms: u64,
    /// The action that it targets. A failure applies only to such requests; any other fault is injected while the first such
    /// request is in flight. Without a target, a failure applies to any request, and any other fault is injected at its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<String>,
    /// The controller whose processes it affects, if several controllers run. Otherwise it affects all, or the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// How many requests in a thousand fail.
    pub per_mille: u32,
    /// Maximum number of injections.
    pub times: u32,
}

/// The kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum What {
    /// A request fails with this class and has no effect.
    Fail {
        /// The class.
        class: ErrorKind,
        /// The `Retry-After` of the server, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// A request takes effect, but its answer is lost.
    AnswerLost,
    /// A request is in transit for a long time.
    SlowRequest {
        /// The delay, in milliseconds.
        by_ms: u64,
    },
    /// An answer is in transit for a long time.
    SlowAnswer {
        /// The delay, in milliseconds.
        by_ms: u64,
    },
    /// The process crashes before a request takes effect.
    CrashBefore {
        /// Delay before the restart, in milliseconds.
        restart_ms: u64,
    },
    /// The process crashes after a request took effect, before the answer arrives.
    CrashAfter {
        /// Delay before the restart, in milliseconds.
        restart_ms: u64,
    },
    /// Watch events arrive late, with a random delay for each kind.
    WatchLate {
        /// Maximum delay, in milliseconds.
        by_ms: u64,
    },
    /// Watch events are delivered twice.
    WatchTwice,
    /// Watches break off. Their events in transit are lost, and they list again.
    WatchCut,
    /// Watches break off and list again from a stale server.
    TimeTravel {
        /// How many changes the server is behind.
        changes: u64,
    },
    /// The server compacts its history: watches end with 410 and list again.
    Compaction,
    /// The process pauses and then continues without noticing it.
    Pause {
        /// Duration of the pause, in milliseconds.
        by_ms: u64,
    },
    /// The wall clock of the process jumps.
    ClockJump {
        /// Offset in milliseconds; negative values move it backwards.
        by_ms: i64,
    },
    /// A second process becomes leader while the first one still leads.
    TwoLeaders {
        /// Duration, in milliseconds.
        for_ms: u64,
    },
    /// The leader stops; the next process becomes leader later.
    Handover {
        /// Time without a leader, in milliseconds.
        gap_ms: u64,
    },
    /// The garbage collector and the namespace controller are slow.
    SlowControlPlane {
        /// Their delay, in milliseconds.
        by_ms: u64,
    },
    /// A user or a foreign controller acts.
    #[serde(rename = "act")]
    Operation {
        /// The name of the operation, from the list of the system under test.
        name: String,
        /// The seed of its details.
        seed: u64,
    },
}

impl What {
    /// The names of all kinds of faults, without operations.
    pub const NAMES: [&str; 25] = [
        "not_found",
        "kind_not_served",
        "already_exists",
        "conflict",
        "invalid",
        "forbidden",
        "gone",
        "throttled",
        "unavailable",
        "unknown",
        "answer_lost",
        "slow_request",
        "slow_answer",
        "crash_before",
        "crash_after",
        "watch_late",
        "watch_twice",
        "watch_cut",
        "time_travel",
        "compaction",
        "pause",
        "clock_jump",
        "two_leaders",
        "handover",
        "slow_control_plane",
    ];

    /// Returns a short name, for counters and for selecting faults.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fail { class, .. } => class.name(),
            Self::AnswerLost => "answer_lost",
            Self::SlowRequest { .. } => "slow_request",
            Self::SlowAnswer { .. } => "slow_answer",
            Self::CrashBefore { .. } => "crash_before",
            Self::CrashAfter { .. } => "crash_after",
            Self::WatchLate { .. } => "watch_late",
            Self::WatchTwice => "watch_twice",
            Self::WatchCut => "watch_cut",
            Self::TimeTravel { .. } => "time_travel",
            Self::Compaction => "compaction",
            Self::Pause { .. } => "pause",
            Self::ClockJump { .. } => "clock_jump",
            Self::TwoLeaders { .. } => "two_leaders",
            Self::Handover { .. } => "handover",
            Self::SlowControlPlane { .. } => "slow_control_plane",
            Self::Operation { .. } => "act",
        }
    }

    /// Returns whether it applies to single requests. Any other fault is injected at a point in time and may last.
    pub fn targets_requests(&self) -> bool {
        matches!(
            self,
            Self::Fail { .. }
                | Self::AnswerLost
                | Self::SlowRequest { .. }
                | Self::SlowAnswer { .. }
                | Self::CrashBefore { .. }
                | Self::CrashAfter { .. }
        )
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| Duration::from_millis(ms);
        match self {
            Self::Fail { class, retry_after_ms: None } => write!(f, "fails: {class}"),
            Self::Fail { class, retry_after_ms: Some(ms) } => {
                write!(f, "fails: {class}, retry after {:?}", seconds(*ms))
            }
            Self::AnswerLost => write!(f, "takes effect, answer lost"),
            Self::SlowRequest { by_ms } => write!(f, "request takes {:?}", seconds(*by_ms)),
            Self::SlowAnswer { by_ms } => write!(f, "answer takes {:?}", seconds(*by_ms)),
            Self::CrashBefore { restart_ms } => {
                write!(f, "process crashes before it takes effect, restarts after {:?}", seconds(*restart_ms))
            }
            Self::CrashAfter { restart_ms } => {
                write!(f, "process crashes after it took effect, restarts after {:?}", seconds(*restart_ms))
            }
            Self::WatchLate { by_ms } => write!(f, "watch events up to {:?} late", seconds(*by_ms)),
            Self::WatchTwice => write!(f, "watch events are delivered twice"),
            Self::WatchCut => write!(f, "watches break off and list again"),
            Self::TimeTravel { changes } => write!(f, "watches list the state of {changes} changes ago"),
            Self::Compaction => write!(f, "history compacted"),
            Self::Pause { by_ms } => write!(f, "process paused for {:?}", seconds(*by_ms)),
            Self::ClockJump { by_ms } => {
                let sign = if *by_ms < 0 { "-" } else { "+" };
                write!(f, "wall clock jumps by {sign}{:?}", seconds(by_ms.unsigned_abs()))
            }
            Self::TwoLeaders { for_ms } => write!(f, "two leaders for {:?}", seconds(*for_ms)),
            Self::Handover { gap_ms } => {
                write!(f, "leadership moves, no leader for {:?}", seconds(*gap_ms))
            }
            Self::SlowControlPlane { by_ms } => {
                write!(f, "controllers of the control plane delayed by {:?}", seconds(*by_ms))
            }
            Self::Operation { name, .. } => write!(f, "{name}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, until] = [self.from_ms, self.until_ms].map(Duration::from_millis);
        let aim = self.aim.as_deref();
        if let Some(controller) = &self.controller {
            write!(f, "{controller}, ")?;
        }
        if self.what.targets_requests() {
            let which = aim.map_or("any request".to_owned(), |aim| format!("any {aim}"));
            write!(f, "{from:?} to {until:?}: {which} {}", self.what)?;
            write!(f, " ({} in 1000, at most {} times)", self.per_mille, self.times)
        } else if let Some(aim) = aim {
            write!(f, "{from:?} to {until:?}, while the first {aim} is under way: {}", self.what)
        } else {
            write!(f, "{from:?} to {until:?}: {}", self.what)
        }
    }
}

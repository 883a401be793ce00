//! What goes wrong in one run, as data: it follows from a seed, can be stored, and can be cut down.

use std::fmt;
use std::time::Duration;

use lockstep_core::engine::action::Class;
use serde::{Deserialize, Serialize};

mod draw;

pub use self::draw::Range;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The controller that is put to the test.
    pub controller: String,
    /// From which delays and everything else that is left to chance follows.
    pub seed: u64,
    /// How long things go wrong, in milliseconds of simulated time.
    pub stormy_ms: u64,
    /// What goes wrong and who acts, in the order of time.
    pub faults: Vec<Fault>,
}

/// One thing that goes wrong, or one act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub what: What,
    /// From when on, in milliseconds of simulated time.
    pub from_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// The action that it is aimed at: a failure befalls only such requests, anything else strikes while the first such
    /// request is under way. Without an aim a failure befalls any request, and anything else strikes when its time has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<String>,
    /// How many of a thousand requests a failure befalls.
    pub per_mille: u32,
    /// How often it strikes at most.
    pub times: u32,
}

/// The kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum What {
    /// A request is answered with this class of failure and has no effect.
    Fail {
        /// The class.
        class: Class,
        /// How long the server asks to be left alone, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// A request takes effect; its answer is lost.
    AnswerLost,
    /// A request is under way for long.
    SlowRequest {
        /// How long.
        by_ms: u64,
    },
    /// An answer is under way for long.
    SlowAnswer {
        /// How long.
        by_ms: u64,
    },
    /// The process dies before a request takes effect.
    CrashBefore {
        /// After how long it begins anew.
        restart_ms: u64,
    },
    /// The process dies after a request took effect, before it knows.
    CrashAfter {
        /// After how long it begins anew.
        restart_ms: u64,
    },
    /// What watches see arrives late, for each kind as late as the dice say.
    WatchLate {
        /// At most so late.
        by_ms: u64,
    },
    /// What watches see is told twice.
    WatchTwice,
    /// Watches break off; what they had under way is lost, and they list anew.
    WatchCut,
    /// Watches break off and list anew from a server that lies behind.
    TimeTravel {
        /// By so many changes.
        changes: u64,
    },
    /// The server forgets its history: watches end with 410 and list anew.
    Compaction,
    /// The process stops for a while, and goes on as if nothing had happened.
    Pause {
        /// For so long.
        by_ms: u64,
    },
    /// The wall clock of the process jumps.
    ClockJump {
        /// So far; backwards if negative.
        by_ms: i64,
    },
    /// A second process begins to lead while the first still does.
    TwoLeaders {
        /// For so long.
        for_ms: u64,
    },
    /// The leader ends; the next one begins to lead later.
    Handover {
        /// So much later.
        gap_ms: u64,
    },
    /// The garbage collector and the namespace controller lie behind.
    SlowControlPlane {
        /// By so much.
        by_ms: u64,
    },
    /// Somebody acts.
    Operation {
        /// What is done; the controller's simulation tells which acts there are.
        name: String,
        /// From which its details follow.
        seed: u64,
    },
}

impl What {
    /// The names of all kinds of faults, acts left out.
    pub const NAMES: [&str; 24] = [
        "not_found",
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

    /// A short name, for counters and for choosing faults.
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

    /// Whether it befalls requests one by one; anything else strikes at an instant and may last.
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
            Self::SlowRequest { by_ms } => write!(f, "request {:?} under way", seconds(*by_ms)),
            Self::SlowAnswer { by_ms } => write!(f, "answer {:?} under way", seconds(*by_ms)),
            Self::CrashBefore { restart_ms } => {
                write!(f, "process dies before it takes effect, begins anew after {:?}", seconds(*restart_ms))
            }
            Self::CrashAfter { restart_ms } => {
                write!(f, "process dies after it took effect, begins anew after {:?}", seconds(*restart_ms))
            }
            Self::WatchLate { by_ms } => write!(f, "watches up to {:?} late", seconds(*by_ms)),
            Self::WatchTwice => write!(f, "watches tell everything twice"),
            Self::WatchCut => write!(f, "watches break off and list anew"),
            Self::TimeTravel { changes } => write!(f, "watches list anew from {changes} changes ago"),
            Self::Compaction => write!(f, "history compacted"),
            Self::Pause { by_ms } => write!(f, "process paused for {:?}", seconds(*by_ms)),
            Self::ClockJump { by_ms } => {
                let sign = if *by_ms < 0 { "-" } else { "+" };
                write!(f, "wall clock jumps by {sign}{:?}", seconds(by_ms.unsigned_abs()))
            }
            Self::TwoLeaders { for_ms } => write!(f, "two leaders for {:?}", seconds(*for_ms)),
            Self::Handover { gap_ms } => {
                write!(f, "leadership moves, nobody leads for {:?}", seconds(*gap_ms))
            }
            Self::SlowControlPlane { by_ms } => write!(f, "control plane {:?} behind", seconds(*by_ms)),
            Self::Operation { name, .. } => write!(f, "{name}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, until] = [self.from_ms, self.until_ms].map(Duration::from_millis);
        let aim = self.aim.as_deref();
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

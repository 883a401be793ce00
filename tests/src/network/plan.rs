//! The faults of a run with their times, drawn from its seed.

use std::fmt;
use std::time::Duration;

use lockstep_engine::random::Random;

use super::timing::{RESYNC, TROUBLE};

/// The operators start without faults until this time.
const CALM: Duration = Duration::from_secs(4);

/// How long crashes, restarts and holds wait at most for a moment at which an operator has just requested a write.
pub const LURKS: Duration = Duration::from_secs(10);

/// A fault. A fault with a duration ends by itself, at the latest with [`TROUBLE`]. A link connects one operator to the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Drops all messages on the link, in both directions, including messages in transit.
    Partition(usize, Duration),
    /// Drops all messages from the operator to the server.
    Mute(usize, Duration),
    /// Drops all messages from the server to the operator.
    Deafen(usize, Duration),
    /// Delays all messages on the link; they arrive at once at the end. Beyond the duration of the lease, requests of a former
    /// leader arrive while another process leads.
    Hold(usize, Duration),
    /// Each message may cause the loss of all messages on the link, with this probability in percent.
    Loss(usize, u64, Duration),
    /// The operator's host crashes and restarts.
    Crash(usize, Duration),
    /// The operator's process is terminated gracefully and started again.
    Terminate(usize),
    /// The server goes down, which closes all connections, and restarts with its state; with or without the history from which
    /// watches resume.
    Restart(Duration, bool),
    /// The server compacts its history while it runs.
    Compact,
    /// The operator's wall clock jumps by this many milliseconds.
    Skew(usize, i64),
}

impl Fault {
    /// Returns how long it lasts.
    pub fn lasts(&self) -> Duration {
        match self {
            Self::Partition(_, lasts)
            | Self::Mute(_, lasts)
            | Self::Deafen(_, lasts)
            | Self::Hold(_, lasts)
            | Self::Loss(_, _, lasts)
            | Self::Crash(_, lasts)
            | Self::Restart(lasts, _) => *lasts,
            Self::Terminate(_) | Self::Compact | Self::Skew(..) => Duration::ZERO,
        }
    }

    /// Returns whether it can lose messages without an error on either side.
    fn is_lossy(&self) -> bool {
        matches!(self, Self::Partition(..) | Self::Mute(..) | Self::Deafen(..) | Self::Loss(..))
    }

    /// Returns a short name, for counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Partition(..) => "partition",
            Self::Mute(..) => "mute",
            Self::Deafen(..) => "deafen",
            Self::Hold(..) => "hold",
            Self::Loss(..) => "loss",
            Self::Crash(..) => "crash",
            Self::Terminate(_) => "terminate",
            Self::Restart(_, false) => "restart",
            Self::Restart(_, true) => "restart without history",
            Self::Compact => "compact",
            Self::Skew(..) => "skew",
        }
    }

    /// Returns whether it waits for the worst moment, up to [`LURKS`].
    pub fn lurks(&self) -> bool {
        matches!(self, Self::Crash(..) | Self::Restart(..) | Self::Hold(..))
    }

    /// Returns how long after its planned time it has ended at the latest.
    fn over_after(&self) -> Duration {
        if self.lurks() { LURKS + self.lasts() } else { self.lasts() }
    }

    /// Returns the target that it occupies while it lasts: a link, a host, or the server. Faults of one target don't overlap,
    /// because turmoil has one state for each.
    fn subject(&self) -> Option<usize> {
        match self {
            Self::Partition(n, _)
            | Self::Mute(n, _)
            | Self::Deafen(n, _)
            | Self::Hold(n, _)
            | Self::Loss(n, ..) => Some(*n),
            Self::Crash(n, _) => Some(10 + n),
            Self::Restart(..) => Some(0),
            Self::Terminate(_) | Self::Compact | Self::Skew(..) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The maximum latency of a message; most take less.
    pub latency: Duration,
    /// The faults with their times, in order.
    pub faults: Vec<(Duration, Fault)>,
}

/// How long a watch may receive nothing before it treats its connection as dead (kube's watcher: 290 s and a margin of 5 s).
const DEAF: Duration = Duration::from_secs(295);

/// How long after all watches receive events again the cluster must reach the desired state. The lease of another process must
/// expire (15 s). Requests that failed during fault injection are retried (after up to 64 s by then). A binding that users kept
/// editing counts as contested until it was quiet for twice the last delay.
const CATCH_UP: Duration = Duration::from_mins(2);

impl Plan {
    /// Returns when every watch has noticed at the latest what it missed. Messages that were lost without an error leave
    /// connections open on which nothing arrives any more. All other faults are noticed at once.
    pub fn heard_by(&self) -> Duration {
        let lossy = self.faults.iter().filter(|(_, fault)| fault.is_lossy());
        let last = lossy.map(|(at, fault)| *at + fault.lasts() + DEAF).max();
        last.unwrap_or_default().max(TROUBLE)
    }

    /// Returns when the cluster must be in the desired state. If a leader with a stale view wrote a status last, that enqueues
    /// nothing: the next resync corrects it.
    pub fn settled_by(&self) -> Duration {
        self.heard_by() + RESYNC + CATCH_UP
    }

    /// Draws a plan.
    pub fn draw(random: &mut Random) -> Self {
        let latency = random.pick(&[60, 100, 200, 500, 1500]);
        let mut faults: Vec<(Duration, Fault)> = Vec::new();
        for _ in 0..random.below(9) {
            let at = CALM + Duration::from_millis(random.below(millis(TROUBLE.saturating_sub(CALM))));
            let fault = draw(random, TROUBLE.saturating_sub(at));
            let busy = |(from, other): &(Duration, Fault)| {
                other.subject() == fault.subject()
                    && *from <= at + fault.over_after()
                    && at <= *from + other.over_after()
            };
            if fault.subject().is_none() || !faults.iter().any(busy) {
                faults.push((at, fault));
            }
        }
        faults.sort_by_key(|(at, _)| *at);
        Self { latency: Duration::from_millis(latency), faults }
    }
}

fn draw(random: &mut Random, left: Duration) -> Fault {
    let n = 1 + usize::from(random.below(2) == 1);
    let mut lasts = |seconds: &[u64]| {
        let drawn = Duration::from_secs(random.pick(seconds)) + Duration::from_millis(random.below(1000));
        drawn.min(left)
    };
    let short = lasts(&[0, 1, 3, 8]);
    let long = lasts(&[1, 5, 12, 18, 25, 40]);
    match random.below(12) {
        0 => Fault::Partition(n, long),
        1 => Fault::Mute(n, long),
        2 => Fault::Deafen(n, long),
        3 | 4 => Fault::Hold(n, long),
        5 => Fault::Loss(n, random.pick(&[1, 5, 20]), long),
        6 | 7 => Fault::Crash(n, short),
        8 => Fault::Terminate(n),
        9 => Fault::Restart(short, random.below(2) == 1),
        10 => Fault::Compact,
        _ => {
            let by = random.pick(&[50_i64, 5_000, 60_000, 86_400_000]);
            Fault::Skew(n, if random.below(2) == 1 { by } else { -by })
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

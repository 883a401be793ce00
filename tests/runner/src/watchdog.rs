//! A watchdog for tests that hang. On a busy machine tests take long, so elapsed time alone proves nothing.

use std::fs;
use std::time::{Duration, Instant};

/// A binary in which no test ends hangs after this much time, if it waits.
const WAIT_MAX: Duration = Duration::from_mins(15);
/// A binary waits if it used less than this share of a processor.
const WAITING: u32 = 100;
/// A binary in which no test ends hangs after this much processor time: two tests at a time get as much in [`WAIT_MAX`].
const WORK_MAX: Duration = Duration::from_mins(30);
/// The unit of processor times in `/proc`, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has done since a test of it last began or ended.
pub(crate) struct Watchdog {
    process: u32,
    since: Instant,
    worked_before: Duration,
}

impl Watchdog {
    /// Begins with a process that has just been started.
    pub(crate) fn new(process: u32) -> Self {
        Self { process, since: Instant::now(), worked_before: Duration::ZERO }
    }

    /// Notes that a test began or ended.
    pub(crate) fn reset(&mut self) {
        self.since = Instant::now();
        self.worked_before = worked(self.process);
    }

    /// Returns why a test hangs, if one does.
    pub(crate) fn expired(&self) -> Option<String> {
        judge(self.since.elapsed(), worked(self.process).saturating_sub(self.worked_before))
    }
}

fn judge(elapsed: Duration, worked: Duration) -> Option<String> {
    if worked > WORK_MAX {
        Some(format!("no test ended within {worked:.0?} of processor time"))
    } else if elapsed > WAIT_MAX && worked < elapsed / WAITING {
        Some(format!("no test ended within {elapsed:.0?}, and nothing was computed"))
    } else {
        None
    }
}

/// Returns the processor time of a process; zero where the system does not tell it.
fn worked(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name of the program is in parentheses and may contain spaces.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    Duration::from_secs_f64(ticks.sum::<f64>().max(0.0) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_no_hang() {
        let minutes = Duration::from_mins;
        for (elapsed, worked, hangs) in [
            (minutes(14), minutes(0), false),
            (minutes(16), minutes(0), true),
            // One of 25 processes on two processors.
            (minutes(60), minutes(4), false),
            (minutes(120), minutes(1), true),
            (minutes(20), minutes(31), true),
        ] {
            assert_eq!(judge(elapsed, worked).is_some(), hangs, "{worked:?} of work in {elapsed:?}");
        }
    }

    #[test]
    fn the_processor_time_of_a_process_is_read() {
        let before = worked(std::process::id());
        while worked(std::process::id()) == before {
            std::hint::black_box(before);
        }
    }
}

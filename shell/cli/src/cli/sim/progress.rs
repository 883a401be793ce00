//! The progress of a search, on stderr: a bar on a terminal, otherwise a line from time to time.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lockstep_sim::Search;

use super::interrupt::Stop;
use crate::cli::count::count;

/// The interval between progress lines without a terminal. A short search prints none.
const PERIOD: Duration = Duration::from_secs(10);

/// Shows the progress of `search` while it runs. After each run, the search reports the number of runs made, and the returned
/// value decides whether it continues.
pub(super) fn of<T>(
    search: &Search,
    name: &str,
    stop: &Stop,
    run: impl FnOnce(&(dyn Fn(u64) -> ControlFlow<()> + Sync)) -> T,
) -> T {
    let all = search.seeds.end - search.seeds.start;
    if !std::io::stderr().is_terminal() {
        let (began, printed_at) = (Instant::now(), Mutex::new(Instant::now()));
        return run(&|done| {
            if let Ok(mut printed_at) = printed_at.lock()
                && printed_at.elapsed() >= PERIOD
            {
                *printed_at = Instant::now();
                let line = line(name, done, all, began.elapsed());
                // If stderr is closed, the line can't be printed.
                let _ = writeln!(std::io::stderr(), "{line}");
            }
            stop.flow()
        });
    }
    let bar = ProgressBar::new(all);
    let style = "{prefix}  {wide_bar}  {pos}/{len} runs  {per_sec}  {eta} left";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    bar.set_prefix(name.to_owned());
    let result = run(&|done| {
        bar.set_position(done);
        stop.flow()
    });
    bar.finish_and_clear();
    result
}

/// Shows the progress of an exploration while it runs. After each new state, it reports their number, and the returned value
/// decides whether it continues.
pub(super) fn of_states<T>(
    name: &str,
    stop: &Stop,
    run: impl FnOnce(&dyn Fn(u64) -> ControlFlow<()>) -> T,
) -> T {
    let (began, printed_at) = (Instant::now(), Cell::new(Instant::now()));
    let line = |states| format!("{name}: {} in {} s", count(states, "state"), began.elapsed().as_secs());
    // It is hidden without a terminal, and limits how often it is drawn.
    let spinner = ProgressBar::new_spinner();
    let is_terminal = std::io::stderr().is_terminal();
    let result = run(&|states| {
        // Not each state is worth a line or a look at the clock.
        if states.is_multiple_of(100) {
            if is_terminal {
                spinner.set_message(line(states));
            } else if printed_at.get().elapsed() >= PERIOD {
                printed_at.set(Instant::now());
                // If stderr is closed, the line can't be printed.
                let _ = writeln!(std::io::stderr(), "{}", line(states));
            }
        }
        stop.flow()
    });
    spinner.finish_and_clear();
    result
}

fn line(name: &str, done: u64, all: u64, took: Duration) -> String {
    let left = took.as_secs() * all.saturating_sub(done) / done.max(1);
    format!("{name}: {done} of {}, about {left} s left", count(all, "run"))
}

/// Shows the elapsed time of an operation with an unknown end.
pub(super) fn while_it_lasts<T>(what: String, run: impl FnOnce() -> T) -> T {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.enable_steady_tick(Duration::from_millis(100));
    let result = run();
    spinner.finish_and_clear();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_remaining_time() {
        let line = |done| line("bridge", done, 1000, Duration::from_secs(20));
        assert_eq!(line(200), "bridge: 200 of 1000 runs, about 80 s left");
        assert_eq!(line(1000), "bridge: 1000 of 1000 runs, about 0 s left");
        assert_eq!(super::line("bridge", 1, 1, Duration::ZERO), "bridge: 1 of 1 run, about 0 s left");
    }
}

//! How far a search has come, on stderr; nothing where that is no terminal.

use indicatif::{ProgressBar, ProgressStyle};
use lockstep_sim::simulation::Search;

/// Shows a bar while `search` runs, which tells it how many runs have been made.
pub(super) fn of<T>(search: &Search, name: &str, run: impl FnOnce(&(dyn Fn(u64) + Sync)) -> T) -> T {
    let bar = ProgressBar::new(search.seeds.end - search.seeds.start);
    let style = "{prefix}  {wide_bar}  {pos}/{len} runs  {per_sec}  {eta} left";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    bar.set_prefix(name.to_owned());
    let result = run(&|done| bar.set_position(done));
    bar.finish_and_clear();
    result
}

/// Shows for how long something has been under way whose end nobody knows.
pub(super) fn while_it_lasts<T>(what: String, run: impl FnOnce() -> T) -> T {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.enable_steady_tick(std::time::Duration::from_millis(100));
    let result = run();
    spinner.finish_and_clear();
    result
}

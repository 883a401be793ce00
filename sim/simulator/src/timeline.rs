//! The timeline of a run: each event with its time and author, as data, as text and as a page.
//!
//! ```text
//!   plan, run ───────────────┐
//!                            ├▶ Timeline ─┬▶ text()  for terminals and logs
//!   recording, what if ──────┘            └▶ html()  one self-contained page
//! ```

use std::collections::BTreeSet;

use lockstep_engine::recording::what_if::ComparedStep;

pub use self::model::{Compared, Condition, Item, Kind, Lane, Timeline};
use super::plan::Plan;
use super::run::Run;

mod build;
mod compared;
mod conditions;
mod model;
mod page;
mod text;
mod words;

#[cfg(test)]
mod tests;

impl Timeline {
    /// Returns the timeline of a run of a plan. Without a journal, it has only the injections and the violation.
    pub fn of(plan: &Plan, run: &Run) -> Self {
        let mut timeline = build::timeline(plan, run);
        let several = run.controllers.values().collect::<BTreeSet<_>>().len() > 1;
        for lane in timeline.lanes.iter_mut().filter(|_| several) {
            if let Lane::Process(process) = *lane
                && let Some(controller) = run.controllers.get(&process)
            {
                *lane = Lane::ProcessOf(process, controller);
            }
        }
        timeline
    }

    /// Returns the timeline of a recorded run and its counterfactual, side by side. The event of the step is edited.
    pub fn compared(controller: &str, step: u64, edit: &str, steps: &[ComparedStep]) -> Self {
        compared::timeline(controller, step, edit, steps)
    }

    /// Adds the command that reproduces the run.
    #[must_use]
    pub fn with_replay(self, command: impl Into<String>) -> Self {
        Self { replay: Some(command.into()), ..self }
    }

    /// Returns the timeline for terminals and logs: a header, and a line for each item. Consecutive routine items are folded into
    /// one line.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// Returns the timeline as one self-contained page.
    pub fn html(&self) -> String {
        page::html(self)
    }
}

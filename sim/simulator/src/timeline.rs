//! The timeline of a run: each event with its time and author, as data, as text and as a page.
//!
//! ```text
//!   plan, run ─▶ Timeline ─┬▶ text()  for terminals and logs
//!                          └▶ html()  one self-contained page
//! ```

pub use self::model::{Condition, Item, Kind, Lane, Timeline};
use super::plan::Plan;
use super::run::Run;

mod build;
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
        build::timeline(plan, run)
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

//! Coverage: which combinations of request, view, answer and fault the runs of a search have reached.

mod collector;
mod combination;
mod gaps;

pub(super) use self::collector::Collector;
pub use self::combination::{Combination, Reached, View};
pub use self::gaps::{Gap, Reason, gaps, is_false_answer};

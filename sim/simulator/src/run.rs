//! One run: fault injection by plan, then recovery, then a quiet period.

mod check;
mod outcome;
mod program;
mod rebuilt;
mod running;
mod simulation;

pub(crate) use self::check::check;
pub use self::outcome::{LIVENESS, Run, Violation};
pub(super) use self::program::seed_of;
pub use self::simulation::Simulation;

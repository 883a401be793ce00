//! Simulates a whole cluster in virtual time: the API server model, its actors, and processes that run machines.
//!
//! One queue holds everything in transit (requests, answers and watch events), ordered by time of arrival. The clock jumps from
//! one arrival or deadline to the next. The inputs determine everything, so the same calls give the same run. A [`FaultModel`]
//! decides which faults are injected and how long each step takes.

mod engine;
mod external_systems;
mod faults;
mod journal;
mod process;
mod requests;
mod state;
mod stream;
mod watches;

pub use self::engine::Restless;
pub use self::external_systems::{Combined, ExternalSystems};
pub use self::faults::{FaultModel, FaultVerdict, Interference, NoFaults, SlowAnswers, SlowPatches, Transit};
pub use self::journal::{Author, Carried, Change, Entry, What};
pub use self::process::Program;
pub use self::state::Cluster;
pub(crate) use self::stream::Stream;

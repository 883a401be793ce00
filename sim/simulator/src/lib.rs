//! The simulator: runs a controller under a plan of faults and checks its invariants. It belongs here if the simulation of any
//! controller could use it: the cluster in virtual time, faults, plans, searches, timelines, dry runs. A controller implements
//! [`SystemUnderTest`] in a crate of its own.
//!
//! ```text
//!   seed ─▶ plan ─▶ run: storm, calm, quiet ─▶ hash, counters ─▶ summary
//!                     │ each step: invariants
//!                     └─ violated ─▶ shrink the plan ─▶ replay command, timeline
//! ```

pub mod bugs;
pub mod cluster;
pub mod conditions;
pub mod coverage;
pub mod crds;
pub mod draw;
pub mod dry_run;
pub mod explorable;
pub mod explore;
pub mod history;
pub mod invariant;
pub mod plan;
mod planned_faults;
mod recording;
pub mod run;
pub mod search;
mod secret;
pub mod shrink;
pub mod subject;
pub mod timeline;
mod trace;

pub use lockstep_apiserver::server::ApiServer;

pub use self::explore::{Exploration, Explored};
pub use self::plan::Plan;
pub use self::planned_faults::{Injection, Struck};
pub use self::recording::record;
pub use self::run::{Run, Simulation, Violation};
pub use self::search::{Search, Summary};
pub use self::subject::{Checker, Client, Operation, SmallWorld, SystemUnderTest, Testimony, User, World};
pub use self::timeline::Timeline;
pub use self::trace::combine;

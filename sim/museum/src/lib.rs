//! Published bugs of Kubernetes operators, planted again in small controllers, for the simulator to find. It belongs here if it is
//! a bug with a source, or the small controller in which such a bug is planted.
//!
//! ```text
//!   exhibit ─▶ controller with the bug ─▶ simulation: faults, operations, invariants ─▶ the seed that finds it
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | [`exhibit`] | a bug with its source |
//! | [`process`] | the machine that runs any of the controllers |
//! | [`pass`] | one reconcile, written as a sequence of requests |
//! | [`controller`] | what a controller provides |
//! | [`kinds`], [`rules`] | the objects, and what invariants share |
//! | [`mirror`] | copies text to another namespace: finalizers, names, owners |
//! | [`fleet`] | an object for each cluster: lists and pruning |
//! | [`expander`] | a template with volumes: a change in several steps |
//! | [`scaler`] | workers with volumes: a change in order |
//! | [`reporter`] | status, events and watches |
//! | [`runner`] | a worker that runs once |
//! | [`kubelet`] | runs workers; it is no exhibit |

pub mod controller;
pub mod exhibit;
pub mod expander;
pub mod fleet;
pub mod kinds;
pub mod kubelet;
pub mod mirror;
pub mod pass;
pub mod process;
pub mod reporter;
pub mod rules;
pub mod runner;
pub mod scaler;

use lockstep_sim::SystemUnderTest;

pub use self::exhibit::{Class, Exhibit};

/// Each bug is found within so many seeds, from the first one.
pub const SEEDS_MAX: u64 = 400;

/// Returns all exhibits, by controller.
pub fn exhibits() -> impl Iterator<Item = &'static Exhibit> {
    let rooms = [
        mirror::exhibits::ALL,
        fleet::exhibits::ALL,
        expander::exhibits::ALL,
        scaler::exhibits::ALL,
        reporter::exhibits::ALL,
        runner::exhibits::ALL,
    ];
    rooms.into_iter().flatten()
}

/// The controllers without a bug.
pub static SOUND: [&dyn SystemUnderTest; 6] = [
    &mirror::Mirror(None),
    &fleet::Fleet(None),
    &expander::Expander(None),
    &scaler::Scaler(None),
    &reporter::Reporter(None),
    &runner::Runner(None),
];

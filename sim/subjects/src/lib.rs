//! The four controllers as systems under test: their operations, invariants and planted bugs, one folder for each controller.
//! What only one of our controllers needs in its simulation belongs here; what any could use belongs in `lockstep-sim`.

use lockstep_sim::subject::SystemUnderTest;

pub mod bridge;
pub mod bugs;
pub mod dpuservice;
pub mod namespaceclass;
pub mod sentinel;

/// Returns all of them.
pub fn all() -> [&'static dyn SystemUnderTest; 4] {
    [&bridge::Bridge, &dpuservice::DpuService, &namespaceclass::NamespaceClass, &sentinel::Sentinel]
}

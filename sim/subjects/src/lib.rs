//! The four controllers as systems under test, each alone and all [`together`]: their operations, invariants and planted bugs,
//! one folder for each controller.
//! What only one of our controllers needs in its simulation belongs here; what any could use belongs in `lockstep-sim`.

use lockstep_sim::subject::{SmallWorld, SystemUnderTest};

mod announced;
pub mod bridge;
pub mod bugs;
mod dpf;
pub mod dpuservice;
mod kinds;
pub mod namespaceclass;
mod passes;
pub mod sentinel;
pub mod together;

/// Returns all of them, each alone.
pub fn all() -> [&'static dyn SystemUnderTest; 4] {
    [&bridge::Bridge, &dpuservice::DpuService, &namespaceclass::NamespaceClass, &sentinel::Sentinel]
}

/// Returns the small cases of a controller in which every run can be explored, the smallest first.
pub fn explorable(controller: &str) -> &'static [SmallWorld] {
    match controller {
        lockstep_crds::namespaceclass::CONTROLLER => &namespaceclass::small::ALL,
        lockstep_crds::dpuservice::CONTROLLER => &dpuservice::small::ALL,
        lockstep_crds::bridge::CONTROLLER => &bridge::small::ALL,
        lockstep_crds::sentinel::CONTROLLER => &sentinel::small::ALL,
        _ => &[],
    }
}

/// Returns the system under test with that name.
pub fn named(name: &str) -> Option<&'static dyn SystemUnderTest> {
    let together: &'static dyn SystemUnderTest = &together::Together;
    all().into_iter().chain([together]).find(|subject| subject.name() == name)
}

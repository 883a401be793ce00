//! The controllers as systems under test, one folder for each.

use super::subject::SystemUnderTest;

pub mod bridge;
pub mod dpuservice;
pub mod namespaceclass;
pub mod sentinel;

/// Returns all of them.
pub fn all() -> [&'static dyn SystemUnderTest; 4] {
    [&bridge::Bridge, &dpuservice::DpuService, &namespaceclass::NamespaceClass, &sentinel::Sentinel]
}

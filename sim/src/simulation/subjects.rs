//! The controllers as the simulator knows them, one folder each.

use super::subject::SystemUnderTest;

pub mod bridge;
pub mod dpuservice;
pub mod namespaceclass;
pub mod sentinel;

/// All of them.
pub fn all() -> [&'static dyn SystemUnderTest; 4] {
    [&bridge::Bridge, &dpuservice::DpuService, &namespaceclass::NamespaceClass, &sentinel::Sentinel]
}

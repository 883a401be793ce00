//! The controllers as the simulator knows them, one folder each.

use super::subject::Subject;

pub mod bridge;
pub mod namespaceclass;
pub mod sentinel;

/// All of them.
pub fn all() -> [&'static dyn Subject; 3] {
    [&bridge::Bridge, &namespaceclass::NamespaceClass, &sentinel::Sentinel]
}

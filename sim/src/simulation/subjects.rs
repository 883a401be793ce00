//! The controllers as the simulator knows them, one folder each.

use super::subject::Subject;

pub mod namespaceclass;

/// All of them.
pub fn all() -> [&'static dyn Subject; 1] {
    [&namespaceclass::NamespaceClass]
}

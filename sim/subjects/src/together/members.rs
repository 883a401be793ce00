//! The controllers in one cluster.

use lockstep_sim::subject::SystemUnderTest;

use crate::bridge::Bridge;
use crate::dpuservice::DpuService;
use crate::namespaceclass::NamespaceClass;
use crate::sentinel::Sentinel;

/// Each of them, as it is tested alone.
pub(super) const MEMBERS: &[&dyn SystemUnderTest] = &[&Bridge, &DpuService, &NamespaceClass, &Sentinel];

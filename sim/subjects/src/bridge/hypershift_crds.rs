//! The CRDs of HyperShift, which admins delete and create again.

use std::sync::Arc;

use lockstep_bridge::names;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use lockstep_external::System;
use lockstep_sim::subject::{Client, Operation};

use crate::kinds;

/// Deletes one of the CRDs. It stays until HyperShift has torn down all objects of its kind.
pub(crate) const DELETE_CRD: Operation = Operation::new("delete a CRD of HyperShift", "admin", 1, delete_crd);
/// Creates them again.
pub(crate) const CREATE_CRDS: Operation =
    Operation::new("create the CRDs of HyperShift", "admin", 4, |client, _| install(client));

fn kinds() -> [Arc<Kind>; 2] {
    [names::hosted_cluster(), names::node_pool()]
}

fn delete_crd(client: &mut dyn Client, random: &mut Random) {
    kinds::uninstall_one(client, &kinds(), random);
}

pub(super) fn install(client: &mut dyn Client) {
    kinds::install(client, System::HyperShift);
}

pub(super) fn is_installed(client: &dyn Client) -> bool {
    kinds::are_installed(client, &kinds())
}

//! The CRDs of Argo CD, which admins delete and create again.

use std::sync::Arc;

use lockstep_dpuservice::names;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use lockstep_external::System;
use lockstep_sim::subject::{Client, Operation};

use crate::kinds;

/// Deletes one of the CRDs with all objects of its kind. Applications stay until Argo CD has removed what they deployed.
pub(crate) const DELETE_CRD: Operation = Operation::new("delete a CRD of Argo CD", "admin", 1, delete_crd);
/// Creates them again.
pub(crate) const CREATE_CRDS: Operation =
    Operation::new("create the CRDs of Argo CD", "admin", 4, |client, _| install(client));

fn kinds() -> [Arc<Kind>; 2] {
    [names::application(), names::project()]
}

fn delete_crd(client: &mut dyn Client, random: &mut Random) {
    kinds::uninstall_one(client, &kinds(), random);
}

pub(super) fn install(client: &mut dyn Client) {
    kinds::install(client, System::ArgoCd);
}

pub(super) fn is_installed(client: &dyn Client) -> bool {
    kinds::are_installed(client, &kinds())
}

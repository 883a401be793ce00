//! The CRDs of HyperShift, which admins delete and create again.

use std::sync::Arc;

use lockstep_bridge::names;
use lockstep_engine::object::{Kind, ObjectRef, metadata};
use lockstep_engine::random::Random;
use lockstep_external::{System, definitions, older_hypershift};
use lockstep_sim::crds;
use lockstep_sim::subject::{Client, Operation};
use serde_json::{Value, json};

use crate::kinds;

/// Deletes one of the CRDs. It stays until HyperShift has torn down all objects of its kind.
pub(crate) const DELETE_CRD: Operation = Operation::new("delete a CRD of HyperShift", "admin", 1, delete_crd);
/// Creates them again.
pub(crate) const CREATE_CRDS: Operation =
    Operation::new("create the CRDs of HyperShift", "admin", 4, |client, _| install(client));
/// Updates HyperShift, which was older at the start.
pub(super) const UPDATE: Operation =
    Operation::new("update HyperShift", "admin", 1, |client, _| update(client));

fn kinds() -> [Arc<Kind>; 2] {
    [names::hosted_cluster(), names::node_pool()]
}

fn delete_crd(client: &mut dyn Client, random: &mut Random) {
    kinds::uninstall_one(client, &kinds(), random);
}

/// Replaces the CRDs by those of a HyperShift that can't allocate the CIDRs of nodes.
pub(super) fn begin(client: &mut dyn Client) {
    replace(client, &older_hypershift());
}

fn update(client: &mut dyn Client) {
    replace(client, &definitions(&[System::HyperShift]));
}

fn replace(client: &mut dyn Client, definitions: &[Value]) {
    for crd in definitions {
        let target = ObjectRef::cluster(&crds::kind(), metadata(crd, "name"));
        client.merge(&target, &json!({ "spec": { "versions": crd["spec"]["versions"] } }));
    }
}

pub(super) fn install(client: &mut dyn Client) {
    kinds::install(client, System::HyperShift);
}

pub(super) fn is_installed(client: &dyn Client) -> bool {
    kinds::are_installed(client, &kinds())
}

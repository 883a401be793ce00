//! The CRDs of HyperShift, which admins delete and create again.

use std::sync::Arc;

use lockstep_bridge::names;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use lockstep_external::{System, hypershift};
use lockstep_sim::crds;
use lockstep_sim::subject::{Client, Operation};

use crate::kinds;

/// Deletes one of the CRDs. It stays until HyperShift has torn down all objects of its kind.
pub(crate) const DELETE_CRD: Operation = Operation::new("delete a CRD of HyperShift", "admin", 2, delete_crd);
/// Creates them again: those of this HyperShift, or of an older one.
pub(crate) const CREATE_CRDS: Operation =
    Operation::new("create the CRDs of HyperShift", "admin", 4, |client, random| {
        if random.below(2) == 0 {
            install_older(client);
        }
        install(client);
    });

fn kinds() -> [Arc<Kind>; 2] {
    [names::hosted_cluster(), names::node_pool()]
}

fn delete_crd(client: &mut dyn Client, random: &mut Random) {
    kinds::uninstall_one(client, &kinds(), random);
}

/// Creates the CRDs of a HyperShift that can't allocate the CIDRs of nodes.
fn install_older(client: &mut dyn Client) {
    for crd in hypershift::older_definitions() {
        client.create(&crds::kind(), &crd);
    }
}

pub(super) fn install(client: &mut dyn Client) {
    kinds::install(client, System::HyperShift);
}

pub(super) fn is_installed(client: &dyn Client) -> bool {
    kinds::are_installed(client, &kinds())
}

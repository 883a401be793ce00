//! The CRDs of HyperShift, which admins delete and create again.

use lockstep_bridge::names;
use lockstep_engine::random::Random;
use lockstep_external::{System, definitions};
use lockstep_sim::crds;
use lockstep_sim::subject::{Client, Operation};

/// Deletes one of the CRDs. It stays until HyperShift has torn down all objects of its kind.
pub(crate) const DELETE_CRD: Operation = Operation::new("delete a CRD of HyperShift", "admin", 1, delete_crd);
/// Creates them again.
pub(crate) const CREATE_CRDS: Operation =
    Operation::new("create the CRDs of HyperShift", "admin", 4, |client, _| install(client));

fn delete_crd(client: &mut dyn Client, random: &mut Random) {
    let kind = if random.below(2) == 0 { names::hosted_cluster() } else { names::node_pool() };
    client.delete(&crds::of(&kind));
}

/// Creates the CRDs, if they do not exist.
pub(super) fn install(client: &mut dyn Client) {
    for crd in definitions(&[System::HyperShift]) {
        client.create(&crds::kind(), &crd);
    }
}

/// Returns whether both kinds are served, and will be.
pub(super) fn is_installed(client: &dyn Client) -> bool {
    [names::hosted_cluster(), names::node_pool()].iter().all(|kind| crds::is_served(client.server(), kind))
}

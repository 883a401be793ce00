//! The CRDs of Argo CD, which admins delete and create again.

use lockstep_dpuservice::names;
use lockstep_engine::random::Random;
use lockstep_external::{System, definitions};
use lockstep_sim::crds;
use lockstep_sim::subject::{Client, Operation};

/// Deletes one of the CRDs with all objects of its kind. Applications stay until Argo CD has removed what they deployed.
pub(crate) const DELETE_CRD: Operation = Operation::new("delete a CRD of Argo CD", "admin", 1, delete_crd);
/// Creates them again.
pub(crate) const CREATE_CRDS: Operation =
    Operation::new("create the CRDs of Argo CD", "admin", 4, |client, _| install(client));

fn delete_crd(client: &mut dyn Client, random: &mut Random) {
    let kind = if random.below(2) == 0 { names::application() } else { names::project() };
    client.delete(&crds::of(&kind));
}

/// Creates the CRDs, if they do not exist.
pub(super) fn install(client: &mut dyn Client) {
    for crd in definitions(&[System::ArgoCd]) {
        client.create(&crds::kind(), &crd);
    }
}

/// Returns whether both kinds are served, and will be.
pub(super) fn is_installed(client: &dyn Client) -> bool {
    [names::application(), names::project()].iter().all(|kind| crds::is_served(client.server(), kind))
}

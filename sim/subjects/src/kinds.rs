//! The kinds of a controller and of the systems around it.

use std::sync::Arc;

use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use lockstep_external::{System, definitions};
use lockstep_sim::crds;
use lockstep_sim::subject::Client;
use serde_json::json;

/// Creates them, if they do not exist.
pub(crate) fn create(client: &mut dyn Client, controller: &str, systems: &[System]) {
    let ours = lockstep_crds::of(controller).into_iter().map(|crd| json!(crd));
    for crd in ours.chain(definitions(systems)) {
        client.create_kind(&crd, &[]);
    }
}

/// Creates the CRDs of a system again, if they do not exist. One that is being deleted stays away.
pub(crate) fn install(client: &mut dyn Client, system: System) {
    for crd in definitions(&[system]) {
        client.create(&crds::kind(), &crd);
    }
}

/// Returns whether all of these kinds are served, and will be.
pub(crate) fn are_installed(client: &dyn Client, kinds: &[Arc<Kind>]) -> bool {
    kinds.iter().all(|kind| crds::is_served(client.server(), kind))
}

/// Deletes the CRD of one of two kinds.
pub(crate) fn uninstall_one(client: &mut dyn Client, kinds: &[Arc<Kind>; 2], random: &mut Random) {
    let [one, other] = kinds;
    client.delete(&crds::of(if random.below(2) == 0 { one } else { other }));
}

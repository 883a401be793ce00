//! The kinds of a controller and of the systems around it.

use lockstep_external::{System, definitions};
use lockstep_sim::subject::Client;
use serde_json::json;

/// Creates them, if they do not exist.
pub(crate) fn create(client: &mut dyn Client, controller: &str, systems: &[System]) {
    let ours = lockstep_crds::of(controller).into_iter().map(|crd| json!(crd));
    for crd in ours.chain(definitions(systems)) {
        client.create_kind(&crd, &[]);
    }
}

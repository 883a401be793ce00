//! The CRD of DPUClusters, which admins delete and create again.

use lockstep_engine::random::Random;
use lockstep_external::System;
use lockstep_external::dpu_clusters::cluster_kind;
use lockstep_sim::crds;
use lockstep_sim::subject::{Client, Operation};

use crate::kinds;

/// Uninstalls DPF. All DPUClusters are deleted with their CRD.
pub(crate) const DELETE_CRD: Operation =
    Operation::new("delete the CRD of DPUClusters", "admin", 1, delete_crd);
/// Installs DPF again. Its DPUClusters have to be created again.
pub(crate) const CREATE_CRD: Operation =
    Operation::new("create the CRD of DPUClusters", "admin", 4, |client, _| install(client));

fn delete_crd(client: &mut dyn Client, _: &mut Random) {
    client.delete(&crds::of(&cluster_kind()));
}

pub(crate) fn install(client: &mut dyn Client) {
    kinds::install(client, System::Dpf);
}

pub(crate) fn is_installed(client: &dyn Client) -> bool {
    kinds::are_installed(client, &[cluster_kind()])
}

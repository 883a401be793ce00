//! The traits that a recording of the Bridge needs.

use lockstep_crds::bridge::CONTROLLER;
use lockstep_engine::recording::{Form, Traits};

use super::parse::{docker_config, ssh_key};

/// The traits of the Bridge for recordings.
pub(super) const TRAITS: Traits = Traits {
    mark: None,
    words: &[
        include_str!("lib.rs"),
        include_str!("deletion.rs"),
        include_str!("dpucluster.rs"),
        include_str!("exposure.rs"),
        include_str!("hosted_cluster.rs"),
        include_str!("image.rs"),
        include_str!("kubeconfig.rs"),
        include_str!("metrics.rs"),
        include_str!("names.rs"),
        include_str!("node_pool.rs"),
        include_str!("pass.rs"),
        include_str!("pass/deciding.rs"),
        include_str!("pass/looking.rs"),
        include_str!("phase.rs"),
        include_str!("prerequisites.rs"),
        include_str!("readiness.rs"),
        include_str!("secrets.rs"),
        include_str!("source.rs"),
        include_str!("status.rs"),
        include_str!("view.rs"),
        include_str!("vip.rs"),
        include_str!("watches.rs"),
        include_str!("world.rs"),
        include_str!("parse/docker_config.rs"),
        include_str!("parse/ssh_key.rs"),
    ],
    kinds: || lockstep_crds::of(CONTROLLER),
    forms: &[
        Form { key: ".dockerconfigjson", stand_in: docker_config::stand_in },
        Form { key: "ssh-publickey", stand_in: ssh_key::stand_in },
        Form { key: "id_rsa.pub", stand_in: ssh_key::stand_in },
    ],
};

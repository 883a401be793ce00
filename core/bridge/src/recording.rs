//! The traits that a recording of the Bridge needs.

use lockstep_crds::bridge::CONTROLLER;
use lockstep_engine::recording::{Form, Traits};

use super::parse::{docker_config, ssh_key};

/// The traits of the Bridge for recordings.
pub(super) const TRAITS: Traits = Traits {
    mark: None,
    words: include_str!(concat!(env!("OUT_DIR"), "/words.txt")),
    kinds: || lockstep_crds::of(CONTROLLER),
    forms: &[
        Form { key: ".dockerconfigjson", stand_in: docker_config::stand_in },
        Form { key: "ssh-publickey", stand_in: ssh_key::stand_in },
        Form { key: "id_rsa.pub", stand_in: ssh_key::stand_in },
    ],
};

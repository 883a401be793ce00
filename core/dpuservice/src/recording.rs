//! The traits that a recording of the controller needs.

use lockstep_crds::dpuservice::CONTROLLER;
use lockstep_engine::recording::{Form, Hide, Traits};

use crate::model::kubeconfig;

/// The traits of the controller for recordings.
pub(crate) const TRAITS: Traits = Traits {
    mark: None,
    words: include_str!(concat!(env!("OUT_DIR"), "/words.txt")),
    kinds: || lockstep_crds::of(CONTROLLER),
    forms: &[
        Form { key: "super-admin.conf", stand_in: kubeconfig::stand_in },
        Form { key: "admin.conf", stand_in: kubeconfig::stand_in },
        Form { key: "kubeconfig", stand_in: kubeconfig::stand_in },
        // Argo CD's Secrets, which are made from these.
        Form { key: "config", stand_in: kubeconfig::config_stand_in },
        Form { key: "name", stand_in: keep_text },
        Form { key: "server", stand_in: keep_text },
    ],
};

/// The names and addresses of clusters are not secret: Applications contain them too.
fn keep_text(text: &[u8], hide: Hide<'_>) -> String {
    String::from_utf8(text.to_vec()).unwrap_or_else(|_| hide(text))
}

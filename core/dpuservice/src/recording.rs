//! The traits that a recording of the controller needs.

use lockstep_crds::dpuservice::CONTROLLER;
use lockstep_engine::recording::{Form, Hide, Traits};

use super::kubeconfig;

/// The traits of the controller for recordings.
pub(super) const TRAITS: Traits = Traits {
    mark: None,
    words: &[
        include_str!("lib.rs"),
        include_str!("application.rs"),
        include_str!("cluster.rs"),
        include_str!("kubeconfig.rs"),
        include_str!("names.rs"),
        include_str!("outdated.rs"),
        include_str!("project.rs"),
        include_str!("service_delete.rs"),
        include_str!("report.rs"),
        include_str!("service.rs"),
        include_str!("status.rs"),
        include_str!("world.rs"),
    ],
    kinds: || lockstep_crds::of(CONTROLLER),
    forms: &[
        Form { key: "super-admin.conf", stand_in: kubeconfig::stand_in },
        Form { key: "admin.conf", stand_in: kubeconfig::stand_in },
        Form { key: "kubeconfig", stand_in: kubeconfig::stand_in },
        // Argo CD's Secrets, which are made from these.
        Form { key: "config", stand_in: kubeconfig::config_stand_in },
        Form { key: "name", stand_in: told },
        Form { key: "server", stand_in: told },
    ],
};

/// The names and addresses of clusters are not secret: Applications contain them too.
fn told(text: &[u8], hide: Hide<'_>) -> String {
    String::from_utf8(text.to_vec()).unwrap_or_else(|_| hide(text))
}

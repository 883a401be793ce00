//! The traits that a recording of the controller needs.

use lockstep_crds::dpuservice::CONTROLLER;
use lockstep_engine::recording::{Form, Hide, Traits};

use crate::model::kubeconfig;

/// The traits of the controller for recordings.
pub(crate) const TRAITS: Traits = Traits {
    mark: None,
    words: &[
        include_str!("lib.rs"),
        include_str!("answers.rs"),
        include_str!("desired.rs"),
        include_str!("desired/application.rs"),
        include_str!("desired/cluster_secret.rs"),
        include_str!("desired/project.rs"),
        include_str!("desired/removal.rs"),
        include_str!("desired/values.rs"),
        include_str!("destination.rs"),
        include_str!("enqueue.rs"),
        include_str!("key.rs"),
        include_str!("model.rs"),
        include_str!("model/application.rs"),
        include_str!("model/cluster.rs"),
        include_str!("model/kubeconfig.rs"),
        include_str!("model/owner.rs"),
        include_str!("model/project.rs"),
        include_str!("model/report.rs"),
        include_str!("model/report/comparison.rs"),
        include_str!("model/report/operation.rs"),
        include_str!("model/report/stable_text.rs"),
        include_str!("model/report/trim.rs"),
        include_str!("model/secret.rs"),
        include_str!("model/service.rs"),
        include_str!("names.rs"),
        include_str!("reconcile.rs"),
        include_str!("reconcile/cluster.rs"),
        include_str!("reconcile/cluster_delete.rs"),
        include_str!("reconcile/events.rs"),
        include_str!("reconcile/orphans.rs"),
        include_str!("reconcile/project.rs"),
        include_str!("reconcile/service.rs"),
        include_str!("reconcile/service/missing.rs"),
        include_str!("reconcile/service/pass.rs"),
        include_str!("reconcile/service_delete.rs"),
        include_str!("reconcile/status_writer.rs"),
        include_str!("reconcile/survey.rs"),
        include_str!("reconcile/verdict.rs"),
        include_str!("recording.rs"),
        include_str!("rollout.rs"),
        include_str!("server_claims.rs"),
        include_str!("source.rs"),
        include_str!("state.rs"),
        include_str!("status.rs"),
        include_str!("status/clusters.rs"),
        include_str!("status/deletion.rs"),
        include_str!("status/findings.rs"),
        include_str!("status/words.rs"),
        include_str!("store.rs"),
        include_str!("store/cluster_access.rs"),
        include_str!("store/outdated_sync.rs"),
        include_str!("watches.rs"),
    ],
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

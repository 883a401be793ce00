//! A DPUCluster of DPF.

use lockstep_engine::cache::Cached;
use lockstep_engine::object::{Name, ResourceVersion, Uid, is_deleting, metadata, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A cluster of DPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its uid.
    pub uid: Uid,
    /// When it was created, in the API's time format.
    pub created: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The Secret of its kubeconfig.
    pub kubeconfig: Option<Name>,
    /// Its phase, as DPF reports it.
    pub phase: String,
    /// Why it is not ready, as DPF reports it.
    pub message: String,
    /// The time since which it is not ready, in the API's time format; at the latest its creation.
    pub unready_since: String,
    version: ResourceVersion,
    name: String,
}

impl Cluster {
    /// Parses a cluster.
    pub fn read(object: &Value) -> Self {
        let conditions = || object["status"]["conditions"].as_array().into_iter().flatten();
        let is_reason = |it: &&Value| it["status"] == "False" && text(it, "/message").is_some();
        let reason = conditions().find(is_reason);
        let message = reason.and_then(|reason| text(reason, "/message"));
        // DPF leaves `Ready` True if it is another condition that makes the phase `NotReady` (decision 78).
        let unready = conditions().find(|it| it["type"] == "Ready" && it["status"] != "True");
        let mut causes = [unready, reason].into_iter().flatten();
        let since = causes.find_map(|cause| text(cause, "/lastTransitionTime"));
        let (secret, created) = (text(object, "/spec/kubeconfig"), metadata(object, "creationTimestamp"));
        Self {
            uid: Uid::of(object),
            created: created.to_owned(),
            unready_since: since.unwrap_or(created).to_owned(),
            deleting: is_deleting(object),
            kubeconfig: secret.map(|secret| Name::new(metadata(object, "namespace"), secret)),
            phase: text(object, "/status/phase").unwrap_or("Pending").to_owned(),
            message: message.unwrap_or_default().to_owned(),
            version: ResourceVersion::of(object),
            name: metadata(object, "name").to_owned(),
        }
    }

    /// Returns whether DPF reports it as ready. Argo CD's report about a cluster that is not ready may be stale.
    pub fn is_ready(&self) -> bool {
        self.phase == "Ready"
    }

    /// Returns whether both have the same relevant fields.
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { version: self.version, ..other.clone() }
    }
}

/// The index values by which DPUClusters are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterIndex {
    /// The Secret of their kubeconfig.
    Kubeconfig(Name),
    /// Their name, in any namespace.
    Named(String),
}

impl Cached for Cluster {
    type Index = ClusterIndex;

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<ClusterIndex> {
        let kubeconfig = self.kubeconfig.iter().cloned().map(ClusterIndex::Kubeconfig);
        kubeconfig.chain([ClusterIndex::Named(self.name.clone())]).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(version: &str, phase: &str, ready: &str) -> Cluster {
        let metadata = json!({ "namespace": "fleet", "name": "a", "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z" });
        let condition = |name: &str, status: &str| json!({ "type": name, "status": status, "message": format!("{name} is {status}"), "lastTransitionTime": "2026-01-02T00:00:00Z" });
        let conditions = [condition("Created", "True"), condition("Ready", ready)];
        Cluster::read(
            &json!({ "metadata": metadata, "status": { "phase": phase, "conditions": conditions } }),
        )
    }

    #[test]
    fn what_dpf_reports_is_read() {
        let (ready, unready) = (cluster("1", "Ready", "True"), cluster("1", "NotReady", "False"));
        assert_eq!(
            (ready.is_ready(), &*ready.message, &*ready.unready_since),
            (true, "", "2026-01-01T00:00:00Z")
        );
        assert!(!unready.is_ready());
        assert_eq!((&*unready.message, &*unready.unready_since), ("Ready is False", "2026-01-02T00:00:00Z"));
        let unknown = cluster("1", "NotReady", "Unknown");
        assert_eq!((&*unknown.message, &*unknown.unready_since), ("", "2026-01-02T00:00:00Z"));
    }

    #[test]
    fn a_cluster_is_unready_since_the_condition_that_is_the_cause() {
        let since = |conditions: Value| {
            let metadata = json!({ "namespace": "fleet", "name": "a", "creationTimestamp": "created" });
            let status = json!({ "phase": "NotReady", "conditions": conditions });
            Cluster::read(&json!({ "metadata": metadata, "status": status })).unready_since
        };
        let condition = |name: &str, status: &str, since: &str| json!({ "type": name, "status": status, "message": name, "lastTransitionTime": since });
        let created = condition("Created", "True", "1");
        let keepalived = condition("KeepalivedReady", "False", "3");
        assert_eq!(since(json!([created, condition("Ready", "True", "2"), keepalived])), "3");
        assert_eq!(since(json!([created, keepalived])), "3");
        assert_eq!(since(json!([created, keepalived, condition("Ready", "False", "2")])), "2");
        assert_eq!(since(json!([created, condition("Ready", "True", "2")])), "created");
        assert_eq!(since(Value::Null), "created");
    }

    #[test]
    fn a_new_version_of_the_same_cluster_is_no_change() {
        assert!(cluster("1", "Ready", "True").is_same(&cluster("2", "Ready", "True")));
        assert!(!cluster("1", "Ready", "True").is_same(&cluster("1", "NotReady", "False")));
    }
}

//! An Application of Argo CD: what it deploys, for which service and to which cluster, and Argo CD's report about it.

use std::sync::Arc;

use lockstep_engine::cache::Cached;
use lockstep_engine::object::{
    Name, ObjectRef, ResourceVersion, Uid, annotation, is_deleting, metadata, text,
};
use lockstep_engine::write::covers;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::owner::identity;
use super::report::Report;
use super::report::comparison::{compared, digest_of_values};
use super::report::operation::Operation;
use crate::names::{
    self, APPLIED, CLUSTER, CLUSTER_NAME, CLUSTER_NAMESPACE, SERVICE, SERVICE_NAME, SERVICE_NAMESPACE,
};

/// Where a spec says how failed operations are retried.
pub const RETRY: &str = "/syncPolicy/retry";
/// Its field that says whether each attempt resolves the revision again. The CRDs of Argo CD before 3.2 do not declare it.
pub const REFRESH: &str = "refresh";

/// An Application that was created for a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct App {
    /// The service of the Application.
    pub service: Name,
    /// The cluster of the Application.
    pub cluster: Name,
    /// Its uid.
    pub uid: Uid,
    /// When it was created, in the API's time format.
    pub created: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Argo CD's report about it.
    pub report: Report,
    /// The digest of what was applied last.
    applied: String,
    labels: Value,
    finalizers: Value,
    spec: Spec,
    version: ResourceVersion,
}

/// The spec of an Application, with what Argo CD's comparisons are checked against. Each pass checks all Applications of a
/// service several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Arc<Value>", into = "Arc<Value>")]
struct Spec {
    whole: Arc<Value>,
    /// The fields that Argo CD reports for its comparison.
    compared: Arc<Value>,
    /// The digest of the chart's values.
    values: Arc<str>,
}

impl From<Arc<Value>> for Spec {
    fn from(whole: Arc<Value>) -> Self {
        let values = whole.pointer("/source/helm/valuesObject").unwrap_or(&Value::Null);
        Self { compared: Arc::new(compared_part(&whole)), values: digest_of_values(values).into(), whole }
    }
}

impl From<Spec> for Arc<Value> {
    fn from(spec: Spec) -> Self {
        spec.whole
    }
}

impl App {
    /// Parses an Application; `None` if it was not created for a service.
    pub fn read(object: &Value) -> Option<Self> {
        Some(Self {
            service: identity(object, SERVICE, SERVICE_NAMESPACE, SERVICE_NAME)?,
            cluster: identity(object, CLUSTER, CLUSTER_NAMESPACE, CLUSTER_NAME)?,
            uid: Uid::of(object),
            created: metadata(object, "creationTimestamp").to_owned(),
            deleting: is_deleting(object),
            report: Report::read(&object["status"]),
            applied: annotation(object, APPLIED).unwrap_or_default().to_owned(),
            labels: object["metadata"]["labels"].clone(),
            finalizers: object["metadata"]["finalizers"].clone(),
            spec: Arc::new(object["spec"].clone()).into(),
            version: ResourceVersion::of(object),
        })
    }

    /// Returns whether both have the same relevant fields.
    pub fn is_same(&self, other: &Self) -> bool {
        let mut other = Self { version: self.version, ..other.clone() };
        other.report.reconciled_at.clone_from(&self.report.reconciled_at);
        *self == other
    }

    /// Returns the server that it deploys to.
    pub fn server(&self) -> Option<&str> {
        text(&self.spec.whole, "/destination/server")
    }

    /// Returns whether Argo CD has compared the cluster with the current spec, and not with an earlier one.
    pub fn is_current(&self) -> bool {
        self.is_about(&self.report.compared_to, |compared| covers(compared, &self.spec.compared))
    }

    /// Returns whether a comparison covers the wanted fields, with the same values. Null means unknown, and counts as covered.
    fn is_about(&self, compared: &Value, is_covered: impl Fn(&Value) -> bool) -> bool {
        compared.is_null()
            || (is_covered(compared)
                && compared["values"].as_str().is_none_or(|known| *known == *self.spec.values))
    }

    /// Returns the last operation, if it has not succeeded and was about the current spec.
    pub fn unfinished(&self) -> Option<&Operation> {
        let operation = self.report.operation.as_ref().filter(|operation| operation.phase != "Succeeded")?;
        let is_covered = |compared: &Value| {
            compared.get("source").is_some_and(|source| covers(source, &self.spec.compared["source"]))
        };
        self.is_about(&operation.source, is_covered).then_some(operation)
    }

    /// Returns the operation that keeps Argo CD from deploying the current spec: it is running, and about another source.
    /// Both are compared in the form in which Argo CD writes them, and not with the spec. If the wrong operation were ended,
    /// the right source would never be deployed.
    pub fn outdated(&self) -> Option<&Operation> {
        let operation = self.report.operation.as_ref().filter(|operation| operation.phase == "Running")?;
        let (began_with, compared) = (&operation.source, &self.report.compared_to);
        let differs = ["source", "values"].iter().any(|part| began_with[*part] != compared[*part]);
        let is_known =
            [began_with, compared].iter().all(|known| !known["source"].is_null()) && self.is_current();
        let is_needed = self.report.is_out_of_sync();
        (differs && is_known && is_needed && !self.deleting).then_some(operation)
    }

    /// Returns whether it is synced and healthy at present. A failed hook shows in the operation only.
    pub fn is_well(&self) -> bool {
        let has_ended = self.unfinished().is_none_or(|operation| operation.is_partial);
        !self.deleting && self.is_current() && self.report.is_well() && has_ended
    }

    /// Returns whether a change can only improve it: its workloads or its last sync have failed. What Argo CD can't compare, or
    /// reports as out of sync, may work (decision 97).
    pub fn is_broken(&self) -> bool {
        let sync = self.unfinished().filter(|operation| !operation.is_partial);
        self.report.is_unhealthy() || sync.is_some_and(Operation::has_failed)
    }

    /// Returns whether Argo CD reports a failure, rather than work in progress.
    pub fn has_failed(&self) -> bool {
        self.report.has_failed(self.unfinished())
    }

    /// Returns whether it was applied as a whole: a new one is created without values first.
    pub fn is_whole(&self) -> bool {
        !self.applied.is_empty()
    }

    /// Returns whether this manifest was applied last.
    pub fn was_applied(&self, manifest: &Value) -> bool {
        manifest["metadata"]["annotations"][APPLIED] == *self.applied
    }

    /// Returns whether it differs from its desired state.
    pub fn differs(&self, manifest: &Value) -> bool {
        let (wanted, mut spec) = (&manifest["metadata"], manifest["spec"].clone());
        // It was applied without this field to a server that refused it. That alone causes no other apply: the server may
        // still refuse it, and a typed update of an older Argo CD drops it.
        if self.spec.whole.pointer(RETRY).is_none_or(|retry| retry.get(REFRESH).is_none()) {
            without_refresh(&mut spec);
        }
        let holds =
            |finalizer: &Value| self.finalizers.as_array().is_some_and(|held| held.contains(finalizer));
        !self.was_applied(manifest)
            || !covers(&self.spec.whole, &spec)
            || !covers(&self.labels, &wanted["labels"])
            || !wanted["finalizers"].as_array().into_iter().flatten().all(holds)
    }
}

/// Removes the field from a spec that a server may refuse.
pub fn without_refresh(spec: &mut Value) {
    if let Some(retry) = spec.pointer_mut(RETRY).and_then(Value::as_object_mut) {
        retry.remove(REFRESH);
    }
}

/// Returns the fields of a spec that Argo CD reports for its comparison.
fn compared_part(spec: &Value) -> Value {
    let source = &spec["source"];
    // Trimmed in the same way as the report.
    compared(&json!({
        "source": {
            "repoURL": source["repoURL"], "chart": source["chart"], "targetRevision": source["targetRevision"],
        },
        "destination": spec["destination"],
    }))
}

/// The index values by which Applications are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Index {
    /// The service.
    Service(Name),
    /// The cluster.
    Cluster(Name),
    /// The server that they deploy to.
    Server(String),
    /// All that are being deleted.
    Deleting,
}

impl Cached for App {
    type Index = Index;

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<Index> {
        let server = self.server().map(|server| Index::Server(server.to_owned()));
        [Index::Service(self.service.clone()), Index::Cluster(self.cluster.clone())]
            .into_iter()
            .chain(server)
            .chain(self.deleting.then_some(Index::Deleting))
            .collect()
    }
}

/// Returns the reference of an Application.
pub fn application_ref(name: &Name) -> ObjectRef {
    name.object(&names::application())
}

//! The Application that deploys a service to a cluster: its name, its manifest, and the relevant fields of Argo CD's report.
//!
//! An Application is found by the service and the cluster in its labels and annotations, never by its name. It never gets
//! another name: that would undeploy the service and deploy it again.
//!
//! Source: "Reconcile the ArgoCD `Applications`".

use std::sync::Arc;

use lockstep_crds::dpuservice::DPUServiceSpec;
use lockstep_engine::action::{Action, Class, Failure, Outcome, Scope, Success};
use lockstep_engine::cache::Cached;
use lockstep_engine::digest::{digest, shortened};
use lockstep_engine::object::{Name, ObjectRef, annotation, is_deleting, metadata, resource_version, text};
use lockstep_engine::write::{covers, create_or_apply};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::names::{
    self, APPLIED, ARGO_FINALIZER, ARGO_NAMESPACE, CLUSTER, CLUSTER_NAME, CLUSTER_NAMESPACE, PROJECT,
    SERVICE, SERVICE_NAME, SERVICE_NAMESPACE,
};
use super::outdated::GRACE;
use super::report::{self, Operation, Report, digest_of_values};
use super::values::values;
use super::world::{World, identity, label_value};

/// The longest name of an Application, because Argo CD writes it into labels.
const NAME_MAX_BYTES: usize = 63;
/// The longest name of a Helm release.
const RELEASE_MAX_BYTES: usize = 53;

/// Whether an operation that is retried resolves its revision again.
const REFRESH: &str = "/syncPolicy/retry/refresh";

/// An Application that was created for a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct App {
    /// The service of the Application.
    pub service: Name,
    /// The cluster of the Application.
    pub cluster: Name,
    /// Its uid.
    pub uid: String,
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
    spec: Arc<Value>,
    version: u64,
}

impl App {
    /// Parses an Application; `None` if it was not created for a service.
    pub fn read(object: &Value) -> Option<Self> {
        Some(Self {
            service: identity(object, SERVICE, SERVICE_NAMESPACE, SERVICE_NAME)?,
            cluster: identity(object, CLUSTER, CLUSTER_NAMESPACE, CLUSTER_NAME)?,
            uid: metadata(object, "uid").to_owned(),
            created: metadata(object, "creationTimestamp").to_owned(),
            deleting: is_deleting(object),
            report: Report::read(&object["status"]),
            applied: annotation(object, APPLIED).unwrap_or_default().to_owned(),
            labels: object["metadata"]["labels"].clone(),
            finalizers: object["metadata"]["finalizers"].clone(),
            spec: Arc::new(object["spec"].clone()),
            version: resource_version(object),
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
        text(&self.spec, "/destination/server")
    }

    /// Returns whether Argo CD has compared the cluster with the current spec, and not with an earlier one.
    pub fn is_current(&self) -> bool {
        self.is_about(&self.report.compared_to, &compared_part(&self.spec))
    }

    /// Returns whether the source of a comparison covers the wanted fields, with the same values. Null means unknown, and
    /// counts as covered.
    fn is_about(&self, compared: &Value, wanted: &Value) -> bool {
        let values = self.spec.pointer("/source/helm/valuesObject").unwrap_or(&Value::Null);
        compared.is_null()
            || (covers(compared, wanted)
                && compared["values"].as_str().is_none_or(|known| known == digest_of_values(values)))
    }

    /// Returns the last operation, if it has not succeeded and was about the current spec.
    pub fn unfinished(&self) -> Option<&Operation> {
        let operation = self.report.operation.as_ref().filter(|operation| operation.phase != "Succeeded")?;
        let source = json!({ "source": compared_part(&self.spec)["source"] });
        self.is_about(&operation.source, &source).then_some(operation)
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

    /// Returns whether Argo CD reports a failure, rather than work in progress.
    pub fn has_failed(&self) -> bool {
        self.report.has_failed(self.unfinished())
    }

    /// Returns its state in a few words.
    pub fn words(&self) -> String {
        let words = self.report.words(self.unfinished());
        let Some(operation) = self.outdated() else { return words };
        let when = if operation.is_between_attempts {
            "now".to_owned()
        } else {
            format!("{} minutes after the change", GRACE.as_secs() / 60)
        };
        format!("{words}; {}: it is terminated {when}", operation.holds_up())
    }

    /// Returns whether it differs from its desired state.
    fn differs(&self, manifest: &Value) -> bool {
        let (wanted, mut spec) = (&manifest["metadata"], manifest["spec"].clone());
        // The CRDs of Argo CD before 3.2 do not have this field, so the API server drops it.
        if self.spec.pointer(REFRESH).is_none()
            && let Some(retry) = spec.pointer_mut("/syncPolicy/retry").and_then(Value::as_object_mut)
        {
            retry.remove("refresh");
        }
        let holds =
            |finalizer: &Value| self.finalizers.as_array().is_some_and(|held| held.contains(finalizer));
        wanted["annotations"][APPLIED] != *self.applied
            || !covers(&self.spec, &spec)
            || !covers(&self.labels, &wanted["labels"])
            || !wanted["finalizers"].as_array().into_iter().flatten().all(holds)
    }
}

/// Returns the fields of a spec that Argo CD reports for its comparison.
fn compared_part(spec: &Value) -> Value {
    let source = &spec["source"];
    // Trimmed in the same way as the report.
    report::compared(&json!({
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

    fn resource_version(&self) -> u64 {
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

/// Returns the write that brings an Application to its desired state; `None` if it has reached it.
///
/// It is created without values, and in such a way that Argo CD does not deploy it yet. The apply that follows sets all
/// fields. A later apply could never remove a field that was created and not applied.
pub fn write(
    service: &Name,
    spec: &DPUServiceSpec,
    cluster: &Name,
    server: &str,
    place: Place<'_>,
) -> Option<Action> {
    let manifest = manifest(service, spec, cluster, server);
    let with_name = |mut manifest: Value, name: &Name| {
        manifest["metadata"]["namespace"] = json!(name.namespace);
        manifest["metadata"]["name"] = json!(name.name);
        manifest
    };
    match place {
        Place::New(name) => {
            Some(create_or_apply(name.object(&names::application()), bare(with_name(manifest, &name)), None))
        }
        Place::Existing(name, app) => app.differs(&manifest).then(|| {
            create_or_apply(name.object(&names::application()), with_name(manifest, name), Some(&app.uid))
        }),
    }
}

/// The Application to write.
#[derive(Debug)]
pub enum Place<'a> {
    /// A new one under a free name.
    New(Name),
    /// An existing one.
    Existing(&'a Name, &'a App),
}

fn bare(mut manifest: Value) -> Value {
    if let Some(annotations) = manifest["metadata"]["annotations"].as_object_mut() {
        annotations.remove(APPLIED);
    }
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.remove("syncPolicy");
    }
    if let Some(helm) = manifest["spec"]["source"]["helm"].as_object_mut() {
        helm.remove("valuesObject");
    }
    manifest
}

/// Returns the manifest of an Application, without its name.
pub fn manifest(service: &Name, spec: &DPUServiceSpec, cluster: &Name, server: &str) -> Value {
    let mut manifest = json!({
        "apiVersion": names::application().api_version(),
        "kind": names::application().kind,
        "metadata": {
            "labels": {
                SERVICE_NAME: label_value(&service.name),
                SERVICE_NAMESPACE: label_value(&service.namespace),
                CLUSTER_NAME: label_value(&cluster.name),
                CLUSTER_NAMESPACE: label_value(&cluster.namespace),
            },
            "annotations": { SERVICE: service.to_string(), CLUSTER: cluster.to_string() },
            "finalizers": [ARGO_FINALIZER],
        },
        "spec": {
            "project": PROJECT,
            "destination": { "server": server, "namespace": service.namespace },
            "source": {
                // With a chart, Argo CD expects the address of an OCI repository without its scheme.
                "repoURL": spec.source.repo_url.strip_prefix("oci://").unwrap_or(&spec.source.repo_url),
                "targetRevision": spec.source.version,
                "chart": spec.source.chart,
                "helm": {
                    // The default is the Application's name, which may be too long for a release.
                    "releaseName": shortened(&service.name, RELEASE_MAX_BYTES),
                    "valuesObject": values(spec),
                },
            },
            "syncPolicy": {
                "automated": { "prune": true, "selfHeal": true },
                "syncOptions": ["CreateNamespace=true"],
                // By default, Argo CD abandons a source after five attempts: a cluster that is down for longer would never
                // get it. The next attempt uses the newest version within a range; it does not use a changed spec.
                "retry": {
                    "limit": -1,
                    "refresh": true,
                    "backoff": { "duration": "5s", "factor": 2, "maxDuration": "1m" },
                },
            },
        },
    });
    let applied = digest(&json!([manifest["spec"], manifest["metadata"]]));
    manifest["metadata"]["annotations"][APPLIED] = json!(applied);
    manifest
}

/// Returns the possible names of the Application of a service on a cluster, in order of preference.
///
/// The suffix is the digits at the end of the cluster's name, unless an older cluster has the same. Otherwise it is the
/// cluster's name. Otherwise a unique digest is added.
pub fn possible_names(world: &World, service: &Name, cluster: &Name) -> Vec<Name> {
    let (short, long) = (&service.name, format!("{}-{}", service.name, cluster.name));
    let suffix = suffix(&cluster.name).filter(|suffix| {
        let mut rivals = world
            .staying()
            .filter(|(rival, _)| *rival != cluster && self::suffix(&rival.name) == Some(suffix));
        !rivals.any(|(rival, _)| world.is_older(rival, cluster))
    });
    let whole = digest(&json!([service, cluster]));
    let candidates = [
        suffix.map(|suffix| shortened(&format!("{short}-{suffix}"), NAME_MAX_BYTES)),
        Some(shortened(&long, NAME_MAX_BYTES)),
        Some(format!("{}-{}", shortened(&long, NAME_MAX_BYTES - 9), &whole[..8])),
    ];
    candidates.into_iter().flatten().map(|name| Name::new(ARGO_NAMESPACE, &name)).collect()
}

/// Returns a free name for the Application of a service on a cluster; `None` if all are taken.
pub fn free_name(world: &World, service: &Name, cluster: &Name) -> Option<Name> {
    let mut names = possible_names(world, service, cluster).into_iter();
    names.find(|name| !world.taken.contains(name) && world.applications.get(name).is_none())
}

/// Returns the digits at the end of a name, unchanged.
fn suffix(name: &str) -> Option<&str> {
    let start = name.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    Some(&name[start..]).filter(|digits| !digits.is_empty())
}

/// Returns the Applications of a service.
pub fn of_service<'a>(
    world: &'a World,
    service: &Name,
) -> impl Iterator<Item = (&'a Name, &'a App)> + use<'a> {
    let names: Vec<&Name> = world.applications.keys_by(&Index::Service(service.clone())).collect();
    names.into_iter().filter_map(|name| Some((name, world.applications.get(name)?)))
}

/// Returns the selector for the objects of a service, or of a cluster, by the labels with its namespace and name.
pub fn selector([namespace, name]: [&str; 2], of: &Name) -> String {
    format!("{namespace}={},{name}={}", label_value(&of.namespace), label_value(&of.name))
}

/// Returns the action that lists the metadata of Applications from the server.
pub fn survey(selector: String) -> Action {
    let namespace = Some(ARGO_NAMESPACE.to_owned());
    let scope = Scope { namespace, selector, metadata_only: true, ..Scope::default() };
    Action::List { kind: names::application(), scope }
}

/// Returns the Applications in the answer to a list; an empty list if the kind is not served. The failure is `None` if the
/// answer has another form.
pub fn surveyed(outcome: Option<Outcome>) -> Result<Vec<(Name, App)>, Option<Failure>> {
    match outcome {
        Some(Ok(Success::Objects(objects))) => {
            Ok(objects.iter().filter_map(|object| Some((Name::of(object), App::read(object)?))).collect())
        }
        Some(Err(failure)) if failure.class == Class::NotFound => Ok(Vec::new()),
        Some(Err(failure)) => Err(Some(failure)),
        _ => Err(None),
    }
}

/// Returns the next write for the removal of an Application: its deletion, and then the end of an operation in progress. Argo
/// CD deletes nothing before the operation has ended, and it retries a failed one without end.
pub fn next_removal(name: &Name, app: &App) -> Option<Action> {
    let target = application_ref(name);
    if !app.deleting {
        return Some(Action::Delete { target, uid: app.uid.clone(), resource_version: None });
    }
    let is_running = app.report.operation.as_ref().is_some_and(|operation| operation.phase == "Running");
    is_running.then(|| terminate(target, &json!({ "uid": app.uid })))
}

/// Returns the write that ends an operation because it delays a change. The precondition protects a newer operation.
pub fn termination(name: &Name, app: &App) -> Action {
    let version = app.version.to_string();
    terminate(application_ref(name), &json!({ "uid": app.uid, "resourceVersion": version }))
}

/// Ends an operation as `argocd app terminate-op` does: Applications have no status subresource.
fn terminate(target: ObjectRef, metadata: &Value) -> Action {
    let status = json!({ "operationState": { "phase": "Terminating" } });
    let patch = json!({ "metadata": metadata, "status": status });
    Action::Patch { target, subresource: None, patch: Arc::new(patch) }
}

/// Returns the reference of an Application.
pub fn application_ref(name: &Name) -> ObjectRef {
    name.object(&names::application())
}

#[cfg(test)]
mod tests;

//! The Application that deploys a service to a cluster: its name, its manifest, what of it Argo CD reports.
//!
//! An Application is found by whom it was made for, never by its name, and never gets another name: that would take the
//! service down and deploy it anew.
//!
//! Source: "Reconcile the ArgoCD `Applications`".

use std::sync::Arc;

use lockstep_crds::dpuservice::DPUServiceSpec;
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
use crate::digest::{digest, shortened};
use crate::engine::action::{Action, Class, Failure, Outcome, Scope, Success};
use crate::engine::cache::Cached;
use crate::engine::write::{covers, create_or_apply};
use crate::object::{Name, ObjectRef, annotation, is_deleting, metadata, resource_version, text};

/// The longest name of an Application, because Argo CD writes it into labels.
const NAME_MAX_BYTES: usize = 63;
/// The longest name of a Helm release.
const RELEASE_MAX_BYTES: usize = 53;

/// Whether an operation that is tried again looks up its revision again.
const REFRESH: &str = "/syncPolicy/retry/refresh";

/// An Application that was made for a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct App {
    /// The service that it was made for.
    pub service: Name,
    /// The cluster that it was made for.
    pub cluster: Name,
    /// Its uid.
    pub uid: String,
    /// When it was created, as the API writes times.
    pub created: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What Argo CD says of it.
    pub report: Report,
    /// What was applied last, by its digest.
    applied: String,
    labels: Value,
    finalizers: Value,
    spec: Arc<Value>,
    version: u64,
}

impl App {
    /// Reads an Application; none, if it was not made for a service.
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

    /// Whether two readings mean the same.
    pub fn is_same(&self, other: &Self) -> bool {
        let mut other = Self { version: self.version, ..other.clone() };
        other.report.reconciled_at.clone_from(&self.report.reconciled_at);
        *self == other
    }

    /// The server that it deploys to.
    pub fn server(&self) -> Option<&str> {
        text(&self.spec, "/destination/server")
    }

    /// Whether Argo CD has compared the cluster with the chart that is wanted now, and not with the one before.
    pub fn is_current(&self) -> bool {
        self.is_about(&self.report.compared_to, &compared_part(&self.spec))
    }

    /// Whether what Argo CD has looked at covers this part of what is wanted, with the same values; null is not known, and counts.
    fn is_about(&self, compared: &Value, wanted: &Value) -> bool {
        let values = self.spec.pointer("/source/helm/valuesObject").unwrap_or(&Value::Null);
        compared.is_null()
            || (covers(compared, wanted)
                && compared["values"].as_str().is_none_or(|known| known == digest_of_values(values)))
    }

    /// The last operation, if it has not succeeded and was about what is wanted now.
    pub fn unfinished(&self) -> Option<&Operation> {
        let operation = self.report.operation.as_ref().filter(|operation| operation.phase != "Succeeded")?;
        let source = json!({ "source": compared_part(&self.spec)["source"] });
        self.is_about(&operation.source, &source).then_some(operation)
    }

    /// The operation that keeps Argo CD from deploying what is wanted now: it is under way, and about another source. Both are compared
    /// as Argo CD writes them, and not with the spec: to end the wrong one would leave the right source undeployed for ever.
    pub fn outdated(&self) -> Option<&Operation> {
        let operation = self.report.operation.as_ref().filter(|operation| operation.phase == "Running")?;
        let (began_with, compared) = (&operation.source, &self.report.compared_to);
        let differs = ["source", "values"].iter().any(|part| began_with[*part] != compared[*part]);
        let is_known =
            [began_with, compared].iter().all(|known| !known["source"].is_null()) && self.is_current();
        let is_needed = self.report.is_out_of_sync();
        (differs && is_known && is_needed && !self.deleting).then_some(operation)
    }

    /// Whether it is deployed and well, as it says now. A hook that failed shows in the operation alone.
    pub fn is_well(&self) -> bool {
        let has_ended = self.unfinished().is_none_or(|operation| operation.is_partial);
        !self.deleting && self.is_current() && self.report.is_well() && has_ended
    }

    /// Whether Argo CD says that something is wrong, rather than under way.
    pub fn has_failed(&self) -> bool {
        self.report.has_failed(self.unfinished())
    }

    /// Where it stands, in a few words.
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

    /// Whether it lacks anything of what it should be.
    fn differs(&self, manifest: &Value) -> bool {
        let (wanted, mut spec) = (&manifest["metadata"], manifest["spec"].clone());
        // The CRDs of Argo CD before 3.2 do not have this field, so that the API server drops it.
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

/// What Argo CD tells of what it compares, of a spec.
fn compared_part(spec: &Value) -> Value {
    let source = &spec["source"];
    // Cut as the report is.
    report::compared(&json!({
        "source": {
            "repoURL": source["repoURL"], "chart": source["chart"], "targetRevision": source["targetRevision"],
        },
        "destination": spec["destination"],
    }))
}

/// What Applications are found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Index {
    /// The service.
    Service(Name),
    /// The cluster.
    Cluster(Name),
    /// The server that they deploy to.
    Server(String),
    /// That they are being deleted.
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

/// The write that brings an Application to what it should be; none if it is so.
///
/// It is created bare: without values, and so that Argo CD does not deploy it yet. The apply that follows puts the whole in
/// place. A field that was created and not applied could never be taken out again by an apply.
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

/// Where an Application is written.
#[derive(Debug)]
pub enum Place<'a> {
    /// Under a name that nobody has.
    New(Name),
    /// Where it is.
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

/// What an Application should be, but for its name.
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
                // With a chart, Argo CD takes the address of an OCI repository without its scheme.
                "repoURL": spec.source.repo_url.strip_prefix("oci://").unwrap_or(&spec.source.repo_url),
                "targetRevision": spec.source.version,
                "chart": spec.source.chart,
                "helm": {
                    // Argo CD would take the Application's name, which may be too long for one.
                    "releaseName": shortened(&service.name, RELEASE_MAX_BYTES),
                    "valuesObject": values(spec),
                },
            },
            "syncPolicy": {
                "automated": { "prune": true, "selfHeal": true },
                "syncOptions": ["CreateNamespace=true"],
                // By itself, Argo CD gives a source up after five attempts: a cluster that is down for longer would never get it.
                // The next attempt takes the newest version within a range; of a changed spec it knows nothing.
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

/// The names that the Application of a service on a cluster may have, the best first.
///
/// The digits at the end of the cluster's name, where no older cluster has the same; else the cluster's name; else with a
/// digest that nobody else has.
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

/// A name for the Application of a service on a cluster; none, if all are taken.
pub fn free_name(world: &World, service: &Name, cluster: &Name) -> Option<Name> {
    let mut names = possible_names(world, service, cluster).into_iter();
    names.find(|name| !world.taken.contains(name) && world.applications.get(name).is_none())
}

/// The digits at the end of a name, as they stand there.
fn suffix(name: &str) -> Option<&str> {
    let start = name.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    Some(&name[start..]).filter(|digits| !digits.is_empty())
}

/// The Applications that were made for a service.
pub fn of_service<'a>(
    world: &'a World,
    service: &Name,
) -> impl Iterator<Item = (&'a Name, &'a App)> + use<'a> {
    let names: Vec<&Name> = world.applications.keys_by(&Index::Service(service.clone())).collect();
    names.into_iter().filter_map(|name| Some((name, world.applications.get(name)?)))
}

/// Selects what was made for a service, or for a cluster, by the labels that tell its namespace and name.
pub fn selector([namespace, name]: [&str; 2], of: &Name) -> String {
    format!("{namespace}={},{name}={}", label_value(&of.namespace), label_value(&of.name))
}

/// Asks the server for Applications, by their metadata.
pub fn survey(selector: String) -> Action {
    let namespace = Some(ARGO_NAMESPACE.to_owned());
    let scope = Scope { namespace, selector, metadata_only: true, ..Scope::default() };
    Action::List { kind: names::application(), scope }
}

/// The Applications that a survey has found; none, if the server has no such kind.
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

/// The next write that an Application needs to go: its removal, and then the end of an operation that is under way. Argo CD removes
/// nothing before that has ended, and one that fails is tried again without end.
pub fn next_removal(name: &Name, app: &App) -> Option<Action> {
    let target = application_ref(name);
    if !app.deleting {
        return Some(Action::Delete { target, uid: app.uid.clone(), resource_version: None });
    }
    let is_running = app.report.operation.as_ref().is_some_and(|operation| operation.phase == "Running");
    is_running.then(|| terminate(target, &json!({ "uid": app.uid })))
}

/// The end of an operation that holds up what is wanted now. It may have ended by itself, and the next one begun.
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

/// An Application as an object.
pub fn application_ref(name: &Name) -> ObjectRef {
    name.object(&names::application())
}

#[cfg(test)]
mod tests;

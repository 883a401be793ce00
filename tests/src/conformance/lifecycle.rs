//! The lifecycle of an object of every kind: it is created, read, written in every way, and deleted.

use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::merge::merge;
use super::protobuf;
use super::scenario::{
    APPLY, JSON_PATCH, MERGE, METADATA_LIST, PROTOBUF, STRATEGIC, Scenario, Step, TABLE, Variables,
};
use super::specimen::{self, Kind, Specimen};

/// Returns a scenario for each kind that the model serves and that can be created and read.
///
/// # Errors
/// If a kind has no specimen, or a specimen no such kind.
pub fn lifecycles() -> anyhow::Result<Vec<Scenario>> {
    specimen::built_in()?.iter().map(|(kind, specimen)| lifecycle(kind, specimen)).collect()
}

/// Returns a scenario for each of Lockstep's own kinds, with the CRDs of [`own_definitions`].
///
/// # Errors
/// As [`lifecycles`].
pub fn own_lifecycles() -> anyhow::Result<Vec<Scenario>> {
    lifecycles_of(own_definitions().iter().map(Kind::of_definition), include_str!("own_specimens.yaml"))
}

/// Returns the CRDs that `lockstep crds` prints.
pub fn own_definitions() -> Vec<CustomResourceDefinition> {
    lockstep_crds::all().into_iter().flat_map(|set| set.crds).collect()
}

fn lifecycles_of(kinds: impl Iterator<Item = Kind>, specimens: &str) -> anyhow::Result<Vec<Scenario>> {
    specimen::of_kinds(kinds, specimens)?.iter().map(|(kind, specimen)| lifecycle(kind, specimen)).collect()
}

fn lifecycle(kind: &Kind, specimen: &Specimen) -> anyhow::Result<Scenario> {
    let label = kind.label();
    let mut manifest = specimen.manifest.clone();
    if manifest["metadata"]["name"].is_null() {
        manifest["metadata"]["name"] = if kind.namespaced { "a" } else { "${ns}" }.into();
    }
    anyhow::ensure!(
        kind.has_status == specimen.status.is_some(),
        "{label}: a status is for kinds that have one"
    );
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let lifecycle = Lifecycle { all: kind.collection(), name, manifest, specimen };
    let mut steps = lifecycle.birth();
    steps.extend(lifecycle.writes());
    steps.extend(lifecycle.views());
    if let Some(status) = &specimen.status {
        steps.extend(lifecycle.status(status));
    }
    if kind.has_scale {
        steps.extend(lifecycle.scale());
    }
    if !specimen.ends_elsewhere {
        steps.extend(lifecycle.end());
    }
    Ok(Scenario { namespace: format!("life-{label}"), name: label, vars: Variables::new(), steps })
}

struct Lifecycle<'a> {
    /// The path of the collection.
    all: String,
    name: String,
    manifest: Value,
    specimen: &'a Specimen,
}

impl Lifecycle<'_> {
    fn birth(&self) -> Vec<Step> {
        let start = Step { save: saved("start", "/metadata/resourceVersion"), ..self.list("") };
        let mut steps = vec![start];
        steps.extend(
            self.specimen.invalid.iter().map(|fields| self.post("?dryRun=All", with(&self.manifest, fields))),
        );
        let text = |key: &str| self.manifest[key].as_str().unwrap_or_default();
        if protobuf::is_known(text("apiVersion"), text("kind")) {
            steps.push(Step { content_type: PROTOBUF, ..self.post("?dryRun=All", self.manifest.clone()) });
        }
        steps.extend([
            self.post("?dryRun=All", self.manifest.clone()),
            self.post("?fieldValidation=Strict", with(&self.manifest, &json!({"lockstep": 1}))),
            self.post("", self.manifest.clone()),
            self.post("", self.manifest.clone()),
        ]);
        let settled = self.specimen.settled.iter();
        steps.extend(settled.map(|path| Step { until: Some(200), ..Step::new(Method::GET, path, None) }));
        steps.push(self.get("", "application/json"));
        steps
    }

    fn writes(&self) -> Vec<Step> {
        let labels = |key: &str| json!({"metadata": {"labels": {key: "yes"}}});
        let operation = json!([{"op": "add", "path": "/metadata/labels/json", "value": "yes"}]);
        let mut steps = vec![
            self.apply("?fieldManager=other", &labels("applied")),
            self.apply("?fieldManager=owner", &self.manifest),
            self.patch("", MERGE, labels("merged")),
            self.patch("", STRATEGIC, labels("strategic")),
            self.patch("", JSON_PATCH, operation),
        ];
        let changes = self.specimen.changes.iter().chain(&self.specimen.invalid);
        steps.extend(changes.map(|change| self.patch("", MERGE, change.clone())));
        let whole = [("whole", ""), ("rv", "/metadata/resourceVersion")];
        let save = whole.map(|(name, pointer)| (name.to_owned(), pointer.to_owned())).into();
        steps.push(Step { save, ..self.get("", "application/json") });
        let newer = |version: &str| {
            with(&with(&self.manifest, &labels("put")), &json!({"metadata": {"resourceVersion": version}}))
        };
        steps.extend([
            self.put("", "${whole}".into()),
            self.put("", newer("${rv}")),
            self.put("", newer("${rv}")),
            self.put("", with(&self.manifest, &labels("unconditional"))),
        ]);
        steps
    }

    fn views(&self) -> Vec<Step> {
        let watch = format!("{}?watch=true&resourceVersion=${{start}}&{}", self.all, self.selector());
        vec![
            self.get("", TABLE),
            self.list(""),
            Step { accept: METADATA_LIST, ..self.list("") },
            Step { accept: TABLE, ..self.list("&includeObject=Object") },
            self.list("&labelSelector=merged"),
            Step { events: Some(1), ..Step::new(Method::GET, watch, None) },
        ]
    }

    fn status(&self, status: &Value) -> Vec<Step> {
        let labels = json!({"metadata": {"labels": {"status": "yes"}}});
        let save = saved("whole", "");
        vec![
            self.get("/status", "application/json"),
            self.patch("", MERGE, status.clone()),
            self.patch("/status", MERGE, with(status, &labels)),
            self.patch("/status", STRATEGIC, status.clone()),
            self.apply("/status?fieldManager=reporter", status),
            Step { save, ..self.get("", "application/json") },
            self.put("/status", "${whole}".into()),
        ]
    }

    fn scale(&self) -> Vec<Step> {
        vec![
            self.get("/scale", "application/json"),
            self.patch("/scale", MERGE, json!({"spec": {"replicas": 4}})),
            self.patch("/scale", MERGE, json!({"spec": {"replicas": -1}})),
            self.get("", "application/json"),
        ]
    }

    /// Returns the requests that delete the object. Some kinds have finalizers that the server itself sets, so these are
    /// removed.
    fn end(&self) -> Vec<Step> {
        let elsewhere =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "elsewhere"}});
        let release = || self.patch("", MERGE, json!({"metadata": {"finalizers": null}}));
        let collected = || Step { collected: true, ..self.get("", "application/json") };
        let gone = || Step { until: Some(404), ..self.get("", "application/json") };
        let one = format!("{}/{}", self.all, self.name);
        let all = format!("{}?{}", self.all, self.selector());
        vec![
            Step::new(Method::DELETE, format!("{one}?dryRun=All"), None),
            Step::new(Method::DELETE, one.clone(), Some(elsewhere)),
            Step::new(Method::DELETE, one, None),
            collected(),
            release(),
            gone(),
            self.post("", self.manifest.clone()),
            Step::new(Method::DELETE, all, None),
            collected(),
            release(),
            gone(),
            self.list(""),
        ]
    }

    fn selector(&self) -> String {
        format!("fieldSelector=metadata.name%3D{}", self.name)
    }

    fn list(&self, query: &str) -> Step {
        Step::new(Method::GET, format!("{}?{}{query}", self.all, self.selector()), None)
    }

    fn post(&self, query: &str, object: Value) -> Step {
        Step::new(Method::POST, format!("{}{query}", self.all), Some(object))
    }

    fn get(&self, subresource: &str, accept: &'static str) -> Step {
        Step { accept, ..Step::new(Method::GET, format!("{}/{}{subresource}", self.all, self.name), None) }
    }

    fn put(&self, subresource: &str, object: Value) -> Step {
        Step::new(Method::PUT, format!("{}/{}{subresource}", self.all, self.name), Some(object))
    }

    fn patch(&self, rest: &str, content_type: &'static str, body: Value) -> Step {
        let path = format!("{}/{}{rest}", self.all, self.name);
        Step { content_type, ..Step::new(Method::PATCH, path, Some(body)) }
    }

    /// Applies fields of the object.
    fn apply(&self, rest: &str, fields: &Value) -> Step {
        let head = json!({
            "apiVersion": self.manifest["apiVersion"], "kind": self.manifest["kind"], "metadata": {"name": self.name},
        });
        self.patch(rest, APPLY, with(&head, fields))
    }
}

fn saved(name: &str, pointer: &str) -> Variables {
    Variables::from([(name.to_owned(), pointer.to_owned())])
}

/// Returns the object with more fields.
fn with(object: &Value, fields: &Value) -> Value {
    let mut object = object.clone();
    merge(&mut object, fields.clone());
    object
}

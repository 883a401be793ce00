//! Sequences about a custom resource with a CRD that changes: its schema, its versions, and its scope after it was deleted.

use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lockstep_engine::yaml;
use proptest::array::uniform2;
use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde_json::{Value, json};

use super::clients::{CLIENTS, of_client};
use super::kind::Kind;
use super::requests;
use crate::conformance::merge::merge;
use crate::conformance::scenario::{MERGE, Scenario, Step, Variables};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The maximum number of changes and requests in a sequence.
const LENGTH_MAX: usize = 28;

/// The group, which no other sequence uses.
const GROUP: &str = "${ns}.lockstep.test";

/// A change of the definition.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Other schemas of `spec`, one for each version.
    Schemas([usize; 2]),
    /// The other version becomes the stored one.
    Storage,
    /// The second version is served, or no longer.
    Served,
    /// The subresource `status` exists, or no longer.
    Status,
    /// The definition is deleted, and created again with the other scope.
    Scope,
}

#[derive(Debug, Clone)]
enum Entry {
    Requests(Vec<Step>),
    Change(Change),
}

/// The state of the definition while a sequence is put together.
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
struct Definition {
    /// How many changes there were. The schema has a field of this name, so that a request shows when a change has arrived.
    number: usize,
    schemas: [usize; 2],
    stores_second: bool,
    serves_second: bool,
    has_status: bool,
    is_namespaced: bool,
    /// Whether it has had the other scope. A real garbage collector can miss such a change. It does not end a deletion then for
    /// which it has to remove a finalizer (docs/limits.md).
    was_other_scope: bool,
}

/// Returns the CRD of [`Kind::widgets`].
///
/// # Errors
/// If the file is not a CRD.
pub fn widgets() -> anyhow::Result<CustomResourceDefinition> {
    Ok(yaml::read(include_str!("../widgets.yaml"))?)
}

/// Returns sequences about objects of a kind with a definition that changes meanwhile.
///
/// # Errors
/// If the definition of the widgets can't be read.
pub fn changing_definitions() -> anyhow::Result<BoxedStrategy<Scenario>> {
    let schemas = schemas(&serde_json::to_value(widgets()?)?);
    let gadgets = |version: &str| Kind {
        api_version: format!("{GROUP}/{version}"),
        name: "Gadget".to_owned(),
        path: format!("${{{version}}}"),
        ..Kind::widgets()
    };
    let request = prop_oneof![requests::request(&gadgets("v1")), requests::request(&gadgets("v2"))];
    let change = prop_oneof![
        4 => (0..schemas.len()).prop_map(|both| Change::Schemas([both; 2])),
        2 => uniform2(0..schemas.len()).prop_map(Change::Schemas),
        1 => Just(Change::Storage),
        1 => Just(Change::Served),
        1 => Just(Change::Status),
        1 => Just(Change::Scope),
    ];
    let entry = prop_oneof![
        5 => (select(&CLIENTS[..]), request).prop_map(of_client).prop_map(Entry::Requests),
        1 => change.prop_map(Entry::Change),
    ];
    let sequence = (any::<bool>(), vec(entry, 1..=LENGTH_MAX)).prop_map(move |(is_namespaced, entries)| {
        let mut definition = Definition {
            number: 0,
            schemas: [0; 2],
            stores_second: false,
            serves_second: true,
            has_status: true,
            is_namespaced,
            was_other_scope: false,
        };
        let mut steps = definition.create(&schemas);
        for entry in entries {
            match entry {
                Entry::Requests(requests) => {
                    let ended = requests.into_iter().map(|step| definition.without_collector(step));
                    steps.extend(ended.map(|step| definition.locate(step)));
                }
                Entry::Change(change) => steps.extend(definition.change(change, &schemas)),
            }
        }
        Scenario { name: "generated".to_owned(), namespace: String::new(), vars: Variables::new(), steps }
    });
    Ok(sequence.boxed())
}

/// Returns the schemas of `spec`: that of the widgets, and others that disagree with it in a field.
fn schemas(widgets: &Value) -> Vec<Value> {
    let base = &widgets["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let with = |change: Value| {
        let mut schema = base.clone();
        merge(&mut schema, change);
        without_nulls(&mut schema);
        schema
    };
    vec![
        with(json!({})),
        with(json!({"x-kubernetes-validations": null, "properties": {"size": {"type": "string"}}})),
        with(
            json!({"properties": {"parts": {"x-kubernetes-list-type": null, "x-kubernetes-list-map-keys": null}}}),
        ),
        // Not more than one field: a real server reports a random one if another version lacks several.
        with(json!({"properties": {"atom": null}})),
        with(json!({"properties": {"tags": null}})),
        with(json!({"x-kubernetes-preserve-unknown-fields": true, "properties": {"plain": null}})),
        with(json!({"properties": {"size": {"maximum": 2}}})),
        with(json!({"required": ["size"]})),
        with(
            json!({"properties": {"labels": {"x-kubernetes-map-type": "atomic"}, "atom": {"x-kubernetes-map-type": null}}}),
        ),
        with(json!({"properties": {"plain": {"items": {"type": "string"}}, "max": {"default": 1}}})),
    ]
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

impl Definition {
    fn name() -> String {
        format!("gadgets.{GROUP}")
    }

    fn versions(&self, schemas: &[Value]) -> Value {
        let version = |name: &str, schema: usize, served: bool, storage: bool| {
            let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
            let mark = json!({"type": "string", "default": "there"});
            let schema = json!({
                "type": "object",
                "properties": {"spec": schemas[schema], "status": status, self.mark(): mark},
            });
            let mut version = json!({
                "name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema},
            });
            if self.has_status {
                version["subresources"] = json!({"status": {}});
            }
            version
        };
        json!([
            version("v1", self.schemas[0], true, !self.stores_second),
            version("v2", self.schemas[1], self.serves_second, self.stores_second)
        ])
    }

    fn mark(&self) -> String {
        format!("change{}", self.number)
    }

    /// Creates the definition, and waits until its kind is served.
    fn create(&self, schemas: &[Value]) -> Vec<Step> {
        let object = json!({
            "metadata": {"name": Self::name()},
            "spec": {
                "group": GROUP,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": self.versions(schemas),
            },
        });
        vec![Step::new(Method::POST, DEFINITIONS, Some(object)), self.arrival()]
    }

    fn change(&mut self, change: Change, schemas: &[Value]) -> Vec<Step> {
        self.number += 1;
        match change {
            Change::Schemas(both) => self.schemas = both,
            Change::Storage => {
                self.stores_second = !self.stores_second;
            }
            Change::Served => self.serves_second = !self.serves_second,
            Change::Status => self.has_status = !self.has_status,
            Change::Scope => {
                // An object with a finalizer would keep the definition.
                let mut steps: Vec<Step> = ["a", "b"].map(|name| self.release(name)).into();
                self.is_namespaced = !self.is_namespaced;
                self.was_other_scope = true;
                let one = format!("{DEFINITIONS}/{}", Self::name());
                let gone = Step { until: Some(404), ..Step::new(Method::GET, one.clone(), None) };
                steps.extend([Step::new(Method::DELETE, one, None), gone]);
                steps.extend(self.create(schemas));
                return steps;
            }
        }
        let path = format!("{DEFINITIONS}/{}?fieldManager=owner", Self::name());
        let body = json!({"spec": {"versions": self.versions(schemas)}});
        let patch = Step { content_type: MERGE, ..Step::new(Method::PATCH, path, Some(body)) };
        vec![patch, self.arrival()]
    }

    /// Returns a request that removes the finalizers of an object.
    fn release(&self, name: &str) -> Step {
        let body = json!({"metadata": {"finalizers": null}});
        let patch = Step::new(Method::PATCH, format!("${{v1}}/{name}"), Some(body));
        self.locate(Step { content_type: MERGE, ..patch })
    }

    /// Returns a request that is repeated until its answer shows the latest change.
    fn arrival(&self) -> Step {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "metadata": {"name": "arrival"},
        });
        let create = Step::new(Method::POST, "${v1}?dryRun=All", Some(object));
        self.locate(Step { until_fields: [(format!("/{}", self.mark()), true)].into(), ..create })
    }

    /// Lets a deletion end without the garbage collector, once the scope has changed.
    fn without_collector(&self, mut step: Step) -> Step {
        let policy = step.body.as_mut().and_then(|body| body.get_mut("propagationPolicy"));
        if let Some(policy) = policy.filter(|_| self.was_other_scope && step.method == Method::DELETE) {
            *policy = "Background".into();
        }
        step
    }

    /// Replaces the names of the collections by their paths.
    fn locate(&self, step: Step) -> Step {
        let scope = if self.is_namespaced { "namespaces/${ns}/" } else { "" };
        let path = ["v1", "v2"].iter().fold(step.path, |path, version| {
            path.replace(&format!("${{{version}}}"), &format!("/apis/{GROUP}/{version}/{scope}gadgets"))
        });
        Step { path, ..step }
    }
}

//! An object of every kind, from which lifecycles and generated sequences are made.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lockstep_apiserver::builtin;
use lockstep_engine::yaml;
use serde::Deserialize;
use serde_json::Value;

/// An object of a kind, and what may be written to it; `specimens.yaml` describes the fields.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Specimen {
    pub(super) manifest: Value,
    #[serde(default)]
    pub(super) changes: Vec<Value>,
    #[serde(default)]
    pub(super) status: Option<Value>,
    #[serde(default)]
    pub(super) invalid: Vec<Value>,
    /// The object as it is served after the server's own writes.
    #[serde(default)]
    pub(super) settled: Option<String>,
    /// Whether controllers are involved in the deletion, which then has a scenario of its own.
    #[serde(default)]
    pub(super) ends_elsewhere: bool,
}

/// The data about a kind that the requests need.
pub(super) struct Kind {
    pub(super) api_version: String,
    pub(super) name: String,
    pub(super) plural: String,
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    pub(super) has_scale: bool,
}

/// Returns each kind that the model serves and that can be created and read, with its specimen.
pub(super) fn built_in() -> anyhow::Result<Vec<(Kind, Specimen)>> {
    let stored = builtin::resources().iter().filter(|resource| is_stored(resource));
    of_kinds(stored.map(Kind::of_builtin), include_str!("specimens.yaml"))
}

/// Returns each of the kinds with its specimen; a kind without one, and the reverse, is an error.
pub(super) fn of_kinds(
    kinds: impl Iterator<Item = Kind>,
    specimens: &str,
) -> anyhow::Result<Vec<(Kind, Specimen)>> {
    let specimens: Vec<Specimen> = yaml::read(specimens)?;
    let text =
        |specimen: &Specimen, key: &str| specimen.manifest[key].as_str().unwrap_or_default().to_owned();
    let mut by_kind: BTreeMap<_, _> =
        specimens.into_iter().map(|each| ((text(&each, "apiVersion"), text(&each, "kind")), each)).collect();
    let mut pairs = Vec::new();
    for kind in kinds {
        let specimen = by_kind.remove(&(kind.api_version.clone(), kind.name.clone()));
        let specimen =
            specimen.with_context(|| format!("{} {} has no specimen", kind.api_version, kind.name))?;
        pairs.push((kind, specimen));
    }
    anyhow::ensure!(by_kind.is_empty(), "specimens of kinds that are not served: {:?}", by_kind.keys());
    Ok(pairs)
}

impl Kind {
    pub(super) fn of_builtin(resource: &builtin::Resource) -> Self {
        let builtin::Resource { group, version, .. } = resource;
        Self {
            api_version: if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") },
            name: resource.kind.to_owned(),
            plural: resource.plural.to_owned(),
            namespaced: resource.namespaced,
            has_status: resource.subresources.contains(&"status"),
            has_scale: resource.subresources.contains(&"scale"),
        }
    }

    pub(super) fn of_definition(crd: &CustomResourceDefinition) -> Self {
        Self {
            api_version: format!("{}/{}", crd.spec.group, crd.spec.versions[0].name),
            name: crd.spec.names.kind.clone(),
            plural: crd.spec.names.plural.clone(),
            namespaced: crd.spec.scope == "Namespaced",
            has_status: true,
            has_scale: false,
        }
    }

    /// Returns a name that identifies the kind.
    pub(super) fn label(&self) -> String {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("core", &self.api_version));
        format!("{}-{}-{version}", self.plural, group.split('.').next().unwrap_or_default())
    }

    /// Returns the path of the group version.
    fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("{root}/{}", self.api_version)
    }

    /// Returns the path of the collection, in the namespace of the scenario.
    pub(super) fn collection(&self) -> String {
        let scope = if self.namespaced { "namespaces/${ns}/" } else { "" };
        format!("/{}/{scope}{}", self.path(), self.plural)
    }
}

/// Returns whether objects of the kind can be created and read again; reviews can't.
fn is_stored(resource: &builtin::Resource) -> bool {
    let entries = builtin::api_resources(&Kind::of_builtin(resource).path()).unwrap_or_default();
    let entry = entries.iter().find(|entry| entry["name"] == resource.plural);
    let verbs = entry.and_then(|entry| entry["verbs"].as_array());
    ["create", "get"].iter().all(|verb| verbs.is_some_and(|verbs| verbs.iter().any(|each| each == verb)))
}

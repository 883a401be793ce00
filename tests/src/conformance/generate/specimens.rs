//! The built-in kinds, with fields made from their specimens.

use proptest::option;
use proptest::prelude::{BoxedStrategy, Strategy, prop_oneof};
use proptest::sample::select;
use serde_json::{Value, json};

use super::fields::with_metadata;
use super::kind::{Kind, Naming};
use super::mutation::{mutate, mutation, pointers, values};
use crate::conformance::merge::merge;
use crate::conformance::specimen::{self, Specimen};

impl Kind {
    /// Returns all built-in kinds that the model serves and that can be created and read.
    ///
    /// # Errors
    /// If a kind has no specimen.
    pub fn built_in() -> anyhow::Result<Vec<Self>> {
        let pairs = specimen::built_in()?;
        // CRDs have sequences of their own: the server writes to them later, which a request would have to wait for. Objects with
        // the same name in all sequences would be shared.
        let steady = pairs.iter().filter(|(kind, specimen)| {
            let name = specimen.manifest["metadata"]["name"].as_str();
            // A real server sometimes writes a claim that an update does not change.
            kind.name != "PersistentVolumeClaim"
                && specimen.settled.is_none()
                && name.is_none_or(|name| name.contains("${ns}"))
        });
        Ok(steady.map(|(kind, specimen)| Self::of_specimen(kind, specimen)).collect())
    }

    fn of_specimen(kind: &specimen::Kind, specimen: &Specimen) -> Self {
        let mut least = specimen.manifest.clone();
        let fixed = least["metadata"]["name"].as_str().map(str::to_owned);
        without_head(&mut least);
        // Without code that judges the kind, only the types of its fields can be compared.
        let only_unknown = specimen.invalid.is_empty();
        let whole = |change: &Value| {
            let mut object = least.clone();
            merge(&mut object, change.clone());
            object
        };
        let mut valid = vec![least.clone()];
        valid.extend(specimen.changes.iter().map(whole));
        let invalid: Vec<Value> = specimen.invalid.iter().map(whole).collect();
        let mut patches = vec![json!({})];
        patches.extend(specimen.changes.clone());
        Self {
            api_version: kind.api_version.clone(),
            name: kind.name.clone(),
            path: kind.collection(),
            naming: match fixed {
                Some(name) => Naming::Fixed(name),
                None if kind.namespaced => Naming::Namespaced,
                None => Naming::ClusterScoped,
            },
            places: if only_unknown { Vec::new() } else { places(&valid) },
            fields: with_metadata(written(valid, invalid, only_unknown)),
            patches: with_metadata(written(patches, specimen.invalid.clone(), only_unknown)),
            status: specimen
                .status
                .clone()
                .map(|status| written(vec![status, json!({"status": {}})], Vec::new(), true)),
            has_scale: kind.has_scale,
            is_deleted: !specimen.ends_elsewhere,
            least,
        }
    }
}

/// Removes what [`Kind::object`] adds.
fn without_head(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.remove("name");
        }
    }
}

/// Returns one of the objects, sometimes an invalid one, and sometimes with another value somewhere.
fn written(valid: Vec<Value>, invalid: Vec<Value>, only_unknown: bool) -> BoxedStrategy<Value> {
    let objects = if invalid.is_empty() {
        select(valid).boxed()
    } else {
        prop_oneof![9 => select(valid), 1 => select(invalid)].boxed()
    };
    let mutation = option::weighted(0.2, mutation(only_unknown));
    (objects, mutation)
        .prop_map(|(mut object, mutation)| {
            if let Some(mutation) = mutation {
                mutate(&mut object, mutation);
            }
            object
        })
        .boxed()
}

/// Returns the places in objects, each with its own value and with other ones.
fn places(objects: &[Value]) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    for object in objects {
        for pointer in pointers(object) {
            let value = object.pointer(&pointer).cloned().unwrap_or_default();
            places.push((pointer.clone(), value));
            places.extend(values().into_iter().map(|value| (pointer.clone(), value)));
        }
    }
    places
}

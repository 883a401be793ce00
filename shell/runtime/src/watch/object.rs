//! The objects of watches: read by our own parser, so that one that can't be read whole does not end the watch of its kind.

use std::borrow::Cow;

use kube::Resource;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{DynamicResourceScope, ObjectMeta};
use lockstep_engine::object::Kind;
use lockstep_engine::wire::ReadObject;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::{Map, Value};

/// An object, or only its metadata.
#[derive(Debug, Clone)]
pub(super) struct Watched<const METADATA_ONLY: bool> {
    fields: Map<String, Value>,
    /// What kube's watcher needs: the resource version.
    metadata: ObjectMeta,
}

impl<const METADATA_ONLY: bool> Watched<METADATA_ONLY> {
    /// Returns what machines get. Items of a list don't carry their kind, so it is filled in.
    pub(super) fn into_value(self, kind: &Kind) -> Value {
        let mut fields = self.fields;
        if METADATA_ONLY {
            fields.retain(|name, _| name == "metadata");
        } else {
            fields.insert("apiVersion".to_owned(), kind.api_version().into());
            fields.insert("kind".to_owned(), kind.kind.clone().into());
        }
        Value::Object(fields)
    }
}

impl<'de, const METADATA_ONLY: bool> Deserialize<'de> for Watched<METADATA_ONLY> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ReadObject(fields) = ReadObject::deserialize(deserializer)?;
        let metadata = fields.get("metadata").ok_or_else(|| D::Error::missing_field("metadata"))?;
        let resource_version = metadata["resourceVersion"].as_str().map(str::to_owned);
        Ok(Self { metadata: ObjectMeta { resource_version, ..ObjectMeta::default() }, fields })
    }
}

impl<const METADATA_ONLY: bool> Resource for Watched<METADATA_ONLY> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn metadata_api() -> bool {
        METADATA_ONLY
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(resource)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(resource)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(resource)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

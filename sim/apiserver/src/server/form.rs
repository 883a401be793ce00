//! The forms of objects in answers: in full, their metadata only, or as rows of a table.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::builtin;

/// How much of an object a table row contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// The requested form of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Full,
    /// `PartialObjectMetadata` of this version of `meta.k8s.io`.
    Partial(&'static str),
    /// A list of `PartialObjectMetadata`.
    PartialList(&'static str),
    /// A table of this version of `meta.k8s.io`.
    Table(&'static str, Include),
}

impl Form {
    /// Writes one object as JSON.
    pub(super) fn write_object(&self, out: &mut Vec<u8>, object: &Value) {
        match self {
            Self::Partial(version) | Self::PartialList(version)
                if object.get("kind").is_some_and(|kind| kind != "Status") =>
            {
                write_json(out, &Partial { version, object });
            }
            _ => write_json(out, object),
        }
    }
}

/// Writes a value as JSON.
pub(super) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("values with string keys are always JSON");
}

/// The metadata of an object.
pub(super) struct Partial<'a> {
    pub(super) version: &'static str,
    pub(super) object: &'a Value,
}

impl Serialize for Partial<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("kind", "PartialObjectMetadata")?;
        map.serialize_entry("apiVersion", self.version)?;
        map.serialize_entry("metadata", &*builtin::metadata_alone(self.object))?;
        map.end()
    }
}

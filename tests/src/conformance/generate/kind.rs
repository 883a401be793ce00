//! The kinds of the objects in generated sequences.

use proptest::prelude::BoxedStrategy;
use serde_json::{Value, json};

use super::fields;
use crate::conformance::merge::merge;

/// A kind to write to, with the path of its resource.
#[derive(Debug, Clone)]
pub struct Kind {
    pub(super) api_version: String,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) naming: Naming,
    /// The possible fields of an object.
    pub(super) fields: BoxedStrategy<Value>,
    /// The possible contents of a patch that merges.
    pub(super) patches: BoxedStrategy<Value>,
    /// The possible contents of a status, if there is one.
    pub(super) status: Option<BoxedStrategy<Value>>,
    /// The paths for a JSON patch, and the values to write there.
    pub(super) places: Vec<(String, Value)>,
    pub(super) has_scale: bool,
    /// Whether deletions are compared here.
    pub(super) is_deleted: bool,
    /// The fields of an object that the server accepts.
    pub(super) least: Value,
}

/// How the objects of a sequence are named.
#[derive(Debug, Clone)]
pub(super) enum Naming {
    /// The namespace of the sequence keeps them apart from others.
    Namespaced,
    /// The namespace is part of their names, and the value of a label.
    ClusterScoped,
    /// There is one object of this name.
    Fixed(String),
}

impl Kind {
    /// Two maps of texts, without defaults.
    pub fn config_maps() -> Self {
        Self {
            places: places(&[
                ("/data", r#"{"a": "3"}"#),
                ("/data/a", r#""3""#),
                ("/data/b", r#""3""#),
                ("/data/a~1b", "3"),
            ]),
            ..Self::new("v1", "ConfigMap", "/api/v1/namespaces/${ns}/configmaps", fields::config_map())
        }
    }

    /// Lists with one and with two keys, many defaults, validation in code.
    pub fn deployments() -> Self {
        let path = "/apis/apps/v1/namespaces/${ns}/deployments";
        Self {
            status: Some(fields::deployment_status()),
            has_scale: true,
            places: places(&[
                ("/spec/replicas", "3"),
                ("/spec/paused", "true"),
                ("/spec/template/spec/containers/0/image", r#""i:3""#),
                ("/spec/template/spec/containers/-", r#"{"name": "three", "image": "i:3"}"#),
                ("/spec/template/spec/containers/1", r#"{"name": "one", "image": "i:3"}"#),
                ("/spec/template/spec/containers/0/env", r#"[{"name": "A", "value": "3"}]"#),
                ("/status/replicas", "3"),
            ]),
            ..Self::new("apps/v1", "Deployment", path, fields::deployment())
        }
    }

    /// A custom resource with each type of list and map, and a rule.
    pub fn widgets() -> Self {
        let path = "/apis/generated.lockstep.test/v1/namespaces/${ns}/widgets";
        Self {
            status: Some(fields::widget_status()),
            places: places(&[
                ("/spec", r#"{"size": 3}"#),
                ("/spec/size", "3"),
                ("/spec/size", "30"),
                ("/spec/size", r#""three""#),
                ("/spec/parts/0", r#"{"name": "p", "weight": 3}"#),
                ("/spec/parts/-", r#"{"name": "q"}"#),
                ("/spec/parts/0/junk", "1"),
                ("/spec/tags", r#"["s", "s"]"#),
                ("/spec/plain/1", "3"),
                ("/spec/atom/x", r#""3""#),
                ("/status/ready", "true"),
            ]),
            ..Self::new("generated.lockstep.test/v1", "Widget", path, fields::widget())
        }
    }

    fn new(api_version: &str, name: &str, path: &str, fields: BoxedStrategy<Value>) -> Self {
        Self {
            api_version: api_version.to_owned(),
            name: name.to_owned(),
            path: path.to_owned(),
            naming: Naming::Namespaced,
            patches: fields.clone(),
            fields,
            status: None,
            places: Vec::new(),
            has_scale: false,
            is_deleted: true,
            least: fields::least(),
        }
    }

    /// Returns the name of an object as the server knows it.
    pub(super) fn called(&self, name: &str) -> String {
        match &self.naming {
            Naming::Namespaced => name.to_owned(),
            Naming::ClusterScoped => format!("${{ns}}-{name}"),
            Naming::Fixed(name) => name.clone(),
        }
    }

    /// Returns whether a sequence can recognise its own events.
    pub(super) fn is_watched(&self) -> bool {
        !matches!(self.naming, Naming::Fixed(_))
    }

    /// Returns an object of the kind with these fields.
    pub(super) fn object(&self, name: &str, fields: Value) -> Value {
        let name = self.called(name);
        let mut object =
            json!({"apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name}});
        merge(&mut object, fields);
        if matches!(self.naming, Naming::ClusterScoped) {
            merge(&mut object, json!({"metadata": {"labels": {"lot": "${ns}"}}}));
        }
        object
    }

    /// Returns an object that the server accepts.
    pub(super) fn valid(&self, name: &str, metadata: Value) -> Value {
        let mut fields = self.least.clone();
        merge(&mut fields, metadata);
        self.object(name, fields)
    }
}

fn places(places: &[(&str, &str)]) -> Vec<(String, Value)> {
    let read = |text| serde_json::from_str(text).unwrap_or_default();
    places.iter().map(|(path, value)| ((*path).to_owned(), read(value))).collect()
}

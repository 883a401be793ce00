//! The kinds of the objects in generated sequences.

use proptest::prelude::BoxedStrategy;
use serde_json::{Value, json};

use super::fields;
use crate::conformance::merge::merge;

/// A kind to write to, with the path of its resource.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    api_version: &'static str,
    name: &'static str,
    pub(super) path: &'static str,
    pub(super) fields: fn() -> BoxedStrategy<Value>,
    /// The possible contents of a status, if there is one.
    pub(super) status: Option<fn() -> BoxedStrategy<Value>>,
    /// The paths for a JSON patch, and the values to write there.
    pub(super) places: &'static [(&'static str, &'static str)],
}

/// Two maps of texts, without defaults.
pub const CONFIG_MAPS: Kind = Kind {
    api_version: "v1",
    name: "ConfigMap",
    path: "/api/v1/namespaces/${ns}/configmaps",
    fields: fields::config_map,
    status: None,
    places: &[("/data", r#"{"a": "3"}"#), ("/data/a", r#""3""#), ("/data/b", r#""3""#), ("/data/a~1b", "3")],
};

/// Lists with one and with two keys, many defaults, validation in code.
pub const DEPLOYMENTS: Kind = Kind {
    api_version: "apps/v1",
    name: "Deployment",
    path: "/apis/apps/v1/namespaces/${ns}/deployments",
    fields: fields::deployment,
    status: Some(fields::deployment_status),
    places: &[
        ("/spec/replicas", "3"),
        ("/spec/paused", "true"),
        ("/spec/template/spec/containers/0/image", r#""i:3""#),
        ("/spec/template/spec/containers/-", r#"{"name": "three", "image": "i:3"}"#),
        ("/spec/template/spec/containers/1", r#"{"name": "one", "image": "i:3"}"#),
        ("/spec/template/spec/containers/0/env", r#"[{"name": "A", "value": "3"}]"#),
        ("/status/replicas", "3"),
    ],
};

/// A custom resource with each type of list and map, and a rule.
pub const WIDGETS: Kind = Kind {
    api_version: "generated.lockstep.test/v1",
    name: "Widget",
    path: "/apis/generated.lockstep.test/v1/namespaces/${ns}/widgets",
    fields: fields::widget,
    status: Some(fields::widget_status),
    places: &[
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
    ],
};

impl Kind {
    /// Returns an object of the kind with these fields.
    pub(super) fn object(self, name: &str, fields: Value) -> Value {
        let mut object =
            json!({"apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name}});
        merge(&mut object, fields);
        object
    }
}

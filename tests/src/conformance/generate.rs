//! Sequences of requests made up by proptest: several managers write to a few objects of three kinds.

use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lockstep_core::yaml;
use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Strategy};
use serde_json::{Value, json};

pub(super) use self::fields::merge;
use super::arm::Arm;
use super::scenario::{Scenario, Step, Variables};

mod fields;
mod requests;

/// How many requests a sequence has at most, apart from those that frame it.
const LENGTH_MAX: usize = 14;

/// The object that ends a sequence, so that a watch knows when it has seen all.
const LAST: &str = "last";

/// A kind to write to, with the path of its resource.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    api_version: &'static str,
    name: &'static str,
    path: &'static str,
    fields: fn() -> BoxedStrategy<Value>,
    /// What a status may say, if there is one.
    status: Option<fn() -> BoxedStrategy<Value>>,
    /// Where a JSON patch may reach, and what may be put there.
    places: &'static [(&'static str, &'static str)],
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

/// The definition of [`WIDGETS`].
///
/// # Errors
/// If the file is not one.
pub fn widgets() -> anyhow::Result<CustomResourceDefinition> {
    Ok(yaml::read(include_str!("widgets.yaml"))?)
}

/// Installs a definition, unless the server has it, and waits until its kind is served.
///
/// # Errors
/// If the server does not take it.
pub async fn install(arm: &mut impl Arm, crd: &CustomResourceDefinition) -> anyhow::Result<()> {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let object = Some(serde_json::to_value(crd)?);
    let created = arm.send(&Step::new(Method::POST, crds, object), &Variables::new()).await?;
    anyhow::ensure!([201, 409].contains(&created.code), "creating a definition: {}", created.body);
    let spec = &crd.spec;
    let all = format!("/apis/{}/{}/{}", spec.group, spec.versions[0].name, spec.names.plural);
    let list = Step { until: Some(200), ..Step::new(Method::GET, all, None) };
    let listed = arm.send(&list, &Variables::new()).await?;
    anyhow::ensure!(listed.code == 200, "listing {}: {}", spec.names.plural, listed.body);
    Ok(())
}

/// Sequences about objects of one kind; each ends with the watches of all that has happened.
pub fn sequences(kind: Kind) -> impl Strategy<Value = Scenario> {
    vec(requests::request(kind), 1..=LENGTH_MAX).prop_map(move |requests| {
        let start = Variables::from([("start".to_owned(), "/metadata/resourceVersion".to_owned())]);
        let mut steps = vec![Step { save: start, ..Step::new(Method::GET, kind.path, None) }];
        steps.extend(requests.into_iter().flatten());
        let least = json!({"metadata": {"name": LAST, "labels": {"x": "1"}}, "spec": fields::least()});
        steps.push(Step::new(Method::POST, kind.path, Some(kind.object(LAST, least))));
        steps.extend(["", "&labelSelector=x%3D1"].map(|selector| kind.watch(selector)));
        Scenario { name: "generated".to_owned(), namespace: String::new(), vars: Variables::new(), steps }
    })
}

impl Kind {
    fn object(self, name: &str, fields: Value) -> Value {
        let mut object =
            json!({"apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name}});
        merge(&mut object, fields);
        object
    }

    /// Everything since the start of the sequence until its last object.
    fn watch(self, selector: &str) -> Step {
        let path = format!("{}?watch=true&resourceVersion=${{start}}{selector}", self.path);
        Step { events: Some(usize::MAX), last: Some(LAST), ..Step::new(Method::GET, path, None) }
    }
}

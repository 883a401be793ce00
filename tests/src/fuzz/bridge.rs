//! Fuzzes whole `DPFHCPBridges`, in clusters with objects of any shape.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_bridge::names::control_plane_namespace;
use lockstep_bridge::{Operator, names};
use lockstep_engine::machine::Step;
use lockstep_engine::object::{Name, text};
use lockstep_engine::operator::Config;
use serde_json::Value;

use super::always_ok::{self, World};
use super::documents::{SECRET, fill, named, objects, plant, shows_secret};

/// Reads the bytes as the JSON of a cluster: for each kind one object, or a list of them.
pub fn bridge(data: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(data) else { return };
    if !document.is_object() {
        return;
    }
    let world = world(&document);
    let run = || {
        let config =
            Config { concurrency: 2, resync: Duration::from_hours(1), instance: "fuzz".to_owned(), seed: 1 };
        always_ok::run(&mut Operator::new(config), world.clone())
    };
    let steps = run();
    assert!(run() == steps, "the same events gave different steps");
    let (homes, is_exposed) = (homes(&document), shows_secret(&document.to_string()));
    for step in &steps {
        check(step, &homes, is_exposed);
    }
}

fn world(document: &Value) -> World {
    let mut world = World::new(Vec::new());
    let fields = [
        ("bridge", names::bridge()),
        ("dpuCluster", names::dpu_cluster()),
        ("secret", names::secret()),
        ("storageClass", names::storage_class()),
        ("hostedCluster", names::hosted_cluster()),
        ("nodePool", names::node_pool()),
        ("service", names::service()),
        ("pool", names::pool()),
        ("advertisement", names::advertisement()),
        ("node", names::node()),
        ("deployment", names::deployment()),
        ("configMap", names::config_map()),
    ];
    for (field, kind) in fields {
        for mut object in objects(document, field) {
            if field == "secret" {
                fill(&mut object, hidden);
            }
            world.put(&named(&kind, &object), object);
        }
    }
    world
}

/// Hides a secret in the values that bridges copy.
fn hidden(key: &str, text: &str) -> Option<String> {
    match key {
        "kubeconfig" => Some(format!("{SECRET}{text}")),
        ".dockerconfigjson" => {
            let mut config: Value = serde_json::from_str(text).ok()?;
            plant(config.get_mut("auths")?);
            Some(config.to_string())
        }
        _ => None,
    }
}

/// Returns the namespaces in which bridges may write: their own, those of their DPUClusters and of their control planes.
fn homes(document: &Value) -> BTreeSet<String> {
    let bridges = objects(document, "bridge");
    let homes = bridges.iter().flat_map(|bridge| {
        let target = named(&names::bridge(), bridge);
        let name = Name::new(target.namespace.as_deref().unwrap_or_default(), &target.name);
        let dpu_cluster = text(bridge, "/spec/dpuClusterRef/namespace").unwrap_or_default();
        [control_plane_namespace(&name), dpu_cluster.to_owned(), name.namespace]
    });
    homes.collect()
}

/// Checks that bridges write only in these namespaces, and that no secret is logged.
fn check(step: &Step, homes: &BTreeSet<String>, is_exposed: bool) {
    for note in &step.notes {
        assert!(is_exposed || !shows_secret(&format!("{note:?}")), "{note:?}");
    }
    for action in step.requests.iter().map(|request| &request.action) {
        let target = action.target();
        if let Some(target) = target.filter(|_| action.is_write()) {
            assert!(target.namespace.as_ref().is_some_and(|home| homes.contains(home)), "{action:?}");
        }
        let is_secret = target.is_some_and(|target| target.kind == names::secret());
        assert!(is_exposed || is_secret || !shows_secret(&format!("{action:?}")), "{action:?}");
    }
}

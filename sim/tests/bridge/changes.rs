//! Descriptions of changes.

use std::collections::BTreeMap;

use lockstep_sim::cluster::{Author, Change};
use serde_json::Value;

/// Returns the phases of a bridge before and after a change.
pub(crate) fn edge(change: &Change) -> Option<(String, String)> {
    let phase = |object: &Value| object["status"]["phase"].as_str().unwrap_or("none").to_owned();
    let before = change.old.as_deref().map_or_else(|| "none".to_owned(), phase);
    let after = phase(change.new.as_deref()?);
    (change.object.kind.kind == "DPFHCPBridge" && before != after).then_some((before, after))
}

/// Describes a change of a bridge or of an object that it created.
pub(crate) fn difference(change: &Change) -> Option<String> {
    let kind = change.object.kind.kind.as_str();
    if kind != "DPFHCPBridge" {
        let by_us = matches!(change.by, Author::Process(_));
        return (by_us && change.new.is_none()).then(|| format!("{} is gone", change.object));
    }
    let name = &change.object.name;
    let Some(new) = &change.new else { return Some(format!("{name} is gone")) };
    let (old, new) = (change.old.as_deref().map(facts).unwrap_or_default(), facts(new));
    let mut lines = Vec::new();
    for (fact, value) in &new {
        if old.get(fact) != Some(value) {
            lines.push(format!("{fact}={value}"));
        }
    }
    lines.extend(old.keys().filter(|fact| !new.contains_key(*fact)).map(|fact| format!("no {fact}")));
    (!lines.is_empty()).then(|| format!("{name}: {}", lines.join(", ")))
}

fn facts(object: &Value) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let status = &object["status"];
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or("?").to_owned();
        facts.insert(text("type"), format!("{}/{}", text("status"), text("reason")));
    }
    for field in ["phase", "apiEndpoint", "ingressEndpoint"] {
        if let Some(value) = status[field].as_str() {
            facts.insert(field.to_owned(), value.to_owned());
        }
    }
    for field in ["hostedClusterRef", "nodePoolRef", "kubeconfigSecretRef"] {
        if let Some(value) = status[field]["name"].as_str() {
            facts.insert(field.to_owned(), value.to_owned());
        }
    }
    facts
}

//! The relations of objects, which their fields and labels name.

use std::fmt;

use lockstep_bridge::names::{BRIDGE_NAME, BRIDGE_NAMESPACE};
use lockstep_dpuservice::names::{CLUSTER, SERVICE};
use lockstep_engine::object::{Kind, Name, ObjectRef, annotation, label, metadata, text};
use lockstep_namespaceclass::names::CLASS_LABEL;
use serde_json::Value;

/// A relation to another object, which need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// What the other object is to this one.
    pub(super) label: &'static str,
    pub(super) kind: String,
    /// Empty for objects without a namespace.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.label, self.kind, self.target())
    }
}

impl Link {
    fn new(label: &'static str, kind: &str, namespace: &str, name: &str) -> Self {
        let (kind, namespace, name) = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        Self { label, kind, namespace, name }
    }

    /// Returns the relation of an object without the kind, which the label implies in most cases, and without the namespace, if
    /// both are in the same.
    pub(super) fn brief(&self, from: &ObjectRef) -> String {
        let mut target = self.target();
        if from.namespace.as_ref() == Some(&target.namespace) {
            target.namespace.clear();
        }
        format!("{} {target}", self.label)
    }

    /// Returns the name of the other object. An owner may have no namespace, which its reference does not say.
    pub(super) fn target(&self) -> Name {
        Name::new(if self.label == OWNER { "" } else { &self.namespace }, &self.name)
    }

    /// Returns whether it leads to this object. An owner is in the same namespace, or in none.
    pub(super) fn leads_to(&self, object: &ObjectRef) -> bool {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let is_owner = self.label == OWNER && namespace.is_empty();
        self.name == object.name && self.kind == object.kind.kind && (self.namespace == namespace || is_owner)
    }
}

const OWNER: &str = "owner";

/// Returns the relations of an object.
pub(super) fn links(kind: &Kind, object: &Value) -> Vec<Link> {
    let namespace = metadata(object, "namespace");
    let mut links = Vec::new();
    let mut link = |label, kind, namespace: &str, name: Option<&str>| {
        links.extend(name.map(|name| Link::new(label, kind, namespace, name)));
    };
    match kind.kind.as_str() {
        "Namespace" => link("class", "NamespaceClass", "", label(object, CLASS_LABEL)),
        "NamespaceClassBinding" => {
            link("class", "NamespaceClass", "", text(object, "/spec/className"));
            link("namespace", "Namespace", "", Some(namespace));
        }
        "DPFHCPBridge" => {
            let place = text(object, "/spec/dpuClusterRef/namespace").unwrap_or_default();
            link("DPU cluster", "DPUCluster", place, text(object, "/spec/dpuClusterRef/name"));
            link("SSH key", "Secret", namespace, text(object, "/spec/sshKeySecretRef/name"));
            link("pull secret", "Secret", namespace, text(object, "/spec/pullSecretRef/name"));
            link("storage class", "StorageClass", "", text(object, "/spec/etcdStorageClass"));
        }
        "SentinelConfig" => {
            link("broker URL", "Secret", namespace, text(object, "/spec/broker/urlSecretRef/name"));
        }
        _ => {}
    }
    let bridge = label(object, BRIDGE_NAMESPACE).unwrap_or_default();
    link("bridge", "DPFHCPBridge", bridge, label(object, BRIDGE_NAME));
    for (role, kind, key) in [("service", "DPUService", SERVICE), ("DPU cluster", "DPUCluster", CLUSTER)] {
        if let Some((namespace, name)) = annotation(object, key).and_then(|name| name.split_once('/')) {
            link(role, kind, namespace, Some(name));
        }
    }
    // The other relations say more than the owner, which is in most cases the same object.
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    links.extend(owners.filter_map(|owner| {
        Some(Link::new(OWNER, owner["kind"].as_str()?, namespace, owner["name"].as_str()?))
    }));
    links
}

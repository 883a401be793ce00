//! Checks the systems that a controller needs in the cluster: the prerequisites on its documentation page.

use std::sync::Arc;

use lockstep_bridge::names::{self as bridge, HYPERSHIFT, HYPERSHIFT_OPERATOR};
use lockstep_crds::CrdSet;
use lockstep_dpuservice::names::{self as dpuservice, ARGO_NAMESPACE};
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::object::{Kind, ObjectRef};

use super::super::cluster::Cluster;
use super::finding::{Finding, Level};

const CHECK: &str = "system";

/// A kind that another system defines.
struct Prerequisite {
    system: &'static str,
    kind: Arc<Kind>,
    /// The result if it is missing: FAIL if every object of the controller needs it.
    missing: Level,
    /// Who needs it.
    why: &'static str,
}

const EVERY_BRIDGE: &str = "every DPFHCPBridge needs it";
const EVERY_SERVICE: &str = "every DPUService needs it";
const LOAD_BALANCED: &str = "DPFHCPBridges with exposeThroughLoadBalancer: true need it";
const WITH_POOL: &str = "DPFHCPBridges with metalLBPool need it";

pub(super) async fn check(cluster: &Cluster, set: &CrdSet) -> Vec<Finding> {
    let mut findings = Vec::new();
    for prerequisite in prerequisites(set.controller) {
        findings.push(served(cluster, set.controller, &prerequisite).await);
    }
    match set.controller {
        lockstep_crds::bridge::CONTROLLER => {
            findings.push(hypershift(cluster).await);
            findings.push(storage_classes(cluster).await);
        }
        lockstep_crds::dpuservice::CONTROLLER => findings.push(argocd_namespace(cluster).await),
        _ => {}
    }
    findings
}

fn prerequisites(controller: &str) -> Vec<Prerequisite> {
    let needs = |system, kind, missing, why| Prerequisite { system, kind, missing, why };
    match controller {
        lockstep_crds::bridge::CONTROLLER => vec![
            needs("HyperShift", bridge::hosted_cluster(), Level::Fail, EVERY_BRIDGE),
            needs("HyperShift", bridge::node_pool(), Level::Fail, EVERY_BRIDGE),
            needs("DPF", bridge::dpu_cluster(), Level::Fail, EVERY_BRIDGE),
            needs("MetalLB", bridge::pool(), Level::Warn, LOAD_BALANCED),
            needs("MetalLB", bridge::advertisement(), Level::Warn, WITH_POOL),
            needs("OpenShift's router", route(), Level::Warn, LOAD_BALANCED),
        ],
        lockstep_crds::dpuservice::CONTROLLER => vec![
            needs("DPF", dpuservice::dpu_cluster(), Level::Fail, EVERY_SERVICE),
            needs("Argo CD", dpuservice::application(), Level::Fail, EVERY_SERVICE),
            needs("Argo CD", dpuservice::project(), Level::Fail, EVERY_SERVICE),
        ],
        _ => Vec::new(),
    }
}

/// HyperShift publishes the services of a hosted cluster through Routes.
fn route() -> Arc<Kind> {
    Kind::known("route.openshift.io", "v1", "Route", "routes", true)
}

async fn served(cluster: &Cluster, controller: &str, prerequisite: &Prerequisite) -> Finding {
    let Prerequisite { system, kind, missing, why } = prerequisite;
    let subject = format!("{controller}, {system}");
    let name = format!("{}.{}/{}", kind.plural, kind.group, kind.version);
    match cluster.serves(kind).await {
        Ok(true) => Finding::ok(CHECK, &subject, format!("{name} is served")),
        Ok(false) => {
            let message = format!("{name} is not served, and {why}");
            let remedy = format!("install {system}");
            Finding { level: *missing, ..Finding::fail(CHECK, &subject, message, remedy) }
        }
        Err(failure) => unknown(&subject, &name, &failure),
    }
}

/// Reports that something could not be read. The accounts of the chart may not read everything that is checked here.
fn unknown(subject: &str, what: &str, failure: &Failure) -> Finding {
    let message = format!("{what} could not be read ({failure})");
    let remedy = match failure.class {
        ErrorKind::Forbidden => "run the check with an account that may read it",
        _ => "try again",
    };
    Finding::warn(CHECK, subject, message, remedy)
}

async fn hypershift(cluster: &Cluster) -> Finding {
    let subject = "bridge, HyperShift";
    let target = ObjectRef::namespaced(&bridge::deployment(), HYPERSHIFT, HYPERSHIFT_OPERATOR);
    let name = target.to_string();
    match cluster.get(target).await {
        Ok(Some(found)) => {
            let available = found.pointer("/status/availableReplicas").and_then(serde_json::Value::as_u64);
            match available.unwrap_or(0) {
                0 => {
                    let remedy = "check its pods and their logs";
                    Finding::fail(CHECK, subject, format!("{name} has no available replica"), remedy)
                }
                replicas => Finding::ok(CHECK, subject, format!("{name} runs, {replicas} available")),
            }
        }
        Ok(None) => Finding::fail(CHECK, subject, format!("{name} does not exist"), "install HyperShift"),
        Err(failure) => unknown(subject, &name, &failure),
    }
}

async fn storage_classes(cluster: &Cluster) -> Finding {
    let subject = "bridge, storage";
    match cluster.list(&bridge::storage_class(), None).await {
        Ok(classes) if classes.is_empty() => {
            let remedy = "create one with dynamic provisioning";
            Finding::fail(
                CHECK,
                subject,
                "no StorageClass exists; etcd of every DPFHCPBridge needs one",
                remedy,
            )
        }
        Ok(classes) => {
            let names = classes.iter().map(|class| class["metadata"]["name"].as_str().unwrap_or_default());
            let names = names.collect::<Vec<_>>().join(", ");
            Finding::ok(CHECK, subject, format!("StorageClasses: {names}"))
        }
        Err(failure) => unknown(subject, "StorageClasses", &failure),
    }
}

async fn argocd_namespace(cluster: &Cluster) -> Finding {
    let subject = "dpuservice, Argo CD";
    let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
    let name = format!("namespace {ARGO_NAMESPACE}");
    match cluster.get(ObjectRef::cluster(&kind, ARGO_NAMESPACE)).await {
        Ok(Some(_)) => Finding::ok(CHECK, subject, format!("{name} exists")),
        Ok(None) => {
            let remedy = format!("install Argo CD in {ARGO_NAMESPACE}");
            Finding::fail(CHECK, subject, format!("{name} does not exist"), remedy)
        }
        Err(failure) => unknown(subject, &name, &failure),
    }
}

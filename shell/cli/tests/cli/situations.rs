//! Situations of which the test knows the cause, and what `lockstep explain` says about them.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind};
use lockstep_external::dpu_clusters::UNREACHABLE;
use lockstep_external::dpu_clusters::release::BROKEN;
use serde_json::{Value, json};

use super::explain::{CLASS, config_map, explain, has};
use super::simulated::Simulated;

const WHILE: Duration = Duration::from_mins(10);
const SERVICE: &str = "/apis/svc.dpu.nvidia.com/v1alpha1/namespaces/services/dpuservices/hbn";
const EAST: &str = "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/dpf/dpuclusters/east";
const KUBECONFIG: &str = "/api/v1/namespaces/dpf/secrets/east-kubeconfig";
const SHOP: &str = "/api/v1/namespaces/shop";
const PROJECTS: &str = "/apis/argoproj.io/v1alpha1/namespaces/dpf-argo-cd-system/appprojects";

/// A situation, and the line of the explanation that names its cause.
struct Situation {
    /// Causes it.
    arrange: fn() -> Simulated,
    kind: &'static str,
    object: &'static str,
    condition: &'static str,
    /// The status and the reason of the condition.
    state: &'static str,
    label: &'static str,
    /// What the line contains.
    cause: &'static [&'static str],
}

const fn of_service(
    condition: &'static str,
    state: &'static str,
    label: &'static str,
    cause: &'static [&'static str],
    arrange: fn() -> Simulated,
) -> Situation {
    Situation { arrange, kind: "dpusvc", object: "services/hbn", condition, state, label, cause }
}

const fn of_binding(
    state: &'static str,
    label: &'static str,
    cause: &'static [&'static str],
    arrange: fn() -> Simulated,
) -> Situation {
    let condition = "Ready";
    Situation { arrange, kind: "nsbinding", object: "shop/shop", condition, state, label, cause }
}

const SITUATIONS: &[Situation] = &[
    of_service(
        "DPUClustersReady",
        "False NoDPUClusters",
        "began",
        &["saw DPUService.svc.dpu.nvidia.com services/hbn"],
        || {
            let mut simulated = Simulated::new("dpuservice");
            simulated.service();
            simulated
        },
    ),
    of_service(
        "DPUClustersReady",
        "False NotReady",
        "named",
        &["DPUCluster.provisioning.dpu.nvidia.com dpf/east"],
        || {
            let mut simulated = deployed();
            simulated.merge(EAST, &json!({"metadata": {"annotations": {UNREACHABLE: "true"}}}));
            simulated.pass(WHILE);
            simulated
        },
    ),
    of_service(
        "ClusterSecretsReconciled",
        "False Error",
        "named",
        &["Secret dpf/east-kubeconfig: deleted"],
        || {
            let mut simulated = deployed();
            simulated.delete(KUBECONFIG);
            simulated.pass(WHILE);
            simulated
        },
    ),
    of_service(
        "ClusterSecretsReconciled",
        "False Error",
        "named",
        &["Secret dpf/east-kubeconfig: last seen"],
        || {
            let mut simulated = deployed();
            simulated.merge(KUBECONFIG, &json!({"data": {"super-admin.conf": "bm9uZQ=="}}));
            simulated.pass(WHILE);
            simulated
        },
    ),
    of_service(
        "AppProjectReconciled",
        "False Error",
        "began",
        &["AppProject.argoproj.io", "forbidden: injected"],
        || {
            let mut simulated = Simulated::new("dpuservice");
            simulated.refuse(ErrorKind::Forbidden, |action| writes(action, "AppProject"));
            simulated.dpu_cluster("east");
            simulated.service();
            simulated
        },
    ),
    of_service("AppProjectReconciled", "False Conflict", "began", &["AppProject.argoproj.io"], || {
        let mut simulated = deployed();
        let unlabelled = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
        simulated.merge(&format!("{PROJECTS}/doca-platform-framework"), &unlabelled);
        simulated.pass(WHILE);
        simulated
    }),
    of_service(
        "ApplicationsReconciled",
        "False Error",
        "answer",
        &["apply Application.argoproj.io", "forbidden: injected"],
        || {
            let mut simulated = deployed();
            simulated.refuse(ErrorKind::Forbidden, |action| writes(action, "Application"));
            choose(&mut simulated, "2.0.0");
            simulated
        },
    ),
    of_service("ApplicationsReady", "False Failure", "began", &["saw Application.argoproj.io"], || {
        let mut simulated = deployed();
        choose(&mut simulated, BROKEN);
        simulated
    }),
    of_service("RolledOut", "False Halted", "began", &["saw Application.argoproj.io"], || {
        let mut simulated = deployed();
        choose(&mut simulated, BROKEN);
        simulated
    }),
    of_service("Paused", "True Paused", "began", &["saw DPUService.svc.dpu.nvidia.com services/hbn"], || {
        let mut simulated = deployed();
        simulated.merge(SERVICE, &json!({"spec": {"paused": true}}));
        simulated.pass(WHILE);
        simulated
    }),
    of_binding("False Drifted", "began", &["saw ConfigMap shop/settings"], || {
        let mut simulated = shop(&json!({"drift": "Report"}));
        simulated.merge("/api/v1/namespaces/shop/configmaps/settings", &json!({"data": {"a": "theirs"}}));
        simulated.pass(WHILE);
        simulated
    }),
    of_binding(
        "False UnresolvedVariable",
        "began",
        &["saw NamespaceClass.namespaceclass.akuity.io web"],
        || shop_of_a_team(None),
    ),
    of_binding("False UnresolvedVariable", "began", &["saw Namespace shop"], || {
        let mut simulated = shop_of_a_team(Some("red"));
        simulated.merge(SHOP, &team(None));
        simulated.pass(WHILE);
        simulated
    }),
    of_binding("False RemovalHeld", "began", &["saw NamespaceClass.namespaceclass.akuity.io web"], || {
        let mut simulated = shop(&json!({"removalGuard": {"maxPercent": 10, "windowMinutes": 1}}));
        simulated.merge(CLASS, &json!({"spec": {"resources": []}}));
        simulated.pass(WHILE);
        simulated
    }),
];

/// Returns the service hbn on the clusters east and west, healthy.
fn deployed() -> Simulated {
    let mut simulated = Simulated::new("dpuservice");
    for cluster in ["east", "west"] {
        simulated.dpu_cluster(cluster);
    }
    simulated.service();
    simulated
}

fn choose(simulated: &mut Simulated, version: &str) {
    simulated.merge(SERVICE, &json!({"spec": {"source": {"version": version}}}));
    simulated.pass(WHILE);
}

/// Returns the namespace shop in the class web, which then gets these fields.
fn shop(spec: &Value) -> Simulated {
    let mut simulated = Simulated::new("namespaceclass");
    simulated.class(&json!([config_map("settings")]));
    simulated.namespace();
    simulated.merge(CLASS, &json!({ "spec": spec }));
    simulated.pass(WHILE);
    simulated
}

/// Returns the namespace shop with this label, whose class reads it.
fn shop_of_a_team(name: Option<&str>) -> Simulated {
    let mut simulated = shop(&json!({}));
    simulated.merge(SHOP, &team(name));
    simulated.pass(WHILE);
    let expression = "namespaceObject.metadata.labels['example.com/team']";
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"team": "${team}"},
    });
    let variables = json!([{"name": "team", "expression": expression}]);
    simulated.merge(CLASS, &json!({"spec": {"variables": variables, "resources": [settings]}}));
    simulated.pass(WHILE);
    simulated
}

fn team(name: Option<&str>) -> Value {
    json!({"metadata": {"labels": {"example.com/team": name}}})
}

fn writes(action: &Action, kind: &str) -> bool {
    action.is_write() && action.target().is_some_and(|target| target.kind.kind == kind)
}

#[test]
fn each_situation_is_explained_by_its_cause() {
    for situation in SITUATIONS {
        let Situation { arrange, kind, object, condition, state, label, cause } = situation;
        let (found, _) = explain(&arrange(), kind, object, condition);
        assert!(found.starts_with(&format!("{condition}={state}: ")), "{found}");
        has(&found, label, cause);
    }
}

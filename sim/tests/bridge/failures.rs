//! Each request of each flow fails in every possible way, one at a time, or the process crashes. The final state must be the same.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind};
use lockstep_engine::machine::Note;
use lockstep_external::hypershift;
use lockstep_sim::cluster::{Cluster, FaultModel, FaultVerdict, SlowPatches, Transit};
use serde_json::{Value, json};

use super::bench::Bench;
use super::every_failure::{
    Flow, LATER, Stage, assert_same, leads_to_the_same_world, run, watches_lead_to_the_same_world,
};
use super::objects::{DPF, NAMESPACE, RELEASE, UPGRADE, bridge, docker_config, dpu_cluster, secret};
use super::prerequisites;

const FLOWS: &[Flow<Bench>] = &[
    ("create", Bench::new, |bench| bench.create(&bridge("prod"))),
    ("upgrade", Bench::ready, |bench| bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }))),
    ("rotate", Bench::ready, |bench| {
        let pull = secret("pull", ".dockerconfigjson", &docker_config("another"));
        bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": pull["data"] }));
    }),
    ("move", Bench::ready, |bench| bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }))),
    ("lose the DPUCluster", Bench::ready, |bench| {
        bench.delete("DPUCluster", DPF, "dpus");
        bench.cluster.advance(Duration::from_mins(1));
        bench.create(&dpu_cluster("dpus"));
    }),
    ("lose the HostedCluster", Bench::ready, |bench| bench.delete("HostedCluster", NAMESPACE, "prod")),
    ("delete", Bench::ready, |bench| bench.delete("DPFHCPBridge", NAMESPACE, "prod")),
];

impl Stage for Bench {
    const BYSTANDERS: &'static [&'static str] = &["pull", "ssh"];

    fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    fn world(&mut self) -> Value {
        let bridge = self.bridge("prod");
        let conditions = bridge["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions: Vec<Value> =
            conditions.map(|it| json!([it["type"], it["status"], it["reason"], it["message"]])).collect();
        conditions.sort_by_key(Value::to_string);
        let mut status = bridge["status"].clone();
        status["conditions"] = conditions.into();
        let mut cluster = self.get("HostedCluster", NAMESPACE, "prod")["spec"].clone();
        if let Some(spec) = cluster.as_object_mut() {
            spec.retain(|field, _| !matches!(field.as_str(), "infraID" | "clusterID"));
        }
        let pool = self.get("NodePool", NAMESPACE, "prod")["spec"].clone();
        let mut data = |namespace: &str, name: &str| self.get("Secret", namespace, name)["data"].clone();
        let copies = [data(NAMESPACE, "prod-pull-secret"), data(NAMESPACE, "prod-ssh-key")];
        let kubeconfig = data(DPF, "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig").is_null();
        let used = self.get("DPUCluster", DPF, "dpus")["spec"]["kubeconfig"].clone();
        json!({ "status": status, "cluster": cluster, "pool": pool, "copies": copies, "no kubeconfig": kubeconfig, "used": used, "own pool": super::own_pool::specs(self) })
    }

    fn is_sure(action: &Action) -> bool {
        action.name() == "get"
    }
}

#[test]
fn any_single_failure_of_a_creation_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "create");
}

#[test]
fn any_single_failure_of_an_upgrade_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "upgrade");
}

#[test]
fn any_single_failure_of_a_rotation_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "rotate");
}

#[test]
fn any_single_failure_of_a_move_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "move");
}

#[test]
fn any_single_failure_while_the_dpucluster_is_lost_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "lose the DPUCluster");
}

#[test]
fn any_single_failure_while_the_hosted_cluster_is_lost_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "lose the HostedCluster");
}

#[test]
fn any_single_failure_of_a_deletion_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "delete");
}

#[test]
fn any_single_failure_of_a_watch_leads_to_the_same_world() {
    watches_lead_to_the_same_world(FLOWS);
}

/// Delays the watch events about bridges.
struct LateBridges;

impl FaultModel for LateBridges {
    fn delay(&mut self, _: Duration, _: usize, hop: Transit<'_>) -> Duration {
        match hop {
            Transit::Watch(kind) if kind.kind == "DPFHCPBridge" => Duration::from_mins(1),
            _ => Duration::ZERO,
        }
    }
}

/// "Optimistic concurrency control".
#[test]
fn the_status_of_a_bridge_that_has_changed_since_is_not_overwritten() {
    let mut bench = Bench::ready();
    bench.cluster.weather = Box::new(LateBridges);
    let touched = json!({ "metadata": { "labels": { "touched": "yes" } } });
    bench.merge("DPFHCPBridge", NAMESPACE, "prod", &touched);
    bench.cluster.journal.clear();
    bench.delete("DPUCluster", DPF, "dpus");
    bench.cluster.advance(Duration::from_secs(30));
    let writes = bench.cluster.carried().filter(|(_, carried)| carried.action.name() == "patch_status");
    let failed: Vec<Option<ErrorKind>> = writes.map(|(_, carried)| carried.failed).collect();
    let is_refused = |failed: &Option<ErrorKind>| *failed == Some(ErrorKind::Conflict);
    assert!(!failed.is_empty() && failed.iter().all(is_refused), "{failed:?}");
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.phase("prod"), "Failed");
}

/// DPF's CRD does not allow one kubeconfig to be replaced by another, so the patch needs no precondition.
#[test]
fn a_kubeconfig_set_by_another_client_at_the_last_moment_is_kept() {
    for is_watched in [true, false] {
        let mut bench = Bench::new();
        if !is_watched {
            bench.forbid_watch("DPUCluster");
        }
        bench.cluster.weather = Box::new(SlowPatches("DPUCluster"));
        bench.create(&bridge("prod"));
        // HyperShift has created the kubeconfig, and the patch of the DPUCluster is in transit.
        bench.cluster.advance(Duration::from_secs(8));
        let copy = bench.get("Secret", DPF, "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig");
        let injected = bench.get("DPUCluster", DPF, "dpus")["spec"]["kubeconfig"].clone();
        assert_eq!((copy.is_null(), injected), (false, Value::Null));
        bench.merge("DPUCluster", DPF, "dpus", &json!({ "spec": { "kubeconfig": "theirs" } }));
        bench.cluster.advance(Duration::from_mins(3));
        assert_eq!(bench.get("DPUCluster", DPF, "dpus")["spec"]["kubeconfig"], "theirs");
        assert_eq!(bench.condition("prod", "KubeconfigInjected").0, "False/DPUClusterHasItsOwn");
    }
}

#[test]
fn two_leaders_at_once_make_one_world() {
    for flow in FLOWS {
        let (mut calm, _) = run(flow, None);
        let expected = calm.world();
        let (_, begin, act) = flow;
        let mut bench = begin();
        bench.second();
        act(&mut bench);
        bench.cluster.advance(LATER);
        assert_same(&bench.world(), &expected, flow.0);
        bench.transitions();
        bench.cluster.advance(Duration::from_mins(21));
        assert_eq!(bench.transitions(), "", "{}: both are at rest", flow.0);
    }
}

#[test]
fn what_was_missing_wakes_the_bridge_when_it_comes() {
    use super::objects::{pool, pull_secret, ssh_secret, storage_class};
    let missing = [
        ("DPUCluster", DPF, dpu_cluster("dpus")),
        ("StorageClass", "", storage_class("ceph-rbd", "rbd.csi.ceph.com")),
        ("IPAddressPool", "metallb-system", pool("vips", "192.0.2.0/24")),
        ("Secret", NAMESPACE, pull_secret()),
        ("Secret", NAMESPACE, ssh_secret()),
        ("Deployment", "hypershift", operator()),
    ];
    for (kind, namespace, object) in missing {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let mut bench = Bench::new();
        bench.delete(kind, namespace, &name);
        bench.create(&bridge("prod"));
        bench.settle();
        assert_eq!(bench.phase("prod"), "Pending", "{kind} {name}");
        bench.create(&object);
        // Long before the next resync.
        bench.cluster.advance(Duration::from_mins(1));
        assert_eq!(bench.phase("prod"), "Ready", "{kind} {name}: {:#}", bench.bridge("prod")["status"]);
    }
}

/// Returns HyperShift's Deployment, as it is installed.
fn operator() -> Value {
    let mut installation = hypershift::installation().into_iter();
    installation.find(|object| object["kind"] == "Deployment").expect("a Deployment")
}

/// A cluster with a problem, and the change that fixes it.
type Fixed = (fn() -> Bench, fn(&mut Bench));

#[test]
fn what_did_not_work_wakes_the_bridge_when_it_does() {
    let starts = |bench: &mut Bench| {
        bench.merge("Deployment", "hypershift", "operator", &json!({ "spec": { "replicas": 1 } }));
    };
    let serves = |bench: &mut Bench| {
        let everybody = json!({ "spec": { "serviceAllocation": null } });
        bench.merge("IPAddressPool", "metallb-system", "vips", &everybody);
    };
    let reports_address = |bench: &mut Bench| {
        let addresses = json!([{ "type": "ExternalIP", "address": "198.51.100.7" }]);
        bench.merge("Node", "", "worker-1/status", &json!({ "status": { "addresses": addresses } }));
    };
    let goes = |bench: &mut Bench| bench.delete("DPFHCPBridge", prerequisites::OTHER, "system-prod");
    let table: [Fixed; 4] = [
        (prerequisites::hypershift_down, starts),
        (prerequisites::pool_of_others, serves),
        (prerequisites::node_missing, reports_address),
        (prerequisites::shared_namespace, goes),
    ];
    for (index, (begin, fix)) in table.into_iter().enumerate() {
        let mut bench = begin();
        assert_ne!(bench.phase("prod"), "Ready", "{index}");
        fix(&mut bench);
        bench.cluster.advance(Duration::from_mins(1));
        assert_eq!(bench.phase("prod"), "Ready", "{index}: {:#}", bench.bridge("prod")["status"]);
    }
}

#[test]
fn fixing_an_invalid_input_triggers_a_reconcile() {
    let broken = |bench: &mut Bench, name: &str, key: &str, content: &str| {
        let wrong = secret(name, key, content);
        bench.merge("Secret", NAMESPACE, name, &json!({ "data": wrong["data"] }));
    };
    let mut bench = Bench::new();
    broken(&mut bench, "ssh", "ssh-publickey", "none");
    broken(&mut bench, "pull", ".dockerconfigjson", "none");
    let mut wanted = bridge("prod");
    wanted["spec"]["metalLBVirtualIP"] = json!("198.51.100.1");
    bench.create(&wanted);
    bench.settle();
    assert_eq!(bench.phase("prod"), "Failed");
    broken(&mut bench, "ssh", "ssh-publickey", super::objects::SSH_KEY);
    broken(&mut bench, "pull", ".dockerconfigjson", &docker_config(super::objects::PASSWORD));
    bench.settle();
    assert_eq!(bench.phase("prod"), "Failed");
    bench.change("prod", &json!({ "metalLBVirtualIP": super::objects::VIP }));
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
}

#[test]
fn policies_that_differ_are_warned_of_once() {
    let mut bench = Bench::new();
    let mut wanted = bridge("prod");
    wanted["spec"]["infrastructureAvailabilityPolicy"] = json!("SingleReplica");
    bench.create(&wanted);
    bench.settle();
    bench.cluster.advance(Duration::from_mins(21));
    let warning =
        "Warning MismatchedAvailability: ControlPlane and Infrastructure availability policies differ";
    assert_eq!(bench.events().matches(warning).count(), 1, "{}", bench.events());
    assert_eq!(bench.phase("prod"), "Ready");
    bench.transitions();
    let announced = bench.notes.iter().filter(
        |note| matches!(note, Note::EventAnnounced { reason, .. } if reason == "MismatchedAvailability"),
    );
    assert_eq!(announced.count(), 1);
}

#[test]
fn every_phase_and_condition_change_is_logged() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.settle();
    bench.transitions();
    let logged: Vec<String> = bench
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Log { message, .. } => Some(message.clone()),
            _ => None,
        })
        .collect();
    for phase in ["Pending", "Provisioning", "Ready"] {
        let line = format!("DPFHCPBridge dpf-hcp-bridge-system/prod is {phase}: ");
        assert!(logged.iter().any(|logged| logged.starts_with(&line)), "{logged:#?}");
    }
    let bridge = bench.bridge("prod");
    for condition in bridge["status"]["conditions"].as_array().expect("conditions") {
        let is_it = |note: &Note| match note {
            Note::ConditionChanged { condition: name, status, reason, .. } => {
                [("type", name), ("status", status), ("reason", reason)]
                    .iter()
                    .all(|(field, text)| condition[*field] == **text)
            }
            _ => false,
        };
        assert!(bench.notes.iter().any(is_it), "{condition:#}");
    }
}

#[test]
fn a_phase_is_logged_once_although_the_answer_to_its_write_was_lost() {
    let mut bench = Bench::new();
    let mut writes = 0;
    bench.cluster.interfere(move |_, action| {
        let is_status = action.name() == "patch_status";
        writes += u64::from(is_status);
        if is_status && writes % 2 == 1 { FaultVerdict::AnswerLost } else { FaultVerdict::Served }
    });
    let mut mismatched = bridge("prod");
    mismatched["spec"]["infrastructureAvailabilityPolicy"] = json!("SingleReplica");
    bench.create(&mismatched);
    bench.settle();
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    bench.transitions();
    let phases = bench.notes.iter().filter_map(|note| match note {
        Note::Log { message, .. } => message.strip_prefix("DPFHCPBridge dpf-hcp-bridge-system/prod is "),
        _ => None,
    });
    let phases: Vec<&str> = phases.filter_map(|phase| phase.split(':').next()).collect();
    assert_eq!(phases[..4], ["Pending", "Provisioning", "Ready", "Deleting"]);
    let is_mismatch = |note: &&Note| matches!(note, Note::EventAnnounced { reason, .. } if reason == "MismatchedAvailability");
    assert_eq!(bench.notes.iter().filter(is_mismatch).count(), 1);
}

#[test]
fn what_the_registry_said_of_one_image_says_nothing_of_another() {
    let by_digest = |digit: &str| format!("registry.example.com/ocp-release@sha256:{}", digit.repeat(64));
    let mut bench = Bench::new();
    let mut image = bench.registry().images[RELEASE].clone();
    image.release = Some("4.3.0".to_owned());
    bench.registry().images.insert(by_digest("0"), image);
    let mut wanted = bridge("prod");
    wanted["spec"]["ocpReleaseImage"] = json!(by_digest("0"));
    bench.create(&wanted);
    bench.settle();
    let (reason, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(reason, "False/InvalidInput", "{message}");
    assert!(message.contains("OpenShift 4.3 is not supported"), "{message}");

    // Without its pull secret, the registry is not queried about the new image.
    bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": { ".dockerconfigjson": "e30=" } }));
    bench.change("prod", &json!({ "ocpReleaseImage": by_digest("1") }));
    bench.settle();
    let (_, message) = bench.condition("prod", "PrerequisitesMet");
    assert!(message.contains(".dockerconfigjson") && !message.contains("4.3"), "{message}");
}

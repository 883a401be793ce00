//! Each request of each flow fails in every possible way, one at a time, or the process crashes. The final state must be the same.

use std::time::Duration;

use lockstep_dpuservice::names::{ARGO_NAMESPACE, PROJECT};
use lockstep_engine::action::{Action, ErrorKind, KubeRequest};
use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use lockstep_sim::cluster::{Change, Cluster, FaultVerdict, SlowAnswers};
use serde_json::{Value, json};

use super::bench::{Bench, DPF, operator, server, service};
use super::every_failure::{
    Flow, LATER, Stage, assert_same, leads_to_the_same_world, run, watches_lead_to_the_same_world,
};
use super::user::User as _;

fn two() -> Bench {
    Bench::serving(&["dpu-01", "dpu-02"])
}

fn nothing() -> Bench {
    let mut bench = Bench::new();
    bench.join("dpu-01");
    bench.join("dpu-02");
    bench.settle();
    bench
}

const FLOWS: &[Flow<Bench>] = &[
    ("create", nothing, |bench| bench.cluster.create(&service("hbn"))),
    ("change", two, |bench| {
        let change =
            json!({ "spec": { "source": { "version": "v2.0.0" }, "values": { "a": null, "b": 1 } } });
        bench.cluster.merge("DPUService", "default", "hbn", &change);
    }),
    ("rotate", two, |bench| bench.rotate("dpu-01", &Access::by_token(&server("dpu-01"), "another"))),
    ("move", two, |bench| {
        bench.rotate("dpu-01", &Access::by_token("https://elsewhere.example.com", "another"));
    }),
    ("join", two, |bench| bench.join("dpu-03")),
    ("leave", two, |bench| bench.cluster.delete("DPUCluster", DPF, "dpu-01")),
    ("delete", two, |bench| bench.cluster.delete("DPUService", "default", "hbn")),
];

impl Stage for Bench {
    const BYSTANDERS: &'static [&'static str] = &["dpu-01-admin-kubeconfig", "dpu-02-admin-kubeconfig"];

    fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    fn world(&mut self) -> Value {
        let service = self.service("hbn");
        let conditions = service["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions: Vec<Value> =
            conditions.map(|it| json!([it["type"], it["status"], it["reason"], it["message"]])).collect();
        conditions.sort_by_key(Value::to_string);
        let mut specs = |kind: &str, part: &str| -> Value {
            let objects = self.cluster.list(kind, ARGO_NAMESPACE);
            let specs = objects.iter().map(|it| (it["metadata"]["name"].to_string(), it[part].clone()));
            specs.collect::<serde_json::Map<String, Value>>().into()
        };
        json!({
            "conditions": conditions,
            "rollout": service["status"]["rollout"],
            "sync": service["status"]["sync"],
            "applications": specs("Application", "spec"),
            "secrets": specs("Secret", "data"),
            "projects": specs("AppProject", "spec"),
            "runs": [self.runs_on("dpu-01"), self.runs_on("dpu-02"), self.runs_on("dpu-03")],
        })
    }

    fn is_sure(action: &Action) -> bool {
        !action.is_write()
    }
}

#[test]
fn any_single_failure_of_a_creation_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "create");
}

#[test]
fn any_single_failure_of_a_change_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "change");
}

#[test]
fn any_single_failure_of_a_rotation_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "rotate");
    leads_to_the_same_world(FLOWS, "move");
}

#[test]
fn any_single_failure_while_clusters_join_and_leave_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "join");
    leads_to_the_same_world(FLOWS, "leave");
}

#[test]
fn any_single_failure_of_a_deletion_leads_to_the_same_world() {
    leads_to_the_same_world(FLOWS, "delete");
}

#[test]
fn any_single_failure_of_a_watch_leads_to_the_same_world() {
    watches_lead_to_the_same_world(FLOWS);
}

#[test]
fn two_leaders_at_once_make_one_world() {
    for flow in FLOWS {
        let (mut calm, _) = run(flow, None);
        let expected = calm.world();
        let (_, begin, act) = flow;
        let mut bench = begin();
        bench.cluster.start(operator, true);
        bench.settle();
        act(&mut bench);
        bench.cluster.advance(LATER);
        assert_same(&bench.world(), &expected, flow.0);
        bench.story();
        bench.cluster.advance(Duration::from_mins(21));
        assert_eq!(bench.writes(), Vec::<String>::new(), "{}: both are at rest", flow.0);
    }
}

#[test]
fn a_restart_reads_kubeconfigs_and_writes_nothing() {
    let mut bench = two();
    bench.cluster.crash(bench.cluster.processes() - 1, None);
    bench.cluster.start(operator, true);
    bench.settle();
    assert_eq!(bench.writes(), Vec::<String>::new());
    let story = bench.story();
    assert_eq!(story.matches("asks for get Secret").count(), 4, "{story}");
    assert_eq!(bench.cluster.get("AppProject", ARGO_NAMESPACE, PROJECT)["metadata"]["generation"], 1);
}

/// Another client removes the finalizer and creates the service again, while its deletion is in progress.
#[test]
fn a_service_that_is_replaced_during_its_deletion_is_not_reported_as_deleted() {
    for wait in (0..8000).step_by(500) {
        let mut bench = two();
        bench.cluster.weather = Box::new(SlowAnswers(Duration::from_secs(1)));
        bench.cluster.delete("DPUService", "default", "hbn");
        bench.cluster.advance(Duration::from_millis(wait));
        let patch = json!({ "metadata": { "finalizers": null } });
        bench.cluster.merge("DPUService", "default", "hbn", &patch);
        bench.cluster.create(&service("hbn"));
        let uid = bench.service("hbn")["metadata"]["uid"].clone();
        bench.cluster.advance(Duration::from_mins(30));
        let is_wrong = |change: &Change| {
            let service = change.new.as_deref().filter(|it| it["metadata"]["uid"] == uid);
            service.is_some_and(|it| it["status"].to_string().contains("waiting for Argo CD to remove"))
        };
        let changes = bench.cluster.journal.iter().filter_map(|entry| entry.by_process());
        let wrong: Vec<_> = changes.map(|(_, change)| change).filter(|change| is_wrong(change)).collect();
        assert!(wrong.is_empty(), "after {wait} ms: {wrong:?}");
        assert_eq!(bench.ready("hbn"), "True/Success", "after {wait} ms: {}", bench.conditions("hbn"));
    }
}

/// One removal is refused again and again, and another waits for a cluster that does not answer.
#[test]
fn a_removal_that_fails_names_all_applications_that_are_left() {
    let mut bench = two();
    let cut_off = json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-02", &cut_off);
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Delete { target, .. }) if target.name == "hbn-01" => {
            FaultVerdict::failed(ErrorKind::Forbidden)
        }
        _ => FaultVerdict::Served,
    });
    bench.cluster.delete("DPUService", "default", "hbn");
    for minutes in [1, 30] {
        bench.cluster.advance(Duration::from_mins(minutes));
        let (reconciled, message) = bench.condition("hbn", "ApplicationsReconciled");
        assert_eq!(reconciled, "False/Error", "{message}");
        assert!(message.starts_with("Applications can't be removed (hbn-01: "), "{message}");
        assert!(
            message.contains("waiting for Argo CD to remove 2 Applications: hbn-01; hbn-02"),
            "{message}"
        );
    }
}

/// Here each object waits for the other: neither may shorten the backoff of a refused request.
#[test]
fn a_failing_removal_is_reported_and_retried_with_backoff() {
    let mut bench = two();
    bench.cluster.interfere(|_, action| match action {
        Action::Kube(KubeRequest::Delete { target, .. }) if target.kind.kind == "Secret" => {
            FaultVerdict::failed(ErrorKind::Forbidden)
        }
        _ => FaultVerdict::Served,
    });
    bench.story();
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_hours(2));
    let requests = bench.cluster.carried().count();
    assert!(requests < 600, "{requests} requests in two hours");
    let (ready, message) = bench.condition("hbn", "Ready");
    assert_eq!(ready, "False/Error", "{message}");
    assert!(message.contains("dpu-01-argocd") || message.contains("dpu-02-argocd"), "{message}");
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.service("hbn"), Value::Null, "{}", bench.conditions("hbn"));
}

//! Kinds that can't be watched: conditions that can still be evaluated are evaluated, known states are kept, and the rest is
//! Unknown.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lockstep_dpuservice::names::FINALIZER;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::object::Kind;
use lockstep_external::dpu_clusters::UNREACHABLE;
use lockstep_sim::cluster::FaultModel;
use serde_json::{Value, json};

use super::bench::{Bench, DPF, operator};
use super::user::User as _;
use crate::unserved::Unserved;

/// Refuses to list the objects of one kind.
struct Refused {
    kind: &'static str,
    class: ErrorKind,
    is_over: Rc<Cell<bool>>,
}

impl FaultModel for Refused {
    fn refuses_list(&mut self, _: Duration, _: usize, kind: &Kind) -> Option<Failure> {
        (kind.kind == self.kind && !self.is_over.get()).then(|| Failure::new(self.class, "injected"))
    }
}

/// A starting API server or a proxy answers like this, also if there are objects of the kind.
#[test]
fn applications_that_are_not_served_for_a_moment_are_removed() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    let (unserved, is_over) = Unserved::new("Application", "list");
    bench.cluster.weather = Box::new(unserved);
    bench.cluster.crash(bench.cluster.processes() - 1, Some(Duration::ZERO));
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_secs(30));
    let service = bench.service("hbn");
    assert!(lockstep_engine::finalizer::is_held(&service, FINALIZER), "{service}");
    is_over.set(true);
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.service("hbn"), Value::Null);
    assert_eq!(bench.in_argo("Application"), Vec::<String>::new());
}

/// Without their CRD there are no Applications to remove.
#[test]
fn a_service_without_served_applications_is_gone_after_a_minute() {
    let mut bench = Bench::serving(&["dpu-cluster-01"]);
    bench.cluster.weather = Box::new(Unserved::new("Application", "list").0);
    bench.cluster.crash(bench.cluster.processes() - 1, Some(Duration::ZERO));
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.service("hbn"), Value::Null);
}

/// After a restart, so that only the status is known.
#[test]
fn while_a_kind_can_not_be_watched_what_is_known_stays() {
    for (kind, judged) in [
        ("DPUCluster", &[][..]),
        ("Secret", &["DPUClustersReady", "ApplicationsReady"]),
        ("AppProject", &["DPUClustersReady", "ApplicationsReady"]),
        ("Application", &["DPUClustersReady"]),
    ] {
        for class in [ErrorKind::Forbidden, ErrorKind::KindNotServed, ErrorKind::Unavailable] {
            let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
            let before = bench.service("hbn")["status"].clone();
            let is_over = Rc::<Cell<bool>>::default();
            bench.cluster.weather = Box::new(Refused { kind, class, is_over: Rc::clone(&is_over) });
            bench.cluster.crash(bench.cluster.processes() - 1, Some(Duration::ZERO));
            bench.cluster.advance(Duration::from_secs(10));
            let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
            bench.cluster.merge("DPUService", "default", "hbn", &change);
            bench.cluster.advance(Duration::from_mins(2));

            let status = bench.service("hbn")["status"].clone();
            assert_eq!(status["observedGeneration"], 2, "{kind} {class}");
            for part in ["rollout", "sync", "health", "resources"] {
                assert_eq!(status[part], before[part], "{kind} {class}: {part}");
            }
            for condition in [
                "DPUClustersReady",
                "ClusterSecretsReconciled",
                "AppProjectReconciled",
                "ApplicationsReconciled",
                "ApplicationsReady",
                "Ready",
            ] {
                let (state, message) = bench.condition("hbn", condition);
                if judged.contains(&condition) {
                    assert_eq!(state, "True/Success", "{kind} {class}: {condition}: {message}");
                } else {
                    assert_eq!(state, "Unknown/Error", "{kind} {class}: {condition}: {message}");
                    assert!(message.contains(&format!("{kind}s can't be watched (injected)")), "{message}");
                }
            }
            is_over.set(true);
            bench.cluster.advance(Duration::from_mins(5));
            assert_eq!(bench.ready("hbn"), "True/Success", "{kind} {class}: {}", bench.conditions("hbn"));
            assert_eq!(bench.service("hbn")["status"]["rollout"]["clusters"], "2/2");
        }
    }
}

#[test]
fn while_a_kind_can_not_be_watched_the_end_of_a_rollout_is_unknown() {
    let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
    let limit = json!({ "spec": { "rollout": { "maxUnavailable": 1 } } });
    bench.cluster.merge("DPUService", "default", "hbn", &limit);
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(bench.condition("hbn", "RolledOut").0, "True/AllClustersChanged");

    let is_over = Rc::<Cell<bool>>::default();
    let refused = Refused { kind: "Secret", class: ErrorKind::Forbidden, is_over: Rc::clone(&is_over) };
    bench.cluster.weather = Box::new(refused);
    bench.cluster.crash(bench.cluster.processes() - 1, Some(Duration::ZERO));
    bench.cluster.advance(Duration::from_mins(2));
    let (state, message) = bench.condition("hbn", "RolledOut");
    assert_eq!(state, "Unknown/Error", "{message}");
    assert!(message.contains("Secrets can't be watched (injected)"), "{message}");

    is_over.set(true);
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(bench.condition("hbn", "RolledOut").0, "True/AllClustersChanged");
}

/// DPF was uninstalled: none of its clusters is reachable, and the API server no longer serves DPUClusters.
#[test]
fn without_dpf_a_service_can_go() {
    for was_down in [false, true] {
        let mut bench = Bench::serving(&["dpu-cluster-01", "dpu-cluster-02"]);
        for cluster in ["dpu-cluster-01", "dpu-cluster-02"] {
            let lost = json!({ "metadata": { "annotations": { UNREACHABLE: "true" }, "finalizers": null } });
            bench.cluster.merge("DPUCluster", DPF, cluster, &lost);
        }
        if was_down {
            bench.cluster.crash(bench.cluster.processes() - 1, None);
        }
        bench.cluster.delete("CustomResourceDefinition", "", "dpuclusters.provisioning.dpu.nvidia.com");
        if was_down {
            bench.cluster.start(operator, true);
        }
        bench.cluster.advance(Duration::from_mins(2));
        assert_eq!(bench.ready("hbn"), "Unknown/Error", "{}", bench.conditions("hbn"));
        if !was_down {
            let events = bench.events();
            assert!(events.contains("Warning ReadyError: DPUClusters can't be watched"), "{events}");
            assert!(!events.contains("ReconciledError"), "one cause is one event: {events}");
        }
        bench.cluster.delete("DPUService", "default", "hbn");
        bench.cluster.advance(Duration::from_mins(2));
        let (_, message) = bench.condition("hbn", "ApplicationsReconciled");
        assert!(message.contains("DPUClusters are not served here"), "{message}");
        assert_eq!(bench.in_argo("Secret").len(), 2, "Argo CD may still do it");
        bench.cluster.advance(Duration::from_mins(8));
        assert_eq!(bench.service("hbn"), Value::Null, "{}", bench.conditions("hbn"));
        for kind in ["Application", "AppProject", "Secret"] {
            assert_eq!(bench.in_argo(kind), Vec::<String>::new(), "{kind}");
        }
    }
}

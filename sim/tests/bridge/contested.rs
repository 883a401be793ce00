//! Another client that keeps changing what the Bridge writes (decision 12).

use std::time::Duration;

use lockstep_engine::object::ObjectRef;
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{DPF, NAMESPACE, UPGRADE};
use super::scenarios;

/// An object of a ready bridge, and a change of it by another client.
struct Contest {
    object: (&'static str, &'static str, &'static str),
    change: Value,
    field: &'static str,
}

impl Contest {
    /// Returns the value of the field that the other client changes.
    fn value(&self, bench: &mut Bench) -> Value {
        let (kind, namespace, name) = self.object;
        bench.get(kind, namespace, name).pointer(self.field).cloned().unwrap_or_default()
    }

    /// The other client restores its value whenever the Bridge has written its own. Returns the number of writes by the Bridge.
    fn go_on_for(&self, bench: &mut Bench, time: Duration) -> usize {
        let (kind, namespace, name) = self.object;
        let wanted = self.value(bench);
        bench.cluster.journal.clear();
        let end = bench.cluster.elapsed() + time;
        while bench.cluster.elapsed() < end {
            if self.value(bench) == wanted {
                bench.merge(kind, namespace, name, &self.change);
            }
            bench.cluster.advance(Duration::from_millis(100));
        }
        let is_it = |target: &ObjectRef| target.kind.kind == kind && target.name == name;
        let actions = bench.cluster.carried().map(|(_, carried)| &carried.action);
        let writes = actions.filter(|action| action.is_write() && action.target().is_some_and(is_it)).count();
        bench.cluster.advance(Duration::from_mins(30));
        assert_eq!(self.value(bench), wanted, "{kind} {name}");
        writes
    }
}

fn label_of(kind: &'static str) -> Contest {
    let label = "dpf.hcp.bridge.com/cluster-type";
    Contest {
        object: (kind, NAMESPACE, "prod"),
        change: json!({ "metadata": { "labels": { label: "theirs" } } }),
        field: "/metadata/labels/dpf.hcp.bridge.com~1cluster-type",
    }
}

fn copy(namespace: &'static str, name: &'static str, key: &'static str, field: &'static str) -> Contest {
    Contest { object: ("Secret", namespace, name), change: json!({ "data": { key: "e30=" } }), field }
}

#[test]
fn repairs_slow_down() {
    for contest in [
        label_of("HostedCluster"),
        label_of("NodePool"),
        copy(NAMESPACE, "prod-pull-secret", ".dockerconfigjson", "/data/.dockerconfigjson"),
        copy(DPF, "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig", "admin.conf", "/data/admin.conf"),
        Contest {
            object: ("Service", "dpf-hcp-bridge-system-prod", "kube-apiserver"),
            change: json!({ "metadata": { "annotations": { "metallb.io/loadBalancerIPs": "192.0.2.99" } } }),
            field: "/metadata/annotations/metallb.io~1loadBalancerIPs",
        },
    ] {
        let mut bench = Bench::ready();
        let writes = contest.go_on_for(&mut bench, Duration::from_mins(10));
        // At once, and after 0.5 s, 1 s, 2 s and so on.
        assert!((10..=12).contains(&writes), "{:?}: {writes}", contest.object);
        assert_eq!(
            bench.phase("prod"),
            "Ready",
            "{:?}: {:#}",
            contest.object,
            bench.bridge("prod")["status"]
        );
        assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied", "{:?}", contest.object);
    }
}

#[test]
fn a_contested_cluster_is_reported_until_it_is_left_alone() {
    for kind in ["HostedCluster", "NodePool"] {
        let mut bench = scenarios::contested_object(kind);
        let (applied, message) = bench.condition("prod", "SpecApplied");
        assert_eq!(applied, "False/Contested");
        let expected = format!(
            "another client or an admission webhook keeps changing or removing the {kind}, so it is repaired every five minutes at \
             worst; stop that client (metadata.managedFields names the writers)"
        );
        assert_eq!(message, expected);
        assert_eq!(bench.phase("prod"), "Ready", "the cluster works");
        bench.cluster.advance(Duration::from_mins(10));
        assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied");
        let reported = bench.transitions();
        assert_eq!(reported.matches("SpecApplied=False/Contested").count(), 1, "{reported}");
    }
}

/// A change of the spec is no repair.
#[test]
fn a_change_of_a_contested_cluster_is_applied_at_once() {
    let mut bench = scenarios::contested();
    assert_eq!(bench.condition("prod", "SpecApplied").0, "False/Contested");
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.cluster.advance(Duration::from_secs(1));
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod")["spec"]["release"]["image"], UPGRADE);
}

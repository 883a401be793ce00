//! The validation by the external systems' CRDs, as a table. The same table holds for upstream's CRDs: the variable names a
//! folder with them.

use std::io::Write as _;
use std::path::Path;

use lockstep_engine::yaml;
use lockstep_external as external;
use lockstep_external::{System, argocd};
use serde_json::{Value, json};

use super::bench::Bench;
use super::manifests::{dpu_cluster, of_kind};
use super::table::{changes, creations};

const VARIABLE: &str = "LOCKSTEP_UPSTREAM_CRDS";
const FILES: [&str; 7] = [
    "hypershift.openshift.io_hostedclusters.yaml",
    "hypershift.openshift.io_nodepools.yaml",
    "provisioning.dpu.nvidia.com_dpuclusters.yaml",
    "metallb.io_ipaddresspools.yaml",
    "metallb.io_l2advertisements.yaml",
    "argoproj.io_applications.yaml",
    "argoproj.io_appprojects.yaml",
];
/// The systems that serve these CRDs, in order.
const SYSTEMS: [System; 4] = [System::HyperShift, System::Dpf, System::MetalLb, System::ArgoCd];

/// Returns upstream's CRDs, if the folder is set.
fn upstream() -> Option<Vec<Value>> {
    let Some(folder) = std::env::var_os(VARIABLE) else {
        // Not the macro: the test harness captures its output if a test passes.
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: {VARIABLE} names no folder with upstream's definitions");
        return None;
    };
    let read = |file: &&str| {
        let path = Path::new(&folder).join(file);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        yaml::read(&text).expect("YAML")
    };
    Some(FILES.iter().map(read).collect())
}

/// Applies the whole table to a server with these CRDs; returns the mismatches and the stored objects.
fn judge(definitions: &[Value]) -> (Vec<String>, Vec<Value>) {
    let mut bench = Bench::with_definitions(definitions);
    bench.create(&of_kind("v1", "Namespace", json!({ "metadata": { "name": argocd::NAMESPACE } })));
    let (mut wrong, mut stored) = (Vec::new(), Vec::new());
    let mut hold = |name: &str, admitted: bool, (code, answer): (u16, Value)| {
        if (code < 300) != admitted {
            wrong.push(format!("{name}: {code} {}", answer["message"]));
        } else if admitted {
            stored.push(answer["spec"].clone());
        }
    };
    for (name, object, admitted) in creations() {
        let answer = bench.try_create(&object);
        let created = answer.0 < 300;
        hold(name, admitted, answer);
        if created {
            bench.delete(kind(&object), object["metadata"]["name"].as_str().expect("a name"));
        }
    }
    for (kind, object, (name, patch, admitted)) in changes() {
        bench.create(&object);
        let answer = bench.try_merge(kind, "x", &patch);
        hold(&format!("{kind}: {name}"), admitted, answer);
        bench.delete(kind, "x");
    }
    (wrong, stored)
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().expect("a kind")
}

#[test]
fn our_definitions_admit_what_they_should() {
    let (wrong, _) = judge(&external::definitions(&SYSTEMS));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn upstreams_definitions_admit_the_same_and_store_the_same() {
    let Some(upstream) = upstream() else { return };
    let (wrong, theirs) = judge(&upstream);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (_, ours) = judge(&external::definitions(&SYSTEMS));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn the_models_behave_the_same_with_upstream_crds() {
    let Some(upstream) = upstream() else { return };
    let [theirs, ours] = [upstream, external::definitions(&SYSTEMS)].map(|definitions| {
        let mut bench = Bench::hosting(&definitions);
        bench.create(&dpu_cluster("dpus", "static"));
        bench.settle();
        bench.delete("HostedCluster", "prod");
        bench.settle();
        bench.transitions()
    });
    assert_eq!(theirs, ours);
}

#[test]
fn argo_does_the_same_on_upstreams_definitions() {
    let Some(upstream) = upstream() else { return };
    let [theirs, ours] = [upstream, external::definitions(&SYSTEMS)].map(|definitions| {
        let mut bench = Bench::with_argo(&definitions);
        bench.deploy("dpus");
        bench.delete("Application", "agent-dpus");
        bench.settle();
        bench.transitions()
    });
    assert_eq!(theirs, ours);
}

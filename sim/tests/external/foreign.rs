//! Faults that a cluster does not inject into foreign controllers, and entries that the journal does not have for them.

use lockstep_engine::action::ErrorKind;
use lockstep_external as external;
use lockstep_external::{Pace, System, argocd};
use lockstep_sim::cluster::{Author, FaultVerdict, What};
use serde_json::json;

use super::bench::Bench;
use super::manifests::{dpu_cluster, of_kind};

#[test]
fn nothing_goes_wrong_for_a_foreign_controller() {
    let mut bench = Bench::with_definitions(&external::definitions(&external::BRIDGE));
    bench.cluster.interfere(|_, _| FaultVerdict::failed(ErrorKind::Unavailable));
    let started: Vec<usize> = external::controllers(&external::BRIDGE, Pace::BRISK, 1)
        .into_iter()
        .map(|world| bench.cluster.start_foreign(world))
        .collect();
    bench.create(&dpu_cluster("dpus", "static"));
    for process in started {
        bench.cluster.crash(process, None);
    }
    bench.settle();
    assert_eq!(bench.get("DPUCluster", "dpus")["status"]["phase"], "Creating");
    let authors: Vec<Author> = bench
        .cluster
        .journal
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Changed(change) if change.object.kind.kind == "DPUCluster" => Some(change.by),
            What::Changed(_) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(authors[0], Author::Client("user"));
    assert!(
        authors.len() > 2 && authors[1..].iter().all(|author| *author == Author::Client("dpf")),
        "{authors:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let systems = [System::HyperShift, System::Dpf, System::MetalLb, System::DpuClusters, System::ArgoCd];
    let run = |seed| {
        let mut bench = Bench::with_definitions(&external::definitions(&systems));
        bench.create(&of_kind("v1", "Namespace", json!({ "metadata": { "name": argocd::NAMESPACE } })));
        for world in external::controllers(&systems, Pace::SLOW, seed) {
            bench.cluster.start_foreign(world);
        }
        bench.deploy("dpus");
        let application = bench.get("Application", "agent-dpus");
        assert_eq!(application["status"]["health"]["status"], "Healthy");
        bench.cluster.journal
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}

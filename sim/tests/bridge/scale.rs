//! The cost of an event with many bridges: only the affected bridges are reconciled.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::machine::Note;
use serde_json::json;

use super::bench::Bench;
use super::objects::{DPF, bridge, dpu_cluster};

const BRIDGES: usize = 100;
const DPU_CLUSTERS: usize = 50;

/// Returns the bridges that were reconciled since the last call.
fn looked_at(bench: &mut Bench) -> BTreeSet<String> {
    bench.transitions();
    let notes = std::mem::take(&mut bench.notes).into_iter();
    let objects = notes.filter_map(|note| match note {
        Note::Reconciled { object, .. } => Some(object.name),
        _ => None,
    });
    objects.collect()
}

/// Two bridges refer to each DPUCluster.
#[test]
fn a_dpucluster_of_fifty_concerns_two_bridges_of_a_hundred() {
    let mut bench = Bench::new();
    for number in 0..DPU_CLUSTERS {
        bench.create(&dpu_cluster(&format!("dpus-{number:02}")));
    }
    for number in 0..BRIDGES {
        let mut bridge = bridge(&format!("b-{number:02}"));
        bridge["spec"]["dpuClusterRef"]["name"] = json!(format!("dpus-{:02}", number % DPU_CLUSTERS));
        bridge["spec"]["metalLBVirtualIP"] = json!(format!("192.0.2.{}", number + 1));
        bench.create(&bridge);
    }
    bench.cluster.advance(Duration::from_mins(20));
    assert_eq!(looked_at(&mut bench).len(), BRIDGES);
    let ready = (0..BRIDGES).filter(|number| bench.phase(&format!("b-{number:02}")) == "Ready").count();
    assert_eq!(ready, DPU_CLUSTERS, "the younger of two waits");

    let concerned: BTreeSet<String> = ["b-07", "b-57"].map(str::to_owned).into();
    bench.delete("DPUCluster", DPF, "dpus-07");
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(looked_at(&mut bench), concerned);
    bench.create(&dpu_cluster("dpus-07"));
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(looked_at(&mut bench), concerned);
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(looked_at(&mut bench), BTreeSet::new(), "at rest");
}

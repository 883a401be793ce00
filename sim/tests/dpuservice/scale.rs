//! The cost of operations with many objects depends on the size of the change, not on the number of objects.

use std::time::Duration;

use lockstep_external::dpu_clusters::Access;
use serde_json::json;

use super::bench::{Bench, DPF, operator, server, service};
use super::user::User as _;

/// Returns the number of services and of clusters: 2,500 Applications, and over 100,000 in the tier `nightly`.
fn size() -> usize {
    if std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly") { 320 } else { 50 }
}

/// Counts the writes since the last call by kind, without Events.
fn writes(bench: &mut Bench) -> [usize; 5] {
    let writes = bench.writes();
    bench.story();
    let count = |words: &str| writes.iter().filter(|write| write.starts_with(words)).count();
    let known = [
        count("create Application"),
        count("apply Application"),
        count("patch_status DPUService"),
        count("apply Secret") + count("create Secret"),
        count("apply AppProject") + count("create AppProject"),
    ];
    assert_eq!(known.iter().sum::<usize>() + count("patch DPUService"), writes.len(), "{writes:?}");
    known
}

/// Nothing is deployed in this test; the cost of Argo CD's status updates is tested elsewhere.
#[test]
fn many_services_on_many_clusters_cost_what_changes() {
    let (services, clusters) = (size(), size());
    let mut bench = Bench::bare();
    for number in 0..clusters {
        bench.join(&format!("dpu-{number:02}"));
    }
    for number in 0..services {
        bench.cluster.create(&service(&format!("service-{number:02}")));
    }
    bench.story();
    bench.cluster.start(operator, true);
    bench.settle();
    let [created, applied, statuses, secrets, projects] = writes(&mut bench);
    assert_eq!((created, applied, secrets), (services * clusters, services * clusters, clusters));
    // The first status reports the pending work.
    assert!(statuses <= 2 * services && projects <= 2, "{statuses} statuses, {projects} projects");

    let change = json!({ "spec": { "source": { "version": "v2.0.0" } } });
    bench.cluster.merge("DPUService", "default", "service-07", &change);
    bench.settle();
    assert_eq!(writes(&mut bench), [0, clusters, 1, 0, 0], "a service has changed");

    bench.rotate("dpu-07", &Access::by_token(&server("dpu-07"), "another"));
    bench.settle();
    assert_eq!(writes(&mut bench), [0, 0, 0, 1, 0], "a kubeconfig was rotated");

    bench.cluster.create(&super::bench::kubeconfig(
        DPF,
        "dpu-new",
        &Access::by_token(&server("dpu-new"), "t"),
    ));
    bench.cluster.create(&super::bench::dpu_cluster(DPF, "dpu-new"));
    bench.settle();
    let [created, applied, statuses, secrets, projects] = writes(&mut bench);
    assert_eq!((created, applied, secrets, projects), (services, services, 1, 1), "a cluster has joined");
    assert!(statuses <= 2 * services, "{statuses}");

    bench.cluster.advance(Duration::from_hours(25));
    assert_eq!(writes(&mut bench), [0; 5], "nothing happens, and everything is looked at again");
}

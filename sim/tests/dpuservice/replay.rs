//! The recorded input of the controller leads to the same decisions again, and contains no secret.

use lockstep_dpuservice::Controller;
use lockstep_external::dpu_clusters::Access;
use serde_json::json;

use super::bench::{Bench, DPF, TOKEN, config, server, service};
use super::recorded::replays;
use super::user::User as _;

/// Creates a service, changes the kubeconfigs of clusters and deletes everything; returns all input of the controller.
fn lived() -> Bench {
    let mut bench = Bench::without_controller();
    bench.cluster.start(super::bench::operator, true);
    bench.settle();
    bench.join("dpu-01");
    bench.join("dpu-02");
    bench.cluster.create(&service("hbn"));
    bench.settle();
    bench.rotate("dpu-01", &Access::by_certificate(&server("dpu-01"), "YW5vdGhlci1wYXNzd29yZA=="));
    bench.settle();
    let broken = json!({ "data": { "super-admin.conf": "YW5vdGhlci1wYXNzd29yZA==" } });
    bench.cluster.merge("Secret", DPF, "dpu-02-admin-kubeconfig", &broken);
    bench.settle();
    bench.rotate("dpu-02", &Access::by_token("https://elsewhere.example.com", TOKEN));
    bench.settle();
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    bench.story();
    bench
}

#[test]
fn a_run_without_its_secrets_is_replayed_to_the_same_steps() {
    let secrets = [TOKEN, "another-password", "YW5vdGhlci1wYXNzd29yZA"];
    let lines = replays::<Controller>(&config(), lived().taken, &secrets);
    assert!(lines > 150, "{lines} lines");
}

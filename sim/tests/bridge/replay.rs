//! The recorded input of the controller leads to the same decisions again, and contains no secret.

use lockstep_bridge::Controller;
use lockstep_sim::invariant::SECRET;
use serde_json::json;

use super::bench::{Bench, config};
use super::encryption::encrypted;
use super::objects::{NAMESPACE, PASSWORD, UPGRADE, docker_config, secret};
use super::recorded::replays;

/// Runs a bridge through creation, changes, broken Secrets and deletion, and returns all input of the Bridge.
fn lived() -> Bench {
    let mut bench = Bench::new();
    let mut bridge = encrypted();
    bridge["spec"]["metalLBPool"] = json!({ "namespace": "metallb-system" });
    bridge["spec"]["metalLBVirtualIP"] = json!("203.0.113.10");
    bench.create(&bridge);
    bench.settle();
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.settle();
    for content in [docker_config("another-password"), "{\"auths\": ".to_owned(), docker_config(PASSWORD)] {
        let changed = secret("pull", ".dockerconfigjson", &content);
        bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": changed["data"] }));
        bench.settle();
    }
    let broken = secret("ssh", "ssh-publickey", "ssh-rsa but-no-key");
    bench.merge("Secret", NAMESPACE, "ssh", &json!({ "data": broken["data"] }));
    bench.settle();
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    bench.transitions();
    bench
}

#[test]
fn a_run_without_its_secrets_is_replayed_to_the_same_steps() {
    let secrets = [SECRET, PASSWORD, "another-password", "cHVsbGVyOmNvcnJlY3Q"];
    let lines = replays::<Controller>(&config(), lived().taken, &secrets);
    assert!(lines > 200, "{lines} lines");
}

//! The key with which the hosted cluster encrypts Secrets in etcd: it is generated once, and never again.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::ErrorKind;
use lockstep_external::hypershift;
use lockstep_sim::cluster::{FaultVerdict, What};
use serde_json::{Value, json};

use super::bench::Bench;
use super::every_failure::LATER;
use super::objects::{NAMESPACE, bridge};

const KEY: &str = "prod-etcd-encryption-key";
/// The namespace of the control plane.
const PLACE: &str = "dpf-hcp-bridge-system-prod";

/// Returns a bridge with encrypted etcd.
pub(crate) fn encrypted() -> Value {
    let mut bridge = bridge("prod");
    bridge["spec"]["etcdEncryption"] = json!("Generated");
    bridge
}

fn ready() -> Bench {
    let mut bench = Bench::new();
    bench.create(&encrypted());
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    bench.transitions();
    bench
}

/// Returns the key in the Secret of the bridge, and in HyperShift's copy.
fn keys(bench: &mut Bench) -> [Value; 2] {
    [NAMESPACE, PLACE].map(|namespace| bench.get("Secret", namespace, KEY)["data"]["key"].clone())
}

/// Returns a Secret as a user restores it.
fn restored(data: &Value) -> Value {
    let metadata = json!({ "name": KEY, "namespace": NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data })
}

#[test]
fn etcd_is_encrypted_with_a_generated_key() {
    let mut bench = Bench::new();
    bench.create(&encrypted());
    bench.settle();
    let requests = bench.transitions();
    let at = |request: &str| requests.find(request).unwrap_or_else(|| panic!("{request}: {requests}"));
    let key = at("asks for create Secret dpf-hcp-bridge-system/prod-etcd-encryption-key");
    assert!(key < at("asks for create HostedCluster"), "{requests}");

    let secret = bench.get("Secret", NAMESPACE, KEY);
    let value = STANDARD.decode(secret["data"]["key"].as_str().unwrap_or_default()).expect("base64");
    assert_eq!((value.len(), &secret["immutable"], &secret["type"]), (32, &json!(true), &json!("Opaque")));
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], bench.bridge("prod")["metadata"]["uid"]);
    let encryption = bench.get("HostedCluster", NAMESPACE, "prod")["spec"]["secretEncryption"].clone();
    assert_eq!(encryption, json!({ "type": "aescbc", "aescbc": { "activeKey": { "name": KEY } } }));
    assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied");
    let [key, copy] = keys(&mut bench);
    assert_eq!(key, copy);
    let shown = format!("{}{}{:?}", bench.bridge("prod"), bench.events(), bench.notes);
    assert!(!shown.contains(key.as_str().unwrap_or_default()), "{shown}");
}

/// HyperShift needs the key until its cluster is gone.
#[test]
fn the_key_goes_after_its_cluster() {
    let mut bench = ready();
    let stuck = |stuck: Value| json!({ "metadata": { "annotations": { hypershift::STUCK: stuck } } });
    bench.merge("HostedCluster", NAMESPACE, "prod", &stuck(json!("true")));
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(bench.get("Secret", NAMESPACE, KEY)["kind"], "Secret");
    bench.merge("HostedCluster", NAMESPACE, "prod", &stuck(Value::Null));
    bench.settle();
    assert_eq!(bench.bridge("prod"), Value::Null);
    assert_eq!(bench.get("Secret", NAMESPACE, KEY), Value::Null);
}

#[test]
fn a_lost_key_is_reported_and_not_generated_again() {
    let mut bench = ready();
    let [key, _] = keys(&mut bench);
    bench.delete("Secret", NAMESPACE, KEY);
    bench.settle();
    assert_eq!(bench.get("Secret", NAMESPACE, KEY), Value::Null);
    let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(prerequisites, "False/WaitingForPrerequisites");
    insta::assert_snapshot!("lost_key", message);
    // The cluster serves with HyperShift's copy.
    assert_eq!(bench.phase("prod"), "Ready");
    let ready = bench.bridge("prod")["status"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(ready.ends_with(&message), "{ready}");
    let events = bench.events();
    assert!(events.contains(&format!("Warning WaitingForPrerequisites: {message}")), "{events}");

    // A key of another size can't be the former one.
    bench.create(&restored(&json!({ "key": STANDARD.encode("too short") })));
    bench.settle();
    let (_, message) = bench.condition("prod", "PrerequisitesMet");
    assert!(message.starts_with(&format!(
        "Secret {NAMESPACE}/{KEY}, the key for etcd, does not have 32 bytes under \"key\": HyperShift"
    )));
    bench.delete("Secret", NAMESPACE, KEY);
    bench.create(&restored(&json!({ "key": key })));
    bench.settle();
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "True/AllMet");
    assert_eq!(keys(&mut bench), [key.clone(), key]);
}

/// The key is lost before HyperShift has read it: the control plane does not come up, and HyperShift does not say why.
#[test]
fn a_cluster_that_never_got_its_key_is_explained() {
    let mut bench = Bench::new();
    bench.silence_for("HostedCluster", Duration::from_mins(2));
    bench.create(&encrypted());
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod")["kind"], "HostedCluster");
    bench.delete("Secret", NAMESPACE, KEY);
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(keys(&mut bench), [Value::Null, Value::Null]);
    let (ready, message) = bench.condition("prod", "Ready");
    assert_eq!(ready, "False/WaitingForControlPlane");
    assert!(
        message.starts_with(&format!("Secret {NAMESPACE}/{KEY}, the key for etcd, is gone")),
        "{message}"
    );
    bench.create(&restored(&json!({ "key": STANDARD.encode([7; 32]) })));
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
}

#[test]
fn a_secret_of_another_owner_is_not_used() {
    let mut bench = Bench::new();
    bench.create(&restored(&json!({ "key": STANDARD.encode([7; 32]) })));
    bench.create(&encrypted());
    bench.settle();
    assert_eq!(bench.phase("prod"), "Failed");
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
    let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(prerequisites, "False/InvalidInput");
    insta::assert_snapshot!("foreign_key", message);
    bench.delete("Secret", NAMESPACE, KEY);
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    assert_ne!(keys(&mut bench)[0], STANDARD.encode([7; 32]));
}

#[test]
fn a_cluster_that_is_created_again_keeps_the_key() {
    let mut bench = ready();
    let before = keys(&mut bench);
    bench.delete("HostedCluster", NAMESPACE, "prod");
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    assert_eq!(keys(&mut bench), before);
}

/// The API server refuses this change. A bridge may be older than that rule.
#[test]
fn encryption_is_not_added_later() {
    let mut bench = Bench::ready();
    bench.admit_anything();
    bench.change("prod", &json!({ "etcdEncryption": "Generated" }));
    bench.settle();
    let (applied, message) = bench.condition("prod", "SpecApplied");
    assert_eq!(applied, "False/ImmutableFieldChanged");
    assert!(message.contains("can't change etcdEncryption:"), "{message}");
    assert_eq!(bench.get("Secret", NAMESPACE, KEY), Value::Null);
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod")["spec"]["secretEncryption"], Value::Null);
}

/// Returns the keys that HyperShift or the Bridge had at any time after the HostedCluster was created, in their order.
fn keys_of_the_cluster(bench: &Bench) -> Vec<Value> {
    let mut keys: Vec<Value> = Vec::new();
    for entry in &bench.cluster.journal {
        let What::Changed(change) = &entry.what else { continue };
        if change.object.name == KEY
            && let Some(new) = &change.new
        {
            keys.push(new["data"]["key"].clone());
        }
    }
    keys.dedup();
    keys
}

#[test]
fn any_single_failure_leaves_one_key() {
    let create = |fate: Option<(u64, FaultVerdict)>, leaders: usize| {
        let mut bench = Bench::new();
        for _ in 1..leaders {
            bench.second();
        }
        bench.cluster.journal.clear();
        bench.cluster.interfere(move |number, _| match &fate {
            Some((at, fate)) if *at == number => fate.clone(),
            _ => FaultVerdict::Served,
        });
        bench.create(&encrypted());
        bench.cluster.advance(LATER);
        let what = format!("{:#}", bench.bridge("prod")["status"]);
        assert_eq!(bench.phase("prod"), "Ready", "{what}");
        let used = keys_of_the_cluster(&bench);
        assert_eq!(used.len(), 1, "{used:?}: {what}");
        assert_eq!(keys(&mut bench), [used[0].clone(), used[0].clone()], "{what}");
        bench.cluster.carried().count()
    };
    let requests = create(None, 1);
    assert!(requests > 10, "{requests}");
    create(None, 2);
    let fates = [
        FaultVerdict::AnswerLost,
        FaultVerdict::CrashedBefore,
        FaultVerdict::CrashedAfter,
        FaultVerdict::failed(ErrorKind::Unavailable),
        FaultVerdict::failed(ErrorKind::AlreadyExists),
    ];
    for number in 0..u64::try_from(requests).expect("a number of requests") {
        for fate in &fates {
            create(Some((number, fate.clone())), 1);
        }
    }
}

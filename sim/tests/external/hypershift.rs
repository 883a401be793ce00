//! HyperShift's conditions and their order, as in the real one (hypershift-operator 0.1.81): a table of conditions, each with its
//! successive reasons and messages. Messages without an observation, and without a line of HyperShift's sources, are left empty
//! and not compared.

use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_external as external;
use lockstep_external::hypershift::{self, HyperShift};
use lockstep_sim::cluster::What;
use serde_json::{Value, json};

use super::bench::Bench;
use super::manifests::{NAMESPACE, hosted_cluster, node_pool, on_node_ports, pool, secret};

/// The situation in which conditions are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// The first version is installed, behind a load balancer.
    Installed,
    /// The first version is installed, on node ports.
    InstalledOnNodePorts,
    /// HostedCluster and NodePool are set to a new patch version together, and nodes are ready.
    Upgraded,
    /// They are set to the next minor version together.
    UpgradedToTheNextMinor,
    /// The HostedCluster is paused.
    Paused,
    /// The registry of its release does not answer.
    CutOff,
    /// There is no pull secret.
    WithoutPullSecret,
    /// There is no SSH key.
    WithoutSshKey,
    /// There is no Secret with the key for etcd.
    WithoutEncryptionSecret,
    /// The Secret has no key for etcd.
    WithoutEncryptionKey,
    /// The management cluster has no Routes.
    WithoutRoutes,
}

struct Row {
    when: When,
    kind: &'static str,
    condition: &'static str,
    /// `status/reason`, and the beginning of the message.
    said: &'static [(&'static str, &'static str)],
}

const fn row(
    when: When,
    kind: &'static str,
    condition: &'static str,
    said: &'static [(&'static str, &'static str)],
) -> Row {
    Row { when, kind, condition, said }
}

const AVAILABLE: (&str, &str) = ("True/AsExpected", "The hosted control plane is available");
const AT_EXPECTED_VERSION: (&str, &str) = ("False/AsExpected", "HostedCluster is at expected version");
const VALID_RELEASE: (&str, &str) = ("True/AsExpected", "Release image is valid");
const TABLE: &[Row] = &[
    row(
        When::Installed,
        "HostedCluster",
        "Available",
        &[
            ("False/WaitingForAvailable", ""),
            ("False/WaitingOnInfrastructureReady", ""),
            ("False/KubeconfigWaitingForCreate", "Waiting for hosted control plane kubeconfig to be created"),
            ("False/EtcdWaitingForQuorum", "Waiting for etcd to reach quorum"),
            ("False/WaitingForAvailable", "Waiting for Kube APIServer deployment to become available"),
            ("False/KASLoadBalancerNotReachable", ""),
            ("False/ComponentsNotAvailable", ""),
            AVAILABLE,
        ],
    ),
    row(
        When::Installed,
        "HostedCluster",
        "ValidConfiguration",
        &[("True/AsExpected", "Configuration passes validation")],
    ),
    row(
        When::Installed,
        "HostedCluster",
        "Degraded",
        &[("False/AsExpected", "The hosted cluster is not degraded")],
    ),
    row(
        When::Installed,
        "HostedCluster",
        "ReconciliationActive",
        &[("True/AsExpected", "Reconciliation active on resource")],
    ),
    row(When::Installed, "HostedCluster", "Progressing", &[AT_EXPECTED_VERSION]),
    row(When::Installed, "HostedCluster", "ValidReleaseImage", &[VALID_RELEASE]),
    row(
        When::Installed,
        "NodePool",
        "IgnitionEndpointAvailable",
        &[("False/IgnitionEndpointMissing", "Ignition endpoint not available, waiting")],
    ),
    row(
        When::Installed,
        "NodePool",
        "ValidMachineConfig",
        &[("False/ValidationFailed", "expected 3 core ignition configs"), ("True/AsExpected", "")],
    ),
    row(
        When::Installed,
        "NodePool",
        "ValidGeneratedPayload",
        &[("False/NotFound", "Unable to get status data from token secret"), ("True/AsExpected", "")],
    ),
    row(
        When::Installed,
        "NodePool",
        "AllMachinesReady",
        &[("False/AsExpected", "NodePool set to no replicas")],
    ),
    row(
        When::Installed,
        "NodePool",
        "AllNodesHealthy",
        &[("False/AsExpected", "NodePool set to no replicas")],
    ),
    row(When::Installed, "NodePool", "Ready", &[]),
    row(When::InstalledOnNodePorts, "HostedCluster", "Progressing", &[AT_EXPECTED_VERSION]),
    row(When::Upgraded, "HostedCluster", "Available", &[]),
    row(
        When::Upgraded,
        "HostedCluster",
        "Progressing",
        &[
            ("True/Progressing", "HostedCluster is deploying, upgrading, or reconfiguring"),
            AT_EXPECTED_VERSION,
        ],
    ),
    row(
        When::Upgraded,
        "NodePool",
        "SupportedVersionSkew",
        &[
            (
                "False/UnsupportedSkew",
                "NodePool version 4.19.1 cannot be higher than the HostedCluster version 4.19.0",
            ),
            ("True/AsExpected", "Release image version is valid"),
        ],
    ),
    row(
        When::Upgraded,
        "NodePool",
        "ValidGeneratedPayload",
        &[("False/NotFound", "Unable to get status data from token secret"), ("True/AsExpected", "")],
    ),
    row(
        When::UpgradedToTheNextMinor,
        "NodePool",
        "ValidReleaseImage",
        &[
            ("False/ValidationFailed", "the latest version supported is: \"4.19.0\""),
            ("True/AsExpected", "Using release image: "),
        ],
    ),
    row(When::Paused, "HostedCluster", "Progressing", &[("False/Blocked", "")]),
    row(
        When::Paused,
        "HostedCluster",
        "ReconciliationActive",
        &[("False/ReconciliationPaused", "Reconciliation paused until field removed")],
    ),
    row(When::Paused, "HostedCluster", "Available", &[]),
    row(When::CutOff, "HostedCluster", "Progressing", &[("False/Blocked", "failed to lookup release image")]),
    row(When::CutOff, "HostedCluster", "Available", &[]),
    row(
        When::WithoutPullSecret,
        "HostedCluster",
        "ValidReleaseImage",
        &[("False/SecretNotFound", "failed to get pull secret: ")],
    ),
    row(When::WithoutPullSecret, "HostedCluster", "Progressing", &[("False/Blocked", "")]),
    row(When::WithoutSshKey, "HostedCluster", "ValidReleaseImage", &[VALID_RELEASE]),
    row(
        When::WithoutSshKey,
        "HostedCluster",
        "ReconciliationSucceeded",
        &[("False/ReconciliationError", "failed to get hostedcluster SSHKey secret ssh-key: ")],
    ),
    row(When::WithoutSshKey, "HostedCluster", "Progressing", &[AT_EXPECTED_VERSION]),
    row(
        When::WithoutEncryptionSecret,
        "HostedCluster",
        "ReconciliationSucceeded",
        &[("False/ReconciliationError", "failed to get active aescbc secret etcd: ")],
    ),
    row(When::WithoutEncryptionSecret, "HostedCluster", "Progressing", &[AT_EXPECTED_VERSION]),
    // HyperShift only logs it, so nothing but the missing control plane shows it.
    row(
        When::WithoutEncryptionKey,
        "HostedCluster",
        "ReconciliationSucceeded",
        &[("True/ReconciliatonSucceeded", "")],
    ),
    row(When::WithoutEncryptionKey, "HostedCluster", "Progressing", &[AT_EXPECTED_VERSION]),
    row(When::WithoutEncryptionKey, "HostedCluster", "Available", &[("False/WaitingForAvailable", "")]),
    row(
        When::WithoutRoutes,
        "HostedCluster",
        "ValidConfiguration",
        &[("False/InvalidConfiguration", "cluster does not support Routes")],
    ),
    row(
        When::WithoutRoutes,
        "HostedCluster",
        "ReconciliationSucceeded",
        &[("False/ReconciliationError", "no matches for kind \"Route\"")],
    ),
    row(When::WithoutRoutes, "HostedCluster", "Progressing", &[]),
    row(When::WithoutRoutes, "HostedCluster", "Available", &[]),
];

fn image(version: &str) -> Value {
    json!({ "spec": { "release": { "image": format!("registry.example.com/ocp-release:{version}-multi") } } })
}

/// Returns a cluster just after this situation; earlier changes are dropped from the journal.
fn after(when: When) -> Bench {
    let definitions = external::definitions(&external::BRIDGE);
    let without = |name: &str| {
        let mut bench = Bench::new();
        bench.create(&pool("vips", "192.0.2.10/32", true));
        bench.delete("Secret", name);
        bench.create(&hosted_cluster("prod"));
        bench
    };
    let available = || {
        let mut bench = Bench::hosting(&definitions);
        bench.cluster.journal.clear();
        bench
    };
    let upgraded = |version: &str| {
        let mut bench = available();
        for kind in ["HostedCluster", "NodePool"] {
            bench.merge(kind, "prod", &image(version));
        }
        bench
    };
    let mut bench = match when {
        When::Installed => Bench::hosting(&definitions),
        When::InstalledOnNodePorts => {
            let mut bench = Bench::new();
            bench.create(&on_node_ports("prod"));
            bench.create(&node_pool("prod"));
            bench
        }
        When::Upgraded => upgraded("4.19.1"),
        When::UpgradedToTheNextMinor => upgraded("4.20.1"),
        When::Paused => {
            let mut bench = available();
            bench.merge("HostedCluster", "prod", &json!({ "spec": { "pausedUntil": "true" } }));
            bench
        }
        When::CutOff => {
            let mut bench = available();
            let annotations = json!({ hypershift::RELEASES: hypershift::UNREACHABLE });
            bench.merge("HostedCluster", "prod", &json!({ "metadata": { "annotations": annotations } }));
            bench
        }
        When::WithoutPullSecret => without("pull-secret"),
        When::WithoutSshKey => without("ssh-key"),
        When::WithoutEncryptionSecret => {
            let mut bench = Bench::new();
            bench.create(&encrypted());
            bench
        }
        When::WithoutEncryptionKey => {
            let mut bench = Bench::new();
            bench.create(&secret("etcd", "another"));
            bench.create(&encrypted());
            bench
        }
        When::WithoutRoutes => {
            let mut bench = Bench::running(&definitions, HyperShift { routes: false });
            bench.create(&hosted_cluster("prod"));
            bench
        }
    };
    bench.settle();
    bench
}

/// Returns the successive states of a condition.
fn said(bench: &Bench, kind: &str, name: &str) -> Vec<(String, String)> {
    let find = |object: &Value| {
        let mut all = object["status"]["conditions"].as_array().cloned().unwrap_or_default().into_iter();
        all.find(|condition| condition["type"] == name).map(|found| {
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            (format!("{}/{}", text("status"), text("reason")), text("message"))
        })
    };
    let mut said = Vec::new();
    for entry in &bench.cluster.journal {
        let What::Changed(change) = &entry.what else { continue };
        let Some(new) = change.new.as_deref().filter(|_| change.object.kind.kind == kind) else { continue };
        let before = change.old.as_deref().and_then(find);
        said.extend(find(new).filter(|now| Some(now) != before.as_ref()));
    }
    said
}

#[test]
fn hypershift_says_what_the_real_one_says() {
    let mut wrong = Vec::new();
    let mut bench: Option<(When, Bench)> = None;
    for Row { when, kind, condition, said: expected } in TABLE {
        let (_, bench) = match &mut bench {
            Some(held) if held.0 == *when => held,
            other => other.insert((*when, after(*when))),
        };
        let found = said(bench, kind, condition);
        let holds = found.len() == expected.len()
            && found
                .iter()
                .zip(*expected)
                .all(|((reason, message), (wanted, begin))| reason == wanted && message.starts_with(begin));
        if !holds {
            wrong.push(format!("{when:?} {kind} {condition}: {found:#?}, not {expected:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a HostedCluster that encrypts etcd with the key in the Secret `etcd`.
fn encrypted() -> Value {
    let mut cluster = hosted_cluster("prod");
    let key = json!({ "name": "etcd" });
    cluster["spec"]["secretEncryption"] = json!({ "type": "aescbc", "aescbc": { "activeKey": key } });
    cluster
}

/// HyperShift works with a copy of the key for etcd. It replaces the copy when the key changes, and keeps it when the key is gone.
#[test]
fn the_key_for_etcd_is_copied() {
    let mut bench = Bench::new();
    bench.create(&pool("vips", "192.0.2.10/32", true));
    bench.create(&secret("etcd", "key"));
    bench.create(&encrypted());
    bench.settle();
    let copy = |bench: &mut Bench| {
        let target = ObjectRef::namespaced(
            &Kind::known("", "v1", "Secret", "secrets", true),
            &format!("{NAMESPACE}-prod"),
            "etcd",
        );
        bench.cluster.server.object(&target).map(|copy| copy["data"].clone()).unwrap_or_default()
    };
    let of_user = bench.get("Secret", "etcd")["data"].clone();
    assert_eq!((copy(&mut bench), of_user["key"].is_string()), (of_user.clone(), true));
    bench.merge("Secret", "etcd", &json!({ "data": { "key": "YW5vdGhlcg==" } }));
    bench.settle();
    assert_eq!(copy(&mut bench), json!({ "key": "YW5vdGhlcg==" }));
    bench.delete("Secret", "etcd");
    bench.settle();
    assert_eq!(copy(&mut bench), json!({ "key": "YW5vdGhlcg==" }));
}

/// Images in histories are resolved, the kubeconfig has the cluster's labels, and Secrets are marked as referenced.
#[test]
fn what_a_hosted_cluster_leaves_on_other_objects() {
    let mut bench = Bench::new();
    bench.create(&pool("vips", "192.0.2.10/32", true));
    let mut cluster = hosted_cluster("prod");
    cluster["metadata"]["labels"] = json!({ "team": "a" });
    bench.create(&cluster);
    bench.settle();
    let labels =
        |bench: &mut Bench, kind: &str, name: &str| bench.get(kind, name)["metadata"]["labels"].clone();
    assert_eq!(labels(&mut bench, "Secret", "prod-admin-kubeconfig"), json!({ "team": "a" }));
    bench.merge("HostedCluster", "prod", &json!({ "metadata": { "labels": { "team": "b" } } }));
    bench.settle();
    assert_eq!(labels(&mut bench, "Secret", "prod-admin-kubeconfig"), json!({ "team": "b" }));
    for name in ["pull-secret", "ssh-key"] {
        let mark = "referenced-resource.hypershift.openshift.io/prod";
        assert_eq!(bench.get("Secret", name)["metadata"]["annotations"][mark], "managed", "{name}");
    }
    let cluster = bench.get("HostedCluster", "prod");
    for history in ["controlPlaneVersion", "version"] {
        let image = cluster["status"][history]["history"][0]["image"].as_str().expect("an image").to_owned();
        assert!(image.contains("@sha256:"), "{history}: {image}");
    }
}

//! The status when some information is missing, and the advice in its messages.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::action::ErrorKind;
use lockstep_engine::machine::Note;
use lockstep_engine::object::ObjectRef;
use lockstep_external::dpu_clusters::UNREACHABLE;
use lockstep_external::hypershift;
use lockstep_external::registry::Health;
use lockstep_sim::cluster::FaultVerdict;
use serde_json::json;

use super::bench::Bench;
use super::objects::{DPF, NAMESPACE, RELEASE, UPGRADE, bridge, dpu_cluster, pull_secret};
use super::scenarios;

/// Without its kubeconfig, the DPUCluster would lose the control plane of the older bridge.
#[test]
fn no_bridge_advises_to_remove_what_another_one_uses() {
    let mut bench = Bench::ready();
    let mut second = bridge("stage");
    second["spec"]["metalLBVirtualIP"] = json!("192.0.2.20");
    bench.create(&second);
    bench.settle();
    let (injected, message) = bench.condition("stage", "KubeconfigInjected");
    assert_eq!(injected, "False/DPUClusterHasItsOwn");
    assert!(message.contains("of DPFHCPBridge dpf-hcp-bridge-system/prod; leave it as it is"), "{message}");
    let (unmet, message) = bench.condition("stage", "PrerequisitesMet");
    assert_eq!(unmet, "False/WaitingForPrerequisites");
    assert!(message.contains("is in use by DPFHCPBridge dpf-hcp-bridge-system/prod"), "{message}");
    let status = bench.bridge("stage")["status"].to_string();
    assert!(!status.contains("remove") && !status.contains("delete"), "{status}");
}

/// The times of creation have no fractions of a second, so the first one can look younger.
#[test]
fn of_two_bridges_from_the_same_second_the_connected_one_has_the_dpucluster() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_millis(100));
    let mut second = bridge("dev");
    second["spec"]["metalLBVirtualIP"] = json!("192.0.2.20");
    bench.create(&second);
    bench.settle();
    let created = |bridge: &serde_json::Value| bridge["metadata"]["creationTimestamp"].clone();
    assert_eq!(created(&bench.bridge("prod")), created(&bench.bridge("dev")));
    let is_connected =
        |bench: &mut Bench, name| bench.condition(name, "KubeconfigInjected").0 == "True/Injected";
    let (has_it, has_not) = if is_connected(&mut bench, "prod") { ("prod", "dev") } else { ("dev", "prod") };
    assert_eq!(bench.condition(has_it, "PrerequisitesMet").0, "True/AllMet");
    let (unmet, message) = bench.condition(has_not, "PrerequisitesMet");
    assert_eq!(unmet, "False/WaitingForPrerequisites");
    assert!(
        message.contains(&format!("is in use by DPFHCPBridge dpf-hcp-bridge-system/{has_it}")),
        "{message}"
    );
    // Its HostedCluster works, but no DPU joins it.
    assert_eq!(bench.condition(has_it, "Ready").0, "True/ClusterReady");
    assert_eq!(bench.condition(has_not, "Ready").0, "False/ValidationFailed");
    assert_eq!(bench.bridge(has_not)["status"]["phase"], "Failed");
    bench.delete("DPFHCPBridge", NAMESPACE, has_it);
    bench.settle();
    assert_eq!(bench.condition(has_not, "Ready").0, "True/ClusterReady");
}

/// DPF keeps the client that it made of the first kubeconfig, so it may fail to connect with the next one.
#[test]
fn a_dpucluster_that_is_not_ready_any_more_is_explained() {
    let mut bench = Bench::ready();
    let message = |bench: &mut Bench| bench.condition("prod", "KubeconfigInjected").1;
    let before = message(&mut bench);
    for (unreachable, phase, is_explained) in
        [(json!("true"), "NotReady", true), (json!(null), "Ready", false)]
    {
        bench.merge(
            "DPUCluster",
            DPF,
            "dpus",
            &json!({ "metadata": { "annotations": { UNREACHABLE: unreachable } } }),
        );
        bench.settle();
        assert_eq!(bench.get("DPUCluster", DPF, "dpus")["status"]["phase"], phase);
        assert_eq!(message(&mut bench).contains("restart DPF's provisioning controller"), is_explained);
        assert_eq!(bench.condition("prod", "Ready").0, "True/ClusterReady");
    }
    assert_eq!(message(&mut bench), before);
}

/// Returns the reasons of all Warnings so far. A second process with the same seed gives its Events the same names as the first.
fn announced(bench: &mut Bench) -> BTreeSet<String> {
    bench.transitions();
    let warnings = bench.notes.iter().filter_map(|note| match note {
        Note::EventAnnounced { warning: true, reason, .. } => Some(reason.clone()),
        _ => None,
    });
    warnings.collect()
}

/// Conditions that can still be evaluated are evaluated; the others are Unknown.
#[test]
fn a_refused_watch_freezes_no_condition() {
    let of_cluster = [
        "HostedClusterCreated",
        "HostedClusterAvailable",
        "HostedClusterProgressing",
        "HostedClusterDegraded",
        "SpecApplied",
        "ServiceExposureReady",
        "KubeconfigInjected",
    ];
    for (kind, unknown) in [
        ("HostedCluster", &of_cluster[..]),
        ("NodePool", &["NodePoolReady", "SpecApplied"]),
        ("Service", &["ServiceExposureReady"]),
        ("Secret", &["KubeconfigInjected"]),
    ] {
        let mut bench = Bench::ready();
        let before = bench.bridge("prod")["status"].clone();
        bench.forbid_watch(kind);
        bench.cluster.advance(Duration::from_mins(10));
        let after = bench.bridge("prod")["status"].clone();
        for field in ["phase", "hostedClusterRef", "nodePoolRef", "apiEndpoint", "kubeconfigSecretRef"] {
            assert_eq!(after[field], before[field], "{kind}: {field}");
        }
        let why = format!("{kind}s can't be watched (cannot list resource)");
        let conditions = before["conditions"].as_array().expect("conditions");
        for name in conditions.iter().filter_map(|condition| condition["type"].as_str()) {
            let (found, message) = bench.condition("prod", name);
            let is_unknown = unknown.contains(&name) || name == "Ready";
            assert_eq!(found == "Unknown/WatchFailed", is_unknown, "{kind}: {name} is {found}");
            assert!(!is_unknown || message.starts_with(&why), "{kind}: {name}: {message}");
        }
        let (found, message) = bench.condition("prod", "PrerequisitesMet");
        assert_eq!(found, "False/WaitingForPrerequisites", "{kind}");
        assert!(message.contains(&why), "{kind}: {message}");

        bench.change("prod", &json!({ "clusterType": "dpf-dev" }));
        bench.delete("DPUCluster", DPF, "dpus");
        bench.cluster.advance(Duration::from_mins(1));
        assert_eq!(bench.condition("prod", "DPUClusterValid").0, "False/DPUClusterNotFound", "{kind}");
        assert_eq!(bench.condition("prod", "Ready").0, "False/ValidationFailed", "{kind}");
        assert_eq!(bench.phase("prod"), "Failed", "{kind}");
        let bridge = bench.bridge("prod");
        let generation = &bridge["metadata"]["generation"];
        assert_eq!(bridge["status"]["observedGeneration"], *generation, "{kind}");
        for condition in bridge["status"]["conditions"].as_array().expect("conditions") {
            assert_eq!(condition["observedGeneration"], *generation, "{kind}: {condition}");
        }
        assert!(announced(&mut bench).contains("DPUClusterNotFound"), "{kind}: {:?}", announced(&mut bench));

        bench.create(&dpu_cluster("dpus"));
        bench.permit_watch();
        bench.cluster.advance(Duration::from_mins(3));
        assert_eq!(bench.condition("prod", "Ready").0, "True/ClusterReady", "{kind}");
        assert_eq!(bench.phase("prod"), "Ready", "{kind}");
    }
}

/// The deletion is reported before the cluster is created again.
#[test]
fn a_hosted_cluster_that_is_deleted_while_it_cannot_be_watched_is_missed() {
    let mut bench = Bench::ready();
    bench.forbid_watch("HostedCluster");
    bench.cluster.advance(Duration::from_mins(1));
    bench.delete("HostedCluster", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.condition("prod", "HostedClusterCreated").0, "Unknown/WatchFailed");
    bench.permit_watch();
    bench.cluster.advance(Duration::from_mins(3));
    assert!(announced(&mut bench).contains("Deleted"), "{:?}", announced(&mut bench));
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn an_hour_that_is_over_stays_so_while_hosted_clusters_cannot_be_watched() {
    let mut bench = scenarios::timed_out();
    assert_eq!(bench.condition("prod", "Provisioned").0, "False/TimedOut");
    bench.forbid_watch("HostedCluster");
    bench.cluster.advance(Duration::from_mins(1));
    // It is known that the NodePool waits.
    assert_eq!(bench.condition("prod", "Ready").0, "False/WaitingForInfrastructure");
    assert_eq!(bench.condition("prod", "HostedClusterCreated").0, "Unknown/WatchFailed");
    assert_eq!(bench.condition("prod", "Provisioned").0, "False/TimedOut");
    assert_eq!(bench.phase("prod"), "Failed");
}

/// A control plane that has lost replicas serves. So its bridge is not taken for one that was never ready.
#[test]
fn a_bridge_that_lost_its_status_has_been_ready() {
    let mut bench = scenarios::ailing(hypershift::DEGRADED);
    bench.cluster.advance(Duration::from_hours(2));
    let before = bench.bridge("prod")["status"].clone();
    bench.merge("DPFHCPBridge", NAMESPACE, "prod/status", &json!({ "status": null }));
    bench.restart();
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.condition("prod", "Provisioned").0, "True/Completed");
    let after = bench.bridge("prod")["status"].clone();
    assert_eq!((&after["phase"], &after["message"]), (&json!("Ready"), &before["message"]));
}

/// Returns how often the registry was queried since the journal was taken.
fn questions(bench: &Bench) -> usize {
    bench.cluster.carried().filter(|(_, carried)| carried.action.name() == "find_image").count()
}

/// Its cluster is created anyway.
#[test]
fn a_release_image_that_could_not_be_checked_is_reported_and_checked_again() {
    let mut bench = scenarios::registry_down();
    let unchecked = "True/ReleaseImageUnchecked";
    let (found, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!((found.as_str(), bench.phase("prod").as_str()), (unchecked, "Ready"));
    let expected = format!("release image {RELEASE} could not be checked (connection refused)");
    assert!(message.starts_with(&expected), "{message}");
    let event = format!("Warning ReleaseImageUnchecked: {expected}");
    assert_eq!(bench.events().matches(&event).count(), 1, "{}", bench.events());
    bench.transitions();
    let is_logged = |note: &Note| matches!(note, Note::Warning { message } if message.contains(&expected));
    assert!(bench.notes.iter().any(is_logged), "{:?}", bench.notes);

    bench.cluster.advance(Duration::from_mins(10));
    assert!((9..=11).contains(&questions(&bench)), "{} questions", questions(&bench));
    bench.cluster.crash(bench.operator, Some(Duration::from_secs(1)));
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, unchecked);
    bench.registry().health = Health::Up;
    bench.cluster.advance(Duration::from_mins(2));
    let met = ("True/AllMet".to_owned(), "all prerequisites are met".to_owned());
    assert_eq!(bench.condition("prod", "PrerequisitesMet"), met);

    bench.transitions();
    bench.cluster.crash(bench.operator, Some(Duration::from_secs(1)));
    bench.cluster.advance(Duration::from_mins(30));
    assert_eq!(questions(&bench), 0, "what was checked is not asked for again");
}

/// If a registry refuses an image after HyperShift has completed it, that does not affect the running cluster.
#[test]
fn what_a_registry_says_too_late_fails_no_cluster_that_runs() {
    let mut bench = scenarios::registry_down();
    bench.registry().health = Health::Forbidden;
    bench.cluster.advance(Duration::from_mins(2));
    let (found, _) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!((found.as_str(), bench.phase("prod").as_str()), ("True/AllMet", "Ready"));

    let mut bench = scenarios::with(|bench| {
        bench.registry().health = Health::Down;
        bench.silence("IPAddressPool");
    });
    assert_eq!(bench.phase("prod"), "Provisioning");
    bench.registry().health = Health::Forbidden;
    bench.cluster.advance(Duration::from_mins(2));
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "False/InvalidInput");
    assert_eq!(bench.phase("prod"), "Failed");
}

/// The registry is queried with the pull secret.
#[test]
fn no_upgrade_begins_before_the_registry_was_asked() {
    let mut bench = Bench::ready();
    bench.delete("Secret", NAMESPACE, "pull");
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.cluster.advance(Duration::from_mins(3));
    let image =
        |bench: &mut Bench| bench.get("HostedCluster", NAMESPACE, "prod")["spec"]["release"]["image"].clone();
    assert_eq!(image(&mut bench), RELEASE);
    assert_eq!(bench.condition("prod", "SpecApplied").0, "Unknown/UpdatePending");
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "False/WaitingForPrerequisites");
    bench.create(&pull_secret());
    bench.settle();
    assert_eq!(image(&mut bench), UPGRADE);
}

/// The specification requires that all components are healthy for Ready. A cluster that serves requests is not Failed because of
/// a degraded component.
#[test]
fn a_degraded_control_plane_is_not_ready_and_not_failed() {
    let mut bench = scenarios::degraded();
    let (ready, message) = bench.condition("prod", "Ready");
    assert_eq!((ready.as_str(), bench.phase("prod").as_str()), ("False/WaitingForControlPlane", "Ready"));
    assert!(message.starts_with("UnavailableReplicas: "), "{message}");
    assert!(
        bench.events().contains("Warning WaitingForControlPlane: UnavailableReplicas"),
        "{}",
        bench.events()
    );
    scenarios::ail(&mut bench, &json!(null));
    bench.settle();
    assert_eq!(bench.condition("prod", "Ready").0, "True/ClusterReady");

    // A rollout replaces replicas one by one.
    let mut bench = scenarios::upgrade_under_way();
    scenarios::ail(&mut bench, &json!(hypershift::DEGRADED));
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.condition("prod", "HostedClusterDegraded").0, "True/UnavailableReplicas");
    assert_eq!(bench.condition("prod", "Ready").0, "True/ClusterReady");
}

#[test]
fn a_condition_that_hypershift_no_longer_reports_is_removed() {
    let mut bench = Bench::ready();
    assert_eq!(bench.condition("prod", "HostedClusterDegraded").0, "False/AsExpected");
    bench.silence("HostedCluster");
    let cluster = bench.get("HostedCluster", NAMESPACE, "prod");
    let mut conditions = cluster["status"]["conditions"].as_array().expect("conditions").clone();
    conditions.retain(|condition| condition["type"] != "Degraded");
    bench.merge(
        "HostedCluster",
        NAMESPACE,
        "prod/status",
        &json!({ "status": { "conditions": conditions } }),
    );
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.condition("prod", "HostedClusterDegraded").0, "absent");
    assert_eq!(bench.condition("prod", "HostedClusterAvailable").0, "True/AsExpected");
}

#[test]
fn the_ingress_endpoint_is_given_when_there_are_nodes() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_secs(2));
    scenarios::annotate(&mut bench, hypershift::NODES, &json!(hypershift::NO_NODES));
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");
    assert_eq!(bench.bridge("prod")["status"]["ingressEndpoint"], json!(null));
    scenarios::annotate(&mut bench, hypershift::NODES, &json!(null));
    bench.settle();
    assert_eq!(bench.bridge("prod")["status"]["ingressEndpoint"], "*.apps.prod.clusters.example.com");
}

/// "Logging": the lines of the specification, with their levels.
#[test]
fn every_line_of_the_specification_is_logged() {
    let mut bench = Bench::new();
    bench.delete("DPUCluster", DPF, "dpus");
    bench.create(&bridge("prod"));
    bench.settle();
    bench.create(&dpu_cluster("dpus"));
    bench.settle();
    bench.cluster.interfere(|_, action| match action.name() {
        "patch_status" => FaultVerdict::failed(ErrorKind::Unavailable),
        _ => FaultVerdict::Served,
    });
    bench.change("prod", &json!({ "clusterType": "dpf-dev" }));
    bench.cluster.advance(Duration::from_secs(10));
    bench.transitions();
    let mut unreadable = scenarios::dpu_clusters_forbidden();
    unreadable.transitions();
    let logged: BTreeSet<String> = bench.notes.iter().chain(&unreadable.notes).filter_map(line).collect();
    let bridge = "DPFHCPBridge dpf-hcp-bridge-system/prod";
    let cluster = "DPUCluster dpf-operator-system/dpus";
    let both = format!(" [{bridge}] [{cluster}]");
    for (line, fields) in [
        ("info: Validating DPUCluster existence", both.clone()),
        ("info: DPUCluster validation successful", both.clone()),
        ("info: DPUCluster not found", both.clone()),
        ("debug: Fetching DPUCluster from API", both.clone()),
        ("debug: DPUCluster validation result: not_found", both.clone()),
        ("debug: Field index lookup for DPUCluster: 1 DPFHCPBridges", format!(" [{cluster}]")),
        ("error: Failed to get DPUCluster: ", both),
        ("error: Failed to update DPFHCPBridge status: ", format!(" [{bridge}]")),
    ] {
        let is_it = |logged: &String| {
            logged.strip_prefix(line).is_some_and(|rest| {
                let cause = rest.strip_suffix(&*fields);
                // A line that ends with a colon quotes the cause.
                cause.is_some_and(|cause| cause.is_empty() != line.ends_with(": "))
            })
        };
        assert!(logged.iter().any(is_it), "{line}{fields}: {logged:#?}");
    }
    // A DPUCluster that is watched is not read.
    let watched: BTreeSet<String> = bench.notes.iter().filter_map(line).collect();
    assert!(!watched.iter().any(|line| line.contains("Fetching DPUCluster")), "{watched:#?}");
}

/// Returns a line of the log, with its level.
fn line(note: &Note) -> Option<String> {
    match note {
        Note::Error { message, objects } => Some(format!("error: {message}{}", fields(objects))),
        Note::Log { debug: true, message, objects } => Some(format!("debug: {message}{}", fields(objects))),
        Note::Log { debug: false, message, objects } => Some(format!("info: {message}{}", fields(objects))),
        _ => None,
    }
}

/// Returns the structured fields of a line.
fn fields(objects: &[ObjectRef]) -> String {
    let field = |ObjectRef { kind, namespace, name }: &ObjectRef| {
        format!(" [{} {}/{name}]", kind.kind, namespace.as_deref().unwrap_or_default())
    };
    objects.iter().map(field).collect::<Vec<_>>().concat()
}

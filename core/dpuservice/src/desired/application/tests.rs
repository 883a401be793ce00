use lockstep_crds::dpuservice::{ServiceDaemonSet, Source};
use lockstep_engine::cache::Cached;

use lockstep_engine::action::KubeRequest;

use super::*;
use crate::desired::removal::termination;
use crate::model::cluster::Cluster;
use crate::model::service::Service;

/// Returns a cached state with these clusters: namespace, name, second of creation.
fn store(clusters: &[(&str, &str, u32)]) -> Store {
    let mut store = Store::default();
    for (index, (namespace, name, second)) in clusters.iter().enumerate() {
        let cluster = Cluster::read(&json!({
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": format!("c{index}"),
                "resourceVersion": (index + 1).to_string(),
                "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            },
        }));
        store.clusters.observe(Name::new(namespace, name), cluster);
    }
    store
}

/// Creates an Application of the service on each cluster, in the given order, and returns their names.
fn names(store: &mut Store, services: &[(&str, &str)], clusters: &[(&str, &str)]) -> Vec<String> {
    let mut names = Vec::new();
    let spec = DPUServiceSpec::default();
    for (namespace, service) in services {
        for (cluster_namespace, cluster) in clusters {
            let (service, cluster) = (Name::new(namespace, service), Name::new(cluster_namespace, cluster));
            let name = free_name(store, &service, &cluster).expect("a name");
            let mut object = manifest(&service, &spec, &cluster, "https://10.0.0.1");
            object["metadata"]["namespace"] = json!(name.namespace);
            object["metadata"]["name"] = json!(name.name);
            object["metadata"]["resourceVersion"] = json!((names.len() + 1).to_string());
            let app = App::read(&object).expect("an Application of ours");
            assert_eq!((&app.service, &app.cluster), (&service, &cluster));
            names.push(name.name.clone());
            store.applications.observe(name, app);
        }
    }
    names
}

#[test]
fn an_application_bears_the_number_of_its_cluster() {
    let mut store = store(&[("dpf", "dpu-cluster-01", 1), ("dpf", "dpu-cluster-2", 2), ("dpf", "edge", 3)]);
    let clusters = [("dpf", "dpu-cluster-01"), ("dpf", "dpu-cluster-2"), ("dpf", "edge")];
    assert_eq!(names(&mut store, &[("default", "hbn")], &clusters), ["hbn-01", "hbn-2", "hbn-edge"]);
}

#[test]
fn of_two_clusters_with_one_number_the_older_has_it() {
    let clusters = [("dpf", "east-01"), ("dpf", "west-01"), ("lab", "west-01")];
    let mut store = store(&[("dpf", "east-01", 9), ("dpf", "west-01", 1), ("lab", "west-01", 5)]);
    let names = names(&mut store, &[("default", "hbn")], &clusters);
    assert_eq!(names[..2], ["hbn-east-01", "hbn-01"]);
    assert_eq!(names[2], "hbn-west-01", "the name of its cluster is still free");
    let again = free_name(&store, &Name::new("default", "hbn"), &Name::new("lab", "west-01")).unwrap();
    assert!(
        again.name.starts_with("hbn-west-01-") && again.name.len() == "hbn-west-01-".len() + 8,
        "{again}"
    );
}

#[test]
fn services_of_one_name_do_not_share_an_application() {
    let mut store = store(&[("dpf", "dpu-01", 1)]);
    let services = [("red", "hbn"), ("green", "hbn"), ("blue", "hbn")];
    let names = names(&mut store, &services, &[("dpf", "dpu-01")]);
    assert_eq!(names[..2], ["hbn-01", "hbn-dpu-01"]);
    assert!(names[2].starts_with("hbn-dpu-01-"), "{names:?}");
}

#[test]
fn a_name_of_another_owner_is_skipped() {
    let mut store = store(&[("dpf", "dpu-01", 1)]);
    store.taken.insert(Name::new(ARGO_NAMESPACE, "hbn-01"));
    assert_eq!(names(&mut store, &[("default", "hbn")], &[("dpf", "dpu-01")]), ["hbn-dpu-01"]);
}

#[test]
fn long_names_are_cut_and_stay_distinct() {
    let long = "a-service-with-a-name-that-is-as-long-as-a-label-admits-63chars".to_owned();
    assert_eq!(long.len(), 63);
    let cluster = format!("{}-01", "c".repeat(80));
    let other = format!("{}-02", "c".repeat(80));
    let mut store = store(&[("dpf", &cluster, 1), ("dpf", &other, 2)]);
    let names = names(&mut store, &[("default", &long)], &[("dpf", &cluster), ("dpf", &other)]);
    assert!(names.iter().all(|name| name.len() <= 63), "{names:?}");
    assert_ne!(names[0], names[1]);
    let manifest = manifest(
        &Name::new("default", &long),
        &DPUServiceSpec::default(),
        &Name::new("dpf", &cluster),
        "https://a",
    );
    assert!(manifest["spec"]["source"]["helm"]["releaseName"].as_str().unwrap().len() <= 53);
    insta::assert_yaml_snapshot!(manifest["metadata"]);
}

fn spec() -> DPUServiceSpec {
    DPUServiceSpec {
        source: Source {
            repo_url: "oci://registry.example.com/charts".to_owned(),
            version: "1.2.3".to_owned(),
            chart: "hbn".to_owned(),
        },
        service_daemon_set: Some(ServiceDaemonSet::default()),
        ..DPUServiceSpec::default()
    }
}

#[test]
fn it_is_created_bare_and_then_applied_whole() {
    let (service, cluster) = (Name::new("default", "hbn"), Name::new("dpf", "dpu-01"));
    let name = Name::new(ARGO_NAMESPACE, "hbn-01");
    let Some(Action::Kube(KubeRequest::Create { manifest: created, .. })) =
        write(&Store::default(), &service, &spec(), &cluster, "https://a", Place::New(name.clone()))
    else {
        panic!("it is created")
    };
    assert_eq!(created["spec"]["syncPolicy"], Value::Null);
    assert_eq!(created["spec"]["source"]["helm"]["valuesObject"], Value::Null);

    let app = App::read(&created).unwrap();
    let Some(Action::Kube(KubeRequest::Apply { manifest: applied, .. })) =
        write(&Store::default(), &service, &spec(), &cluster, "https://a", Place::Existing(&name, &app))
    else {
        panic!("it is applied")
    };
    // The form that a server stores, with fields of other clients.
    let mut kept = (*applied).clone();
    kept["metadata"]["labels"]["team"] = json!("blue");
    kept["spec"]["revisionHistoryLimit"] = json!(3);
    let app = App::read(&kept).unwrap();
    assert_eq!(
        write(&Store::default(), &service, &spec(), &cluster, "https://a", Place::Existing(&name, &app)),
        None
    );

    for drift in
        ["/spec/destination/server", "/metadata/annotations/dpu.nvidia.com~1applied", "/spec/syncPolicy"]
    {
        let mut drifted = kept.clone();
        *drifted.pointer_mut(drift).unwrap() = json!("something else");
        let app = App::read(&drifted).unwrap();
        assert!(
            write(&Store::default(), &service, &spec(), &cluster, "https://a", Place::Existing(&name, &app))
                .is_some(),
            "{drift}"
        );
    }
    let mut changed = spec();
    changed.values = Some(serde_json::Map::from_iter([("a".to_owned(), json!(1))]));
    let with_more =
        write(&Store::default(), &service, &changed, &cluster, "https://a", Place::Existing(&name, &app));
    assert!(with_more.is_some());
}

#[test]
fn what_has_been_taken_out_of_the_values_is_noticed() {
    let (service, cluster) = (Name::new("default", "hbn"), Name::new("dpf", "dpu-01"));
    let name = Name::new(ARGO_NAMESPACE, "hbn-01");
    let mut more = spec();
    more.values = Some(serde_json::Map::from_iter([("a".to_owned(), json!(1))]));
    let app = App::read(&manifest(&service, &more, &cluster, "https://a")).unwrap();
    assert!(
        write(&Store::default(), &service, &spec(), &cluster, "https://a", Place::Existing(&name, &app))
            .is_some()
    );
}

#[test]
fn the_service_and_cluster_are_read_from_labels_or_annotations() {
    let (service, cluster) = (Name::new("default", "hbn"), Name::new("dpf", "dpu-01"));
    let whole = manifest(&service, &spec(), &cluster, "https://a");
    let mut without_labels = whole.clone();
    without_labels["metadata"]["labels"] = json!({});
    let mut without_annotations = whole.clone();
    without_annotations["metadata"]["annotations"] = json!({});
    for object in [&whole, &without_labels, &without_annotations] {
        let app = App::read(object).unwrap();
        assert_eq!((&app.service, &app.cluster), (&service, &cluster));
    }
    let mut relabelled = whole;
    relabelled["metadata"]["labels"][SERVICE_NAME] = json!("other");
    let app = App::read(&relabelled).unwrap();
    assert_eq!(app.service, service, "the annotation counts");
    let name = Name::new(ARGO_NAMESPACE, "hbn-01");
    assert!(
        write(&Store::default(), &service, &spec(), &cluster, "https://a", Place::Existing(&name, &app))
            .is_some()
    );
    assert!(App::read(&json!({ "metadata": { "name": "somebody-elses" } })).is_none());
}

#[test]
fn a_repeated_comparison_of_argo_cd_is_no_change() {
    let (service, cluster) = (Name::new("default", "hbn"), Name::new("dpf", "dpu-01"));
    let mut object = manifest(&service, &spec(), &cluster, "https://a");
    object["status"] = json!({ "reconciledAt": "2026-01-01T00:00:00Z", "sync": { "status": "Synced" } });
    object["metadata"]["resourceVersion"] = json!("5");
    let before = App::read(&object).unwrap();
    object["status"]["reconciledAt"] = json!("2026-01-01T00:03:00Z");
    object["metadata"]["resourceVersion"] = json!("6");
    let after = App::read(&object).unwrap();
    assert!(before.is_same(&after) && after.resource_version() == 6.into());
    object["status"]["sync"]["status"] = json!("OutOfSync");
    assert!(!before.is_same(&App::read(&object).unwrap()));
}

#[test]
fn what_argo_cd_says_of_the_values_before_is_not_current() {
    let (service, cluster) = (Name::new("default", "hbn"), Name::new("dpf", "dpu-01"));
    let mut wanted = spec();
    wanted.values =
        Some(serde_json::Map::from_iter([("a".to_owned(), json!(1)), ("b".to_owned(), json!(null))]));
    let mut object = manifest(&service, &wanted, &cluster, "https://a");
    let mut compared =
        json!({ "source": object["spec"]["source"], "destination": object["spec"]["destination"] });
    // A merge patch does not carry nulls.
    compared["source"]["helm"]["valuesObject"] = json!({ "a": 1, "serviceDaemonSet": {} });
    object["status"] = json!({ "sync": { "status": "Synced", "comparedTo": compared } });
    assert!(App::read(&object).unwrap().is_current());
    object["status"]["sync"]["comparedTo"]["source"]["helm"]["valuesObject"]["a"] = json!(0);
    assert!(!App::read(&object).unwrap().is_current());
}

#[test]
fn the_documented_service_becomes_the_documented_application() {
    let object = json!({
        "metadata": { "namespace": "default", "name": "dpu-service-name" },
        "spec": {
            "source": {
                "repoURL": "https://helm.ngc.nvidia.com/nvidia",
                "version": "v1.1.1",
                "chart": "dpu-service-name",
            },
            "values": { "arbitrary-value-one": "value" },
            "serviceID": "dpu-service-function-chain-ID",
            "serviceDaemonSet": {
                "nodeSelector": {
                    "matchLabels": { "dpu.nvidia.com/dpu-label": "dpu" },
                    "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["critical-dpus"] }],
                },
                "resources": { "requests": { "cpu": 1 }, "limits": { "cpu": 1 } },
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
                "labels": { "arbitrary-labels": "my-app-label" },
                "annotations": { "arbitrary-annotation": "my-app-annotation" },
            },
        },
    });
    let spec = Service::read(&object).spec.unwrap();
    let cluster = Name::new("default", "dpu-cluster-01");
    insta::assert_yaml_snapshot!(manifest(&Name::of(&object), &spec, &cluster, "https://1.1.1.2:6443"));
}

/// If the sync of the current source were ended, it would not be deployed: Argo CD does not retry a source after its
/// operation was terminated.
#[test]
fn only_the_sync_of_what_is_wanted_no_more_holds_a_change_up() {
    let (service, cluster) = (Name::new("default", "hbn"), Name::new("dpf", "dpu-01"));
    let mut wanted = spec();
    wanted.values =
        Some(serde_json::Map::from_iter([("a".to_owned(), json!(1)), ("b".to_owned(), json!(null))]));
    let mut object = manifest(&service, &wanted, &cluster, "https://a");
    object["metadata"]["resourceVersion"] = json!("7");
    // The form in which Argo CD writes it.
    let mut source = object["spec"]["source"].clone();
    source["helm"]["valuesObject"] = json!({ "a": 1, "serviceDaemonSet": {} });
    let compared = json!({ "source": source, "destination": object["spec"]["destination"] });
    let state = json!({ "phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "syncResult": { "source": source } });
    object["status"] =
        json!({ "sync": { "status": "OutOfSync", "comparedTo": compared }, "operationState": state });
    let is_outdated = |path: &str, value: Value| {
        let mut object = object.clone();
        object["status"]["operationState"]["syncResult"]["source"]["targetRevision"] = json!("1.2.2");
        *object.pointer_mut(path).expect("it is there") = value;
        App::read(&object).expect("it is ours").outdated().is_some()
    };
    assert!(App::read(&object).expect("it is ours").outdated().is_none(), "it is what is wanted");
    let status = "/status/operationState/syncResult/source";
    assert!(is_outdated("/metadata/resourceVersion", json!("8")));
    assert!(is_outdated(&format!("{status}/targetRevision"), json!("1.2.1")));
    for (path, value) in [
        (format!("{status}/targetRevision"), json!("1.2.3")),
        (status.to_owned(), Value::Null),
        ("/status/operationState/phase".to_owned(), json!("Terminating")),
        ("/status/sync/status".to_owned(), json!("Synced")),
        // It has not compared the change yet.
        ("/status/sync/comparedTo/source/targetRevision".to_owned(), json!("1.2.2")),
        ("/status/sync/comparedTo".to_owned(), Value::Null),
    ] {
        assert!(!is_outdated(&path, value), "{path}");
    }
    object["status"]["operationState"]["syncResult"]["source"]["helm"]["valuesObject"]["a"] = json!(2);
    let app = App::read(&object).expect("it is ours");
    assert!(app.outdated().is_some(), "other values");
    let Action::Kube(KubeRequest::Patch { patch, subresource: None, .. }) =
        termination(&Name::of(&object), &app)
    else {
        panic!("a patch")
    };
    // The next sync may have begun in the meantime.
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert_eq!(patch["status"], json!({ "operationState": { "phase": "Terminating" } }));
}

/// The stored report is trimmed, and so is the spec that it is compared with.
#[test]
fn a_long_url_is_current_once_argo_cd_has_looked() {
    let url = |end: &str| format!("https://charts.example.com/{}{end}", "a".repeat(2000));
    let (service, cluster) = (Name::new("default", "hbn"), Name::new("dpf", "dpu-01"));
    let source = Source { repo_url: url("1"), ..Source::default() };
    let spec = DPUServiceSpec { source, ..DPUServiceSpec::default() };
    let mut object = manifest(&service, &spec, &cluster, &url("2"));
    let compared =
        json!({ "source": object["spec"]["source"], "destination": object["spec"]["destination"] });
    object["status"] = json!({ "sync": { "status": "Synced", "comparedTo": compared } });
    assert!(App::read(&object).expect("it is ours").is_current());
    object["status"]["sync"]["comparedTo"]["source"]["targetRevision"] = json!("another");
    assert!(!App::read(&object).expect("it is ours").is_current());
}

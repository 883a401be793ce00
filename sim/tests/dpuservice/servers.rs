//! The servers of clusters: Argo CD identifies clusters by server, so no two clusters may have the same one.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_dpuservice::names::{ARGO_NAMESPACE, CLUSTER, PROJECT};
use lockstep_engine::action::{Action, ErrorKind, KubeRequest};
use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use lockstep_sim::cluster::{FaultModel, FaultVerdict, Transit};
use serde_json::{Value, json};

use super::bench::{Bench, DPF, TOKEN, dpu_cluster, kubeconfig, operator, server, service};
use super::user::User as _;

/// Returns each cluster that Argo CD knows, with its server.
fn registered(bench: &mut Bench) -> Vec<(String, String)> {
    let mut registered: Vec<(String, String)> = bench
        .cluster
        .list("Secret", ARGO_NAMESPACE)
        .iter()
        .map(|secret| {
            let cluster = secret["metadata"]["annotations"][CLUSTER].as_str().unwrap_or("?");
            let server =
                STANDARD.decode(secret["data"]["server"].as_str().unwrap_or("")).expect("it is base64");
            let server = String::from_utf8(server).expect("it is text");
            (cluster.rsplit('/').next().unwrap_or("?").to_owned(), server)
        })
        .collect();
    registered.sort();
    registered
}

fn expected(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(cluster, of)| ((*cluster).to_owned(), server(of))).collect()
}

/// Adds a cluster with the server of another one in its kubeconfig.
fn join_at(bench: &mut Bench, cluster: &str, of: &str) {
    bench.cluster.create(&kubeconfig(DPF, cluster, &Access::by_token(&server(of), TOKEN)));
    bench.cluster.create(&dpu_cluster(DPF, cluster));
    bench.cluster.advance(Duration::from_secs(1));
}

fn move_to(bench: &mut Bench, cluster: &str, of: &str) {
    bench.rotate(cluster, &Access::by_token(&server(of), &format!("{TOKEN}-{cluster}")));
}

fn restart(bench: &mut Bench) {
    bench.cluster.crash(bench.cluster.processes() - 1, None);
    bench.cluster.start(operator, true);
    bench.settle();
}

#[test]
fn of_two_that_come_with_one_server_the_older_gets_it() {
    let mut bench = Bench::new();
    for cluster in ["z-old-01", "a-young-02"] {
        join_at(&mut bench, cluster, "one");
    }
    bench.cluster.create(&service("hbn"));
    bench.settle();
    assert_eq!(registered(&mut bench), expected(&[("z-old-01", "one")]));
    assert_eq!(bench.in_argo("Application"), ["hbn-01"]);
    insta::assert_snapshot!("conditions_with_a_server_that_is_taken", bench.conditions("hbn"));
    restart(&mut bench);
    assert_eq!(registered(&mut bench), expected(&[("z-old-01", "one")]));

    bench.cluster.delete("DPUCluster", DPF, "z-old-01");
    bench.settle();
    assert_eq!(registered(&mut bench), expected(&[("a-young-02", "one")]));
    assert_eq!(bench.in_argo("Application"), ["hbn-02"]);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// Delays the watch events of one process by a second.
struct SlowReader(usize);

impl FaultModel for SlowReader {
    fn delay(&mut self, _: Duration, process: usize, hop: Transit<'_>) -> Duration {
        match hop {
            Transit::Answer(Action::Kube(KubeRequest::Get { .. })) if process == self.0 => {
                Duration::from_secs(1)
            }
            _ => Duration::ZERO,
        }
    }
}

/// There are two leaders for a while. The slower one sees the Secret of the other before it creates its own.
#[test]
fn two_leaders_register_a_cluster_once() {
    let mut bench = Bench::new();
    bench.join("dpu-01");
    let slow = bench.cluster.processes();
    bench.cluster.start(operator, true);
    bench.settle();
    bench.cluster.weather = Box::new(SlowReader(slow));
    bench.cluster.create(&service("hbn"));
    bench.settle();
    assert_eq!(registered(&mut bench), expected(&[("dpu-01", "dpu-01")]));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// Creates copies of Argo CD's Secret of a cluster.
fn copy_secret(bench: &mut Bench, copies: &[&str]) {
    let secrets = bench.cluster.list("Secret", ARGO_NAMESPACE);
    let original = secrets.iter().find(|secret| secret["metadata"]["name"] == "dpu-01-argocd");
    let original = original.expect("it is registered");
    for name in copies {
        let mut copy = json!({ "apiVersion": "v1", "kind": "Secret", "data": original["data"] });
        let (labels, annotations) = (&original["metadata"]["labels"], &original["metadata"]["annotations"]);
        copy["metadata"] = json!({
            "namespace": ARGO_NAMESPACE, "name": name, "labels": labels, "annotations": annotations,
        });
        bench.cluster.create(&copy);
    }
}

/// Two leaders may choose different names, and a user may restore a backup under another name. Of several Secrets Argo CD could use
/// any, also one with former credentials.
#[test]
fn of_several_secrets_of_a_cluster_the_oldest_stays() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    copy_secret(&mut bench, &["a-copy", "z-copy"]);
    bench.settle();
    assert_eq!(bench.in_argo("Secret"), ["dpu-01-argocd", "dpu-02-argocd"]);
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn while_a_cluster_names_no_kubeconfig_none_of_several_secrets_is_removed() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    let kubeconfig = bench.cluster.get("DPUCluster", DPF, "dpu-01")["spec"]["kubeconfig"].clone();
    bench.cluster.merge("DPUCluster", DPF, "dpu-01", &json!({ "spec": { "kubeconfig": null } }));
    bench.settle();
    copy_secret(&mut bench, &["a-copy"]);
    bench.settle();
    assert_eq!(bench.in_argo("Secret"), ["a-copy", "dpu-01-argocd", "dpu-02-argocd"]);
    bench.cluster.merge("DPUCluster", DPF, "dpu-01", &json!({ "spec": { "kubeconfig": kubeconfig } }));
    bench.settle();
    assert_eq!(bench.in_argo("Secret"), ["dpu-01-argocd", "dpu-02-argocd"]);
}

/// The kubeconfig of the cluster names the server of another one, so the cluster keeps the server in its oldest Secret.
#[test]
fn while_another_cluster_has_its_server_a_cluster_has_one_secret() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    for copies in [&["a-copy"], &["z-copy"]] {
        move_to(&mut bench, "dpu-01", "dpu-02");
        copy_secret(&mut bench, copies);
        bench.settle();
        assert_eq!(bench.in_argo("Secret"), ["dpu-01-argocd", "dpu-02-argocd"]);
        copy_secret(&mut bench, copies);
        bench.settle();
        assert_eq!(bench.in_argo("Secret"), ["dpu-01-argocd", "dpu-02-argocd"]);
        assert_eq!(registered(&mut bench), expected(&[("dpu-01", "dpu-01"), ("dpu-02", "dpu-02")]));
        assert_eq!(bench.condition("hbn", "ClusterSecretsReconciled").0, "False/Error");
        move_to(&mut bench, "dpu-01", "dpu-01");
        bench.settle();
        assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    }
}

#[test]
fn who_has_a_server_keeps_it() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    move_to(&mut bench, "dpu-01", "dpu-02");
    bench.settle();
    // Releases on the older cluster are not moved.
    assert_eq!(registered(&mut bench), expected(&[("dpu-01", "dpu-01"), ("dpu-02", "dpu-02")]));
    let (secrets, message) = bench.condition("hbn", "ClusterSecretsReconciled");
    assert_eq!(secrets, "False/Error", "{message}");
    assert!(
        message.contains("dpu-01 (DPUCluster dpf-operator-system/dpu-02 has the same server"),
        "{message}"
    );

    // Neither a restart nor the deletion of the Secret changes that.
    restart(&mut bench);
    assert_eq!(registered(&mut bench), expected(&[("dpu-01", "dpu-01"), ("dpu-02", "dpu-02")]));
    bench.cluster.delete("Secret", ARGO_NAMESPACE, "dpu-02-argocd");
    bench.settle();
    assert_eq!(registered(&mut bench), expected(&[("dpu-01", "dpu-01"), ("dpu-02", "dpu-02")]));

    move_to(&mut bench, "dpu-01", "dpu-01");
    bench.settle();
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

/// A third cluster may not get a server that another cluster still has while it waits for a new one.
#[test]
fn what_one_has_is_not_free_while_it_waits() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    move_to(&mut bench, "dpu-01", "dpu-02");
    bench.settle();
    join_at(&mut bench, "dpu-03", "dpu-01");
    bench.settle();
    assert_eq!(registered(&mut bench), expected(&[("dpu-01", "dpu-01"), ("dpu-02", "dpu-02")]));
    move_to(&mut bench, "dpu-02", "elsewhere");
    bench.settle();
    let all = [("dpu-01", "dpu-02"), ("dpu-02", "elsewhere"), ("dpu-03", "dpu-01")];
    assert_eq!(registered(&mut bench), expected(&all));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn clusters_may_change_places() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02", "dpu-03"]);
    // Rotates the servers of three clusters, and then moves two of them back.
    for places in [["dpu-02", "dpu-03", "dpu-01"], ["dpu-03", "dpu-02", "dpu-01"]] {
        let clusters = ["dpu-01", "dpu-02", "dpu-03"];
        for (cluster, place) in clusters.into_iter().zip(places) {
            move_to(&mut bench, cluster, place);
        }
        bench.settle();
        let all: Vec<(&str, &str)> = clusters.into_iter().zip(places).collect();
        assert_eq!(registered(&mut bench), expected(&all));
        for (number, place) in places.into_iter().enumerate() {
            let application = bench.application(&format!("hbn-{:02}", number + 1));
            assert_eq!(application["spec"]["destination"]["server"], server(place));
        }
        assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    }
}

/// All waiting clusters are enqueued at once, and one of them gets the server.
#[test]
fn of_those_that_wait_for_a_server_one_gets_it() {
    let mut bench = Bench::new();
    for cluster in ["dpu-04", "dpu-03", "dpu-02", "dpu-01"] {
        join_at(&mut bench, cluster, "one");
    }
    bench.cluster.create(&service("hbn"));
    bench.settle();
    for holder in ["dpu-04", "dpu-03", "dpu-02"] {
        assert_eq!(registered(&mut bench), expected(&[(holder, "one")]));
        let (_, message) = bench.condition("hbn", "ClusterSecretsReconciled");
        assert!(
            message.contains(&format!("DPUCluster dpf-operator-system/{holder} has the same")),
            "{message}"
        );
        assert!(!message.contains("which goes"), "{message}");
        bench.cluster.delete("DPUCluster", DPF, holder);
        bench.settle();
    }
    assert_eq!(registered(&mut bench), expected(&[("dpu-01", "one")]));
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
}

#[test]
fn who_waits_for_a_server_does_so_for_the_next_service_too() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    move_to(&mut bench, "dpu-01", "dpu-02");
    bench.settle();
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    // Argo CD has no access to the first cluster, because its kubeconfig names another server.
    assert_eq!(bench.in_argo("Application"), ["hbn-01"]);
    move_to(&mut bench, "dpu-01", "dpu-01");
    bench.settle();
    assert_eq!(registered(&mut bench), Vec::new());
    move_to(&mut bench, "dpu-01", "dpu-02");
    bench.settle();
    bench.cluster.create(&service("firefly"));
    bench.settle();
    assert_eq!(registered(&mut bench).len(), 1, "{:?}", registered(&mut bench));
    assert_eq!(bench.in_argo("Application").len(), 1);
}

/// Both move to an unused server, and the writes of both are in flight at the same time.
#[test]
fn two_that_move_to_one_server_do_not_both_get_it() {
    for lost in [0, 1, 2] {
        let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
        let mut left = lost;
        bench.cluster.interfere(move |_, action| {
            let is_secret = action.target().is_some_and(|target| target.kind.kind == "Secret");
            if is_secret && action.is_write() && left > 0 {
                left -= 1;
                return FaultVerdict::AnswerLost;
            }
            FaultVerdict::Served
        });
        for cluster in ["dpu-01", "dpu-02"] {
            move_to(&mut bench, cluster, "three");
        }
        bench.settle();
        let registered = registered(&mut bench);
        let three = registered.iter().filter(|(_, at)| *at == server("three")).count();
        assert_eq!((three, registered.len()), (1, 2), "{registered:?}");
    }
}

/// The Secret of the first can't be written, so the first keeps the server from the second. Then the first gets another one.
#[test]
fn who_waits_for_a_server_gets_it_at_once_when_the_other_cluster_moves_away() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    bench.fail_writes("dpu-01-argocd", ErrorKind::Forbidden);
    move_to(&mut bench, "dpu-01", "three");
    bench.cluster.advance(Duration::from_secs(10));
    move_to(&mut bench, "dpu-02", "three");
    bench.cluster.advance(Duration::from_secs(10));
    let at_three = |bench: &mut Bench| registered(bench).iter().any(|(_, at)| *at == server("three"));
    assert!(!at_three(&mut bench), "the first may have it: {:?}", registered(&mut bench));
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    move_to(&mut bench, "dpu-01", "four");
    bench.cluster.advance(Duration::from_mins(1));
    assert!(at_three(&mut bench), "{:?}", registered(&mut bench));
}

#[test]
fn what_is_being_removed_follows_a_cluster_that_moves() {
    let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
    let cut_off = json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-01", &cut_off);
    bench.settle();
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.in_argo("Application"), ["hbn-01"], "the cluster cannot be reached");
    // It returns with another server.
    move_to(&mut bench, "dpu-01", "elsewhere");
    bench.cluster.merge(
        "DPUCluster",
        DPF,
        "dpu-01",
        &json!({ "metadata": { "annotations": { UNREACHABLE: null } } }),
    );
    bench.cluster.advance(Duration::from_mins(2));
    assert_eq!(bench.service("hbn"), Value::Null, "{}", bench.conditions("hbn"));
    assert_eq!(bench.runs_on("dpu-01"), Vec::<String>::new());
}

/// The Secret of a cluster without Applications must not keep a server that the cluster no longer has.
#[test]
fn what_is_being_removed_gets_a_server_that_another_cluster_has_left() {
    for is_deleted in [false, true] {
        let mut bench = Bench::serving(&["dpu-01", "dpu-02"]);
        let reachable =
            |unreachable: Value| json!({ "metadata": { "annotations": { UNREACHABLE: unreachable } } });
        bench.cluster.merge("DPUCluster", DPF, "dpu-01", &reachable(json!("true")));
        bench.settle();
        bench.cluster.delete("DPUService", "default", "hbn");
        bench.cluster.advance(Duration::from_mins(1));
        assert_eq!(bench.in_argo("Application"), ["hbn-01"], "the cluster cannot be reached");
        if is_deleted {
            bench.cluster.delete("DPUCluster", DPF, "dpu-02");
        } else {
            move_to(&mut bench, "dpu-02", "elsewhere");
        }
        move_to(&mut bench, "dpu-01", "dpu-02");
        bench.cluster.merge("DPUCluster", DPF, "dpu-01", &reachable(Value::Null));
        bench.cluster.advance(Duration::from_mins(5));
        assert_eq!(bench.service("hbn"), Value::Null, "{is_deleted}: {}", bench.conditions("hbn"));
        assert_eq!(registered(&mut bench), expected(&[]), "{is_deleted}");
    }
}

#[test]
fn a_server_may_have_an_address_of_ipv6() {
    let mut bench = Bench::new();
    bench.cluster.create(&kubeconfig(DPF, "dpu-01", &Access::by_token("https://[fd00::1]:6443", TOKEN)));
    bench.cluster.create(&dpu_cluster(DPF, "dpu-01"));
    bench.cluster.create(&service("hbn"));
    bench.settle();
    assert_eq!(bench.ready("hbn"), "True/Success", "{}", bench.conditions("hbn"));
    let project = bench.cluster.get("AppProject", ARGO_NAMESPACE, PROJECT);
    assert_eq!(project["spec"]["destinations"][0]["server"], "https://\\[fd00::1\\]:6443");
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    assert_eq!(bench.runs_on("dpu-01"), Vec::<String>::new());
    assert_eq!(bench.in_argo("AppProject"), Vec::<String>::new());
}

#[test]
fn a_permission_that_is_taken_away_comes_back_for_the_removal() {
    let mut bench = Bench::serving(&["dpu-01"]);
    let cut_off = |value: Value| json!({ "metadata": { "annotations": { UNREACHABLE: value } } });
    bench.cluster.merge("DPUCluster", DPF, "dpu-01", &cut_off(json!("true")));
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    let nothing = json!({ "spec": { "destinations": [] } });
    bench.cluster.merge("AppProject", ARGO_NAMESPACE, PROJECT, &nothing);
    bench.settle();
    let project = bench.cluster.get("AppProject", ARGO_NAMESPACE, PROJECT);
    assert_eq!(project["spec"]["destinations"][0]["server"], server("dpu-01"));
    bench.cluster.merge("DPUCluster", DPF, "dpu-01", &cut_off(Value::Null));
    bench.settle();
    assert_eq!(bench.runs_on("dpu-01"), Vec::<String>::new());
    assert_eq!(bench.service("hbn"), Value::Null);
}

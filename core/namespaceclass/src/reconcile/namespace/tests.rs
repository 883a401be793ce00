use lockstep_engine::action::{Action, KubeRequest};

use super::*;
use crate::tests::TestCluster;

/// Returns how many Events say that a class is missing.
fn reports(cluster: &TestCluster) -> usize {
    let is_report = |action: &&Action| matches!(action, Action::Kube(KubeRequest::Create { manifest, .. }) if manifest["reason"] == reason::CLASS_NOT_FOUND);
    cluster.asked.iter().filter(is_report).count()
}

fn is_read_of_class(action: &Action) -> bool {
    matches!(action, Action::Kube(KubeRequest::Get { target, .. }) if target.kind == names::class())
}

/// A class and its namespace are created together, and the watch of classes is behind.
#[test]
fn a_class_that_exists_is_not_missing() {
    let mut cluster = TestCluster::new();
    let class = cluster.class("web", json!({ "resources": [] }));
    let namespace = cluster.label("team", Some("web"));
    cluster.deliver(vec![namespace]);
    assert_eq!(reports(&cluster), 0);
    cluster.deliver(vec![class]);
    assert_eq!(cluster.get(&names::binding(), "team").expect("a binding")["spec"]["className"], "web");
    assert_eq!(reports(&cluster), 0);
}

#[test]
fn a_missing_class_is_reported_once_it_was_looked_for() {
    let mut cluster = TestCluster::new();
    cluster.withheld = is_read_of_class;
    let namespace = cluster.label("team", Some("web"));
    cluster.deliver(vec![namespace]);
    assert_eq!(reports(&cluster), 0);
    cluster.answer_withheld();
    assert_eq!(reports(&cluster), 1);
    let reads =
        |cluster: &TestCluster| cluster.asked.iter().filter(|action| is_read_of_class(action)).count();
    let before = reads(&cluster);
    cluster.list(&names::namespace());
    assert_eq!(reads(&cluster), before, "what is reported is not read again");
}

#[test]
fn a_class_that_was_created_during_the_read_is_not_missing() {
    let mut cluster = TestCluster::new();
    cluster.withheld = is_read_of_class;
    let namespace = cluster.label("team", Some("web"));
    cluster.deliver(vec![namespace]);
    let class = cluster.class("web", json!({ "resources": [] }));
    let object = cluster.remove(&names::class(), "web");
    cluster.deliver(vec![class]);
    cluster.answer_withheld();
    assert!(object.is_some() && reports(&cluster) == 0);
}

#[test]
fn another_label_during_the_read_is_not_reported_as_the_first() {
    let mut cluster = TestCluster::new();
    cluster.withheld = is_read_of_class;
    let first = cluster.label("team", Some("web"));
    cluster.deliver(vec![first]);
    let second = cluster.label("team", None);
    cluster.deliver(vec![second]);
    cluster.answer_withheld();
    assert_eq!(reports(&cluster), 0);
}

/// The class of a bound namespace is deleted: the read before the removal of the binding says so.
#[test]
fn a_class_that_was_deleted_is_reported_with_the_removal() {
    let mut cluster = TestCluster::new();
    let class = cluster.class("web", json!({ "resources": [] }));
    let namespace = cluster.label("team", Some("web"));
    cluster.deliver(vec![class, namespace]);
    let deleted = cluster.remove(&names::class(), "web").expect("a class");
    cluster.deliver(vec![deleted]);
    assert_eq!(cluster.get(&names::binding(), "team"), None);
    assert_eq!(reports(&cluster), 1);
}

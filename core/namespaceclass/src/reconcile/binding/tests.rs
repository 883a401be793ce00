use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::machine::Event;
use serde_json::json;

use super::*;
use crate::tests::TestCluster;

fn kind(group: &str, kind: &str) -> Arc<Kind> {
    Kind::known(group, "v1", kind, &format!("{}s", kind.to_lowercase()), true)
}

/// A namespace has left a class with two resources. While the kind of one is discovered, the API version of the other is forgotten,
/// because another kind of it is gone.
#[test]
fn a_resource_is_not_forgotten_with_another_kind_of_its_api_version() {
    let (used, removed, other) = (kind("a", "Used"), kind("a", "Removed"), kind("b", "Other"));
    let is_discovery = |action: &Action| matches!(action, Action::Kube(KubeRequest::Discover { .. }));
    let mut cluster = TestCluster::new();
    cluster.served = vec![Arc::clone(&used), Arc::clone(&other)];
    let resource = json!({ "apiVersion": "a/v1", "kind": "Used", "metadata": { "name": "first" } });
    let events = [
        cluster.class("first", json!({ "resources": [resource] })),
        cluster.class("web", json!({ "resources": [] })),
        cluster.label("team", Some("web")),
    ];
    cluster.deliver(events.into());
    let mut binding = cluster.get(&names::binding(), "team").expect("a binding");
    binding["status"]["appliedResources"] = json!([
        { "apiVersion": "a/v1", "kind": "Used", "name": "x" },
        { "apiVersion": "b/v1", "kind": "Other", "name": "y" },
    ]);
    cluster.withheld = is_discovery;
    let object = Arc::new(cluster.put(&names::binding(), "team", binding));
    let failure = Failure::new(ErrorKind::KindNotServed, "gone");
    let edited = cluster.class("web", json!({ "resources": [] }));
    cluster.deliver(vec![Event::Applied { kind: names::binding(), object }, edited]);
    cluster.deliver(vec![Event::WatchFailed { kind: removed, failure }]);
    cluster.answer_withheld();
    for kind in [used, other] {
        let is_read = |action: &Action| matches!(action, Action::Kube(KubeRequest::Get { target, .. }) if target.kind == kind);
        assert!(cluster.asked.iter().any(is_read), "{} is looked for", kind.kind);
    }
}

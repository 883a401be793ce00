//! Tests of the guarantees that a cluster gives its machines (`lockstep_engine::machine`).

use std::sync::Arc;

use bytes::Bytes;
use lockstep_engine::action::{Action, ActionId, Request, Scope, WatchCommand};
use lockstep_engine::machine::{Deadline, Event, Machine, Step};
use lockstep_engine::object::Kind;
use lockstep_engine::time::Now;
use lockstep_sim::cluster::{Cluster, What};

/// Starts and stops a watch in its first step, in either order.
struct Asking {
    watched_at_last: bool,
}

impl Machine for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn step(&mut self, event: Event, _: Now) -> Step {
        if event != Event::Started {
            return Step::default();
        }
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let scope = Scope { selector: String::new(), metadata_only: true, ..Scope::default() };
        let watch = Action::Watch(WatchCommand::Start { kind: Arc::clone(&kind), scope });
        let mut actions = [watch, Action::Watch(WatchCommand::Stop { kind })];
        if self.watched_at_last {
            actions.reverse();
        }
        let numbered = (1..).zip(actions).map(|(id, action)| Request { id: ActionId(id), action });
        Step { requests: numbered.collect(), notes: Vec::new() }
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }

    fn is_synced(&self) -> bool {
        true
    }
}

#[test]
fn what_one_step_asks_about_a_watch_is_done_in_its_order() {
    for watched_at_last in [true, false] {
        let mut cluster = Cluster::new(1);
        cluster.start(move || Box::new(Asking { watched_at_last }) as Box<dyn Machine>, true);
        cluster.settle(1000).expect("becomes idle");
        let object = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(Bytes::from(object))
            .expect("a request");
        assert_eq!(cluster.request(&request).status(), 201);
        cluster.settle(1000).expect("becomes idle");
        let observed = cluster
            .journal
            .iter()
            .filter(|entry| matches!(entry.what, What::Stepped { event: Event::Applied { .. }, .. }));
        let observed = observed.count();
        assert_eq!(observed, usize::from(watched_at_last));
    }
}

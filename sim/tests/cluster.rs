//! Tests of the guarantees that a cluster gives its machines (`lockstep_engine::machine`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockstep_engine::action::{Action, ActionId, Request, Scope, WatchCommand};
use lockstep_engine::machine::{Deadline, Event, Machine, Step};
use lockstep_engine::object::Kind;
use lockstep_engine::time::Now;
use lockstep_sim::cluster::{Cluster, FaultModel, Transit, What};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Sends a request with a body, and returns the code of the answer.
fn send<W: FaultModel>(cluster: &mut Cluster<W>, method: &str, path: &str, body: &Value) -> u16 {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Bytes::from(body.to_string())).expect("a request");
    cluster.request(&request).status().as_u16()
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

/// Requests these in its first step.
struct Asking(Vec<WatchCommand>);

impl Machine for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn step(&mut self, event: Event, _: Now) -> Step {
        if event != Event::Started {
            return Step::default();
        }
        let actions = self.0.iter().cloned().map(Action::Watch);
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
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let scope = Scope { selector: String::new(), metadata_only: true, ..Scope::default() };
        let watch = WatchCommand::Start { kind: Arc::clone(&kind), scope };
        let mut commands = vec![watch, WatchCommand::Stop { kind }];
        if watched_at_last {
            commands.reverse();
        }
        cluster.start(move || Box::new(Asking(commands.clone())) as Box<dyn Machine>, true);
        cluster.settle(1000).expect("becomes idle");
        assert_eq!(send(&mut cluster, "POST", CONFIG_MAPS, &config_map("a")), 201);
        cluster.settle(1000).expect("becomes idle");
        let observed = cluster
            .journal
            .iter()
            .filter(|entry| matches!(entry.what, What::Stepped { event: Event::Applied { .. }, .. }));
        let observed = observed.count();
        assert_eq!(observed, usize::from(watched_at_last));
    }
}

/// Events of watches are late for a few seconds.
struct Late;

const LATE: Duration = Duration::from_secs(10);

impl FaultModel for Late {
    fn delay(&mut self, at: Duration, _: usize, hop: Transit<'_>) -> Duration {
        let is_late = matches!(hop, Transit::Watch(_)) && at >= LATE && at < 2 * LATE;
        if is_late { 10 * LATE } else { Duration::ZERO }
    }
}

#[test]
fn a_watch_that_ends_while_events_are_late_is_listed_once_in_each_retry() {
    let mut cluster = Cluster::with_weather(1, Late);
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [version],
        },
    });
    assert_eq!(send(&mut cluster, "POST", CRDS, &crd), 201);
    let kind = Kind::known("example.com", "v1", "Widget", "widgets", true);
    let watch = WatchCommand::Start { kind, scope: Scope::default() };
    cluster.start(move || Box::new(Asking(vec![watch.clone()])) as Box<dyn Machine>, true);
    cluster.advance(LATE);
    assert_eq!(send(&mut cluster, "DELETE", &format!("{CRDS}/widgets.example.com"), &json!({})), 200);
    for number in 0..5 {
        cluster.advance(Duration::from_secs(1));
        assert_eq!(send(&mut cluster, "POST", CONFIG_MAPS, &config_map(&format!("a{number}"))), 201);
    }
    let time = 30 * LATE;
    cluster.advance(time);
    let failed = cluster
        .journal
        .iter()
        .filter(|entry| matches!(entry.what, What::Stepped { event: Event::WatchFailed { .. }, .. }));
    let failed = u64::try_from(failed.count()).expect("a number");
    assert!(failed > 100, "{failed} lists failed");
    assert!(failed <= time.as_secs(), "{failed} lists failed: one a second is retried");
}

#[test]
fn a_process_that_is_stopped_for_good_does_not_restart() {
    let mut cluster = Cluster::new(1);
    let process = cluster.start(|| Box::new(Asking(Vec::new())) as Box<dyn Machine>, true);
    cluster.crash(process, Some(Duration::from_secs(10)));
    cluster.advance(Duration::from_secs(5));
    cluster.crash(process, None);
    cluster.advance(Duration::from_mins(1));
    let starts = cluster.journal.iter().filter(|entry| matches!(entry.what, What::Started { .. }));
    assert_eq!(starts.count(), 1);
}

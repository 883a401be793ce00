//! Watches that can't list at first, with the same final state of every flow, watches that can list but not watch, and a lost
//! permission.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::object::Kind;
use lockstep_namespaceclass::names;
use lockstep_sim::cluster::FaultModel;

use super::bench::{Bench, settings};
use super::flows::{End, FLOWS, prepared};
use crate::bystanders::Objects;
use crate::refusal::{CLASSES, Refusal};

/// The operator crashes after the user operation, so all its watches start again.
#[test]
fn refused_in_any_way_at_any_list_every_flow_ends_the_same() {
    let mut runs = 0;
    for flow in &FLOWS {
        let end = End::of(flow);
        for class in CLASSES {
            for number in 1.. {
                let mut bench = prepared(flow);
                (flow.act)(&mut bench);
                let objects = Objects::of(&bench.cluster.server);
                let (refusal, lists) = Refusal::new(number, class);
                bench.cluster.weather = Box::new(refusal);
                bench.cluster.crash(0, Some(Duration::ZERO));
                bench.settle();
                end.is_reached(&mut bench, &objects, &format!("{}: {class} at list {number}", flow.name));
                if lists.get() < number {
                    break;
                }
                runs += 1;
            }
        }
    }
    println!("{runs} runs with a watch that is refused");
    assert!(runs > 200);
}

/// Config maps can be listed, but not watched.
struct Unwatchable {
    class: ErrorKind,
    is_over: Rc<Cell<bool>>,
}

impl FaultModel for Unwatchable {
    fn refuses_watch(&mut self, _: Duration, _: usize, kind: &Kind) -> Option<Failure> {
        (kind.kind == "ConfigMap" && !self.is_over.get()).then(|| Failure::new(self.class, "injected"))
    }
}

/// Caused by a role without the verb (403), or by a server without such a watch (405).
#[test]
fn an_unwatchable_kind_is_reported_once_and_until_it_can_be_watched() {
    for (class, expected) in
        [(ErrorKind::Forbidden, "False Forbidden"), (ErrorKind::Invalid, "False Rejected")]
    {
        let is_over = Rc::<Cell<bool>>::default();
        let mut bench = Bench::new();
        bench.cluster.weather = Box::new(Unwatchable { class, is_over: Rc::clone(&is_over) });
        bench.define("web", &[settings("a", "1")]);
        bench.namespace("team", Some("web"));
        bench.cluster.advance(Duration::from_mins(1));
        assert!(bench.ready("team").starts_with(expected), "{class}: {}", bench.ready("team"));
        assert!(bench.transitions().lines().count() < 6, "{class}: {}", bench.transitions());

        bench.cluster.journal.clear();
        bench.cluster.advance(Duration::from_mins(30));
        assert_eq!(bench.carried().count(), 0, "{class}");

        is_over.set(true);
        bench.settle();
        assert!(bench.ready("team").starts_with("True ResourcesApplied"), "{class}: {}", bench.ready("team"));
        bench.delete("/api/v1/namespaces/team/configmaps/a");
        bench.settle();
        assert!(bench.config_map("team", "a").is_some(), "{class}: what it watches, it repairs");
    }
}

/// Returns the condition changes since the journal was cleared, in order of their objects.
fn sorted(bench: &Bench) -> Vec<String> {
    let mut lines: Vec<String> = bench.transitions().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// There are few classes, and a binding in every namespace, so only the classes report it.
#[test]
fn a_kind_of_ours_that_may_not_be_watched_any_more_is_reported_once_on_the_classes() {
    for kind in [names::namespace(), names::class(), names::binding()] {
        let mut bench = Bench::new();
        for class in ["db", "web"] {
            bench.define(class, &[settings("a", "1")]);
        }
        bench.namespace("team", Some("web"));
        bench.settle();
        let ready = bench.ready("team");

        // Two refusals may come from a server that is restarting.
        bench.cluster.journal.clear();
        bench.cluster.permit_watches(&kind, false);
        bench.cluster.advance(Duration::from_millis(1500));
        bench.cluster.permit_watches(&kind, true);
        bench.settle();
        assert_eq!(bench.transitions(), "", "{kind}");

        bench.cluster.permit_watches(&kind, false);
        bench.cluster.advance(Duration::from_mins(1));
        let lines =
            |change: &str| ["db", "web"].map(|class| format!("{} {class}: Valid={change}", names::class()));
        let why = format!(
            "{} can't be watched ({kind} can't be listed), so changes are not noticed; grant the operator list and \
             watch, or restore the CRD",
            kind.plural
        );
        assert_eq!(sorted(&bench), lines(&format!("Unknown WatchFailed: {why}")), "{kind}");
        let events = bench.get("/apis/events.k8s.io/v1/events").expect("can be listed");
        let events = events["items"].as_array().into_iter().flatten();
        let of_watch = events.filter(|event| event["reason"] == "WatchFailed" && event["type"] == "Warning");
        assert_eq!(of_watch.count(), 2, "{kind}");
        assert_eq!(bench.ready("team"), ready, "{kind}");

        bench.cluster.journal.clear();
        bench.cluster.advance(Duration::from_mins(30));
        assert_eq!(bench.carried().count(), 0, "{kind}");
        bench.update("web", &[settings("a", "2")]);
        bench.cluster.permit_watches(&kind, true);
        bench.settle();
        assert_eq!(sorted(&bench), lines("True AllResourcesValid: 1 resource can be applied"), "{kind}");
        let value = &bench.config_map("team", "a").expect("exists")["data"]["value"];
        assert_eq!(value, "2", "{kind}: changes are noticed again");
    }
}

//! Watches that can't list at first, with the same final state of every flow, and watches that can list but not watch.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lockstep_engine::action::{Class, Failure};
use lockstep_engine::object::Kind;
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
    class: Class,
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
    for (class, expected) in [(Class::Forbidden, "False Forbidden"), (Class::Invalid, "False Rejected")] {
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

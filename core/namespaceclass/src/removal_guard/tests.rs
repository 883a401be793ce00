use std::sync::Arc;

use lockstep_engine::machine::Event;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::departures::Departure;
use super::super::names;
use super::*;
use crate::tests::TestCluster;

/// Returns the spec of a class that holds removals for a minute.
fn guarded(excluded: &[&str]) -> Value {
    json!({
        "resources": [],
        "removalGuard": { "maxPercent": 50, "windowMinutes": 1 },
        "excludedNamespaces": excluded,
    })
}

/// Returns the guarded classes `web` and `db`, and namespaces with the class `web`.
fn cluster_of_web(namespaces: &[&str]) -> TestCluster {
    let mut cluster = TestCluster::new();
    let classes = ["web", "db"].map(|class| cluster.class(class, guarded(&[])));
    cluster.deliver(classes.to_vec());
    for namespace in namespaces {
        let labelled = cluster.label(namespace, Some("web"));
        cluster.deliver(vec![labelled]);
    }
    cluster
}

/// A namespace loses its class, gets another one, and loses that much later. Each removal has its own window.
#[test]
fn a_removal_after_a_new_binding_is_held_for_a_whole_window() {
    let mut cluster = cluster_of_web(&["n0", "n1", "n2"]);
    for (minutes, class, is_bound) in
        [(0, None, true), (0, Some("db"), true), (10, None, true), (11, None, false)]
    {
        cluster.minutes = minutes;
        let labelled = cluster.label("n0", class);
        cluster.deliver(vec![labelled, Event::TimerFired]);
        let binding = cluster.get(&names::binding(), "n0");
        assert_eq!(binding.is_some(), is_bound, "after {minutes} minutes with {class:?}");
    }
}

#[test]
fn the_window_of_a_removal_ends_with_the_binding_and_with_the_namespace() {
    let kinds = [names::binding(), names::namespace()];
    for (kind, is_listed) in kinds.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut cluster = cluster_of_web(&["n0", "n1", "n2"]);
        let unlabelled = cluster.label("n0", None);
        cluster.deliver(vec![unlabelled]);
        assert_eq!(cluster.store().leaving.len(), 1);
        let deleted = cluster.remove(kind, "n0");
        if is_listed {
            cluster.list(kind);
        } else {
            cluster.deliver(deleted.into_iter().collect());
        }
        assert!(cluster.store().leaving.is_empty(), "{}, listed: {is_listed}", kind.kind);
    }
}

/// Returns how many namespaces control a binding to a class that is not being deleted, and how many of them the class leaves, by
/// looking at each of them.
fn counted(store: &Store, class: &str) -> (usize, usize) {
    let bound = store.bindings.keys_by(&BindingIndex::Class(class.to_owned()));
    let governed = bound.filter(|namespace| {
        let (binding, home) = (store.bindings.get(namespace), store.namespaces.get(namespace));
        binding.is_some_and(|it| {
            !it.deleting && home.is_some_and(|home| it.controller.as_ref() == Some(&home.uid))
        })
    });
    let governed: Vec<&String> = governed.collect();
    let excludes =
        |namespace: &str| store.classes.get(&class.to_owned()).is_some_and(|it| it.excludes(namespace));
    let is_leaving = |namespace: &&&String| {
        let home = store.namespaces.get(namespace).filter(|home| !home.terminating);
        home.is_some_and(|home| home.class.as_deref() != Some(class) || excludes(namespace))
    };
    (governed.len(), governed.iter().filter(is_leaving).count())
}

proptest! {
    /// Whatever users do, and however late the operator sees it, its count is that of the namespaces that it knows.
    #[test]
    fn the_count_of_departures_is_right_after_each_change(
        changes in proptest::collection::vec((0..10u8, 0..4usize, 0..3usize, proptest::bool::weighted(0.8)), 1..40)
    ) {
        let mut cluster = TestCluster::new();
        for (change, which, how, is_seen) in changes {
            let (namespace, class) = (["n0", "n1", "n2", "n3"][which], ["web", "db"][which % 2]);
            let event = match change {
                0 | 1 => Some(cluster.label(namespace, [None, Some("web"), Some("db")][how])),
                2 => cluster.remove(&names::namespace(), namespace),
                3 => cluster.get(&names::namespace(), namespace).map(|mut object| {
                    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    let object = Arc::new(cluster.put(&names::namespace(), namespace, object));
                    Event::Applied { kind: names::namespace(), object }
                }),
                4 => Some(cluster.class(class, guarded([&[][..], &["n0"], &["n*"]][how]))),
                5 => cluster.remove(&names::class(), class),
                6 => cluster.remove(&names::binding(), namespace),
                7 | 8 => cluster.get(&names::binding(), namespace).map(|mut object| {
                    if change == 7 {
                        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    } else {
                        object["metadata"]["ownerReferences"] = json!([]);
                    }
                    let object = Arc::new(cluster.put(&names::binding(), namespace, object));
                    Event::Applied { kind: names::binding(), object }
                }),
                _ => {
                    cluster.minutes += 10;
                    let kind = [names::namespace(), names::class(), names::binding()][how].clone();
                    cluster.list(&kind);
                    Some(Event::TimerFired)
                }
            };
            cluster.deliver(event.into_iter().filter(|_| is_seen).collect());
            let store = cluster.store();
            for class in ["web", "db"].into_iter().filter(|it| store.classes.get(&(*it).to_owned()).is_some()) {
                let actual = (store.governed(class), store.departures.count(class, Departure::Leaving));
                prop_assert_eq!(actual, counted(&store, class), "{}", class);
            }
        }
    }
}

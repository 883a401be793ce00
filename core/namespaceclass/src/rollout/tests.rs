use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest, Success};
use lockstep_engine::machine::Event;
use lockstep_engine::operator::Control as _;
use lockstep_engine::scheduler::Reconcile as _;
use serde_json::{Value, json};

use super::*;
use crate::names;
use crate::reconcile::{Stage, namespace};
use crate::tests::{TestCluster, at};

/// A namespace with the generation of the class that it has, and whether it is ready.
type Bound<'a> = (&'a str, &'a str, i64, bool);

/// Returns a class `web` of generation 2 with this rollout, and the bindings of namespaces.
fn store(rollout: &Value, condition: &Value, bound: &[Bound<'_>]) -> (Store, Class) {
    let mut store = Store::default();
    let object = json!({
        "metadata": { "name": "web", "uid": "web", "generation": 2, "resourceVersion": "1" },
        "spec": { "rollout": rollout },
        "status": { "conditions": condition },
    });
    store.classes.observe("web".to_owned(), Class::read(&Arc::new(object.clone())));
    for (name, class, generation, is_ready) in bound {
        let ready = json!({
            "type": "Ready", "status": if *is_ready { "True" } else { "False" }, "reason": "a", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({
            "observedClassName": class, "observedClassUid": class, "observedClassGeneration": generation, "conditions": [ready],
        });
        let mut binding = json!({ "metadata": { "name": name, "namespace": name, "resourceVersion": "1" }, "spec": { "className": class }, "status": status });
        if name.starts_with("leaving") {
            binding["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        store.bindings.observe((*name).to_owned(), Binding::read(&binding));
    }
    (store, Class::read(&Arc::new(object)))
}

#[test]
fn only_canaries_with_the_class_are_waited_for() {
    let canaries = |canaries: &[&str], bound: &[Bound<'_>]| {
        let (store, class) = store(&json!({ "canaries": canaries }), &json!([]), bound);
        let (canaries_only, unproven) = store.unproven("web", &class);
        (canaries_only, unproven.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let none = Vec::<String>::new();
    assert_eq!(canaries(&[], &[("a", "web", 1, true)]), (false, none.clone()));
    assert_eq!(canaries(&["a", "b"], &[("a", "web", 2, true), ("b", "web", 2, true)]), (false, none.clone()));
    assert_eq!(
        canaries(&["a", "b"], &[("a", "web", 2, true), ("b", "web", 1, true)]),
        (true, vec!["b".to_owned()])
    );
    assert_eq!(canaries(&["a"], &[("a", "web", 2, false)]), (true, vec!["a".to_owned()]));
    assert_eq!(
        canaries(&["a", "b"], &[("a", "web", 2, true), ("b", "other", 1, true)]),
        (false, none.clone())
    );
    assert_eq!(
        canaries(&["a", "leaving"], &[("a", "web", 2, true), ("leaving", "web", 1, true)]),
        (false, none.clone())
    );
    assert_eq!(canaries(&["gone", "leaving"], &[("leaving", "web", 2, true)]), (true, none));
}

#[test]
fn places_are_free_for_as_many_as_are_neither_unready_nor_admitted() {
    let bound =
        [("a", "web", 1, true), ("b", "web", 1, false), ("c", "web", 1, true), ("d", "other", 1, false)];
    let (mut store, _) = store(&json!({ "maxUnavailable": 3 }), &json!([]), &bound);
    assert_eq!((store.free_places("web"), store.free_places("other")), (Some(2), None));
    for (namespace, class, free) in
        [("b", "web", 2), ("d", "other", 2), ("e", "other", 2), ("a", "web", 1), ("c", "web", 0)]
    {
        store.admitted.insert(namespace.to_owned(), class.to_owned());
        assert_eq!(store.free_places("web"), Some(free), "{namespace} of {class} is admitted");
    }
}

#[test]
fn a_halt_is_reported_again_only_while_it_exists() {
    let halted = |generation: i64, reason: &str| {
        json!([{
            "type": ROLLED_OUT, "status": "False", "reason": reason, "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    };
    let was_halted = |condition: Value, rollout: Value, bound: &[Bound<'_>]| {
        let (store, class) = store(&rollout, &condition, bound);
        store.was_halted("web", &class)
    };
    let limit = || json!({ "maxUnavailable": 1 });
    let (waiting, unready) = (("a", "web", 1, true), ("b", "web", 2, false));
    assert!(was_halted(halted(2, reason::HALTED), limit(), &[waiting, unready]));
    assert!(!was_halted(json!([]), limit(), &[waiting, unready]), "it was not reported");
    assert!(
        !was_halted(halted(1, reason::HALTED), limit(), &[waiting, unready]),
        "it is about an earlier generation"
    );
    assert!(!was_halted(halted(2, reason::ROLLING_OUT), limit(), &[waiting, unready]));
    assert!(
        !was_halted(halted(2, reason::HALTED), limit(), &[("a", "web", 2, true), unready]),
        "no namespace waits"
    );
    assert!(
        !was_halted(halted(2, reason::HALTED), limit(), &[waiting, ("b", "web", 2, true)]),
        "a place is free"
    );
    let canaries = |name: &str| json!({ "maxUnavailable": 2, "canaries": [name] });
    assert!(
        was_halted(halted(2, reason::HALTED), canaries("b"), &[waiting, unready]),
        "a canary is not ready"
    );
    assert!(!was_halted(halted(2, reason::HALTED), canaries("a"), &[waiting]), "a canary can be changed");
}

#[test]
fn a_place_goes_only_to_a_namespace_with_the_class() {
    let bound = [("b", "other", 1, true), ("c", "web", 1, true)];
    let (mut store, class) = store(&json!({ "maxUnavailable": 1 }), &json!([]), &bound);
    store.waiting.insert("web".to_owned(), ["a", "b", "c"].map(str::to_owned).into());
    assert_eq!(store.next("web", &class), ["c"]);
}

/// Returns a controller with the classes and bindings of this store.
fn controller(store: Store) -> Controller {
    let mut controller = TestCluster::new().controller();
    controller.store.bindings = store.bindings;
    controller.store.bindings.complete_list();
    controller.store.classes = store.classes;
    controller.store.classes.complete_list();
    controller
}

/// A namespace that waits for its turn loses its class, or gets another one.
#[test]
fn a_namespace_that_leaves_a_class_gives_its_turn_to_the_next() {
    let object = |class: &str| {
        let metadata = json!({ "name": "b", "namespace": "b", "resourceVersion": "2", "generation": 2 });
        Arc::new(json!({ "metadata": metadata, "spec": { "className": class } }))
    };
    let resume = |controller: &mut Controller, stage: namespace::Stage, success: Success| {
        let key = Key::Namespace("b".to_owned());
        controller.resume(&key, Stage::Namespace(stage), vec![Ok(success)], at(Duration::ZERO));
    };
    for change in ["its binding is removed", "its binding is written", "a watch event", "a deletion"] {
        let bound = [("b", "web", 1, true), ("c", "web", 1, true)];
        let (store, _) = store(&json!({ "maxUnavailable": 1 }), &json!([]), &bound);
        let mut controller = controller(store);
        controller.store.waiting.insert("web".to_owned(), ["b", "c"].map(str::to_owned).into());
        let version = controller.store.bindings.get(&"b".to_owned()).expect("it is bound").version;
        match change {
            "its binding is removed" => {
                resume(&mut controller, namespace::Stage::Unbinding { version }, Success::Done);
            }
            "its binding is written" => {
                resume(&mut controller, namespace::Stage::Binding, Success::Object(object("other")));
            }
            "a watch event" => controller.observed(&names::binding(), &object("other")),
            _ => controller.vanished(&names::binding(), &object("web")),
        }
        assert!(controller.outbox.woken.contains(&Key::Binding("c".to_owned())), "{change}");
        assert_eq!(controller.store.waiting["web"], ["c".to_owned()].into(), "{change}");
    }
}

/// A pass begins again because the class that its namespace got in the meantime is paused.
#[test]
fn a_place_in_the_class_that_a_namespace_has_left_is_free_as_soon_as_its_pass_begins_again() {
    let bound = [("b", "other", 1, true), ("c", "web", 1, true)];
    let (store, _) = store(&json!({ "maxUnavailable": 1 }), &json!([]), &bound);
    let mut controller = controller(store);
    controller.store.admitted.insert("b".to_owned(), "web".to_owned());
    controller.store.waiting.insert("web".to_owned(), ["c".to_owned()].into());
    controller.begin(&Key::Binding("b".to_owned()), at(Duration::ZERO));
    assert!(controller.outbox.woken.contains(&Key::Binding("c".to_owned())));
}

/// The label of a namespace that waits is removed, and the answer to the removal arrives before its watch event.
#[test]
fn a_rollout_continues_though_a_waiting_namespace_has_lost_its_label() {
    let mut cluster = TestCluster::new();
    let spec = json!({ "resources": [], "rollout": { "maxUnavailable": 1 } });
    let mut events = vec![cluster.class("web", spec.clone())];
    events.extend(["a", "b", "c", "d"].map(|namespace| cluster.label(namespace, Some("web"))));
    cluster.deliver(events);
    cluster.withheld = |action| {
        let target = action.target().filter(|target| target.kind == names::binding() && target.name == "a");
        target.is_some() && matches!(action, Action::Kube(KubeRequest::Patch { .. }))
    };
    let edited = cluster.class("web", spec);
    cluster.deliver(vec![edited]);
    assert_eq!(cluster.store().waiting["web"], ["b", "c", "d"].map(str::to_owned).into());

    let mut binding = cluster.get(&names::binding(), "b").expect("it is bound");
    let unlabelled = cluster.label("b", None);
    cluster.deliver(vec![unlabelled]);
    assert!(cluster.get(&names::binding(), "b").is_none());
    binding["metadata"]["resourceVersion"] = json!("1000");
    cluster.deliver(vec![Event::Deleted { kind: names::binding(), object: Arc::new(binding) }]);
    cluster.answer_withheld();
    for namespace in ["a", "c", "d"] {
        let binding = cluster.get(&names::binding(), namespace).expect("it is bound");
        assert_eq!(binding["status"]["observedClassGeneration"], 2, "{namespace}");
    }
}

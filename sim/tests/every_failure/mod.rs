//! Each request of what users bring about fails once, in every way there is, or takes the process down: the world comes to the same
//! end, with the same objects of ours, and what is somebody else's is not even rewritten.
//!
//! To begin and to end a watch is no request to the server and has no answer that could be a failure: what can fail is a list
//! of the watch, which it tries again, and that is a test of its own.

use std::time::Duration;

use lockstep_core::engine::action::{Action, Class};
use lockstep_sim::cluster::{Cluster, FaultVerdict};
use serde_json::Value;

use crate::bystanders::{self, Objects};
use crate::refusal::{CLASSES, Refusal};

/// Longer than any single failure is waited out, and than any of the worlds takes for what is asked of it.
pub(crate) const LATER: Duration = Duration::from_mins(12);
/// How many more requests a failure may cost.
const MORE: usize = 30;

/// Something that users do, in a world that is at rest before.
pub(crate) type Flow<B> = (&'static str, fn() -> B, fn(&mut B));

/// A cluster with a controller in it.
pub(crate) trait Stage: 'static {
    /// The names of some objects that the controller has nothing to do with.
    const BYSTANDERS: &'static [&'static str];

    fn cluster(&mut self) -> &mut Cluster;

    /// What matters of the world in the end.
    fn world(&mut self) -> Value;

    /// Whether it is one that never finds nothing where there is something.
    fn is_sure(action: &Action) -> bool;
}

/// Runs a flow in which this happens to the request of that number; returns how many requests there were.
pub(crate) fn run<B: Stage>(flow: &Flow<B>, fate: Option<(u64, FaultVerdict)>) -> (B, usize) {
    let (stage, requests, _) = observe(flow, fate);
    (stage, requests)
}

/// The same, and the objects that there were when the users had done what they do.
fn observe<B: Stage>((_, begin, act): &Flow<B>, fate: Option<(u64, FaultVerdict)>) -> (B, usize, Objects) {
    let mut stage = begin();
    let cluster = stage.cluster();
    cluster.journal.clear();
    cluster.interfere(move |number, _| match &fate {
        Some((at, fate)) if *at == number => fate.clone(),
        _ => FaultVerdict::Served,
    });
    act(&mut stage);
    let objects = Objects::of(&stage.cluster().server);
    stage.cluster().advance(LATER);
    let requests = stage.cluster().carried().count();
    (stage, requests, objects)
}

/// Lets each request of a flow fail, in each way.
pub(crate) fn leads_to_the_same_world<B: Stage>(flows: &[Flow<B>], name: &str) {
    let flow = flows.iter().find(|(flow, ..)| *flow == name).expect("a flow");
    let (mut calm, requests, objects) = observe(flow, None);
    let actions: Vec<Action> = calm.cluster().carried().map(|(_, carried)| carried.action.clone()).collect();
    let expected = calm.world();
    let ours = bystanders::owned(&calm.cluster().server, name);
    let lasting = objects.lasting(&calm.cluster().server);
    assert!(lasting.has_untouched(B::BYSTANDERS), "{name}");
    let failures = Class::ALL.into_iter().map(FaultVerdict::failed);
    let fates = [FaultVerdict::AnswerLost, FaultVerdict::CrashedBefore, FaultVerdict::CrashedAfter]
        .into_iter()
        .chain(failures);
    let fates: Vec<FaultVerdict> = fates.collect();
    let mut runs = 0;
    for (at, action) in (0..).zip(&actions) {
        let is_a_lie =
            |fate: &&FaultVerdict| B::is_sure(action) && **fate == FaultVerdict::failed(Class::NotFound);
        for fate in fates.iter().filter(|fate| !is_a_lie(fate)) {
            let (mut stage, needed, objects) = observe(flow, Some((at, fate.clone())));
            let target = action.target().map(ToString::to_string).unwrap_or_default();
            let what = format!("{name}: {fate:?} at request {at}, {} {target}", action.name());
            assert_same(&stage.world(), &expected, &what);
            let server = &stage.cluster().server;
            assert_eq!(bystanders::owned(server, &what), ours, "{what}");
            objects.lasting(server).assert_as_in(&lasting, &what);
            assert!(needed <= requests + MORE, "{what}: {needed} requests instead of {requests}");
            runs += 1;
        }
    }
    assert!(runs > 30, "{runs}");
}

/// Lets the process die when the users have done what they do, and each list of its watches fail, in each way.
pub(crate) fn watches_lead_to_the_same_world<B: Stage>(flows: &[Flow<B>]) {
    let mut runs = 0;
    for flow in flows {
        let (name, begin, act) = flow;
        let (mut calm, ..) = run(flow, None);
        let (expected, ours) = (calm.world(), bystanders::owned(&calm.cluster().server, name));
        for class in CLASSES {
            for number in 1.. {
                let mut stage = begin();
                act(&mut stage);
                let (refusal, lists) = Refusal::new(number, class);
                let cluster = stage.cluster();
                cluster.weather = Box::new(refusal);
                // The worlds around it were there first.
                cluster.crash(cluster.processes() - 1, Some(Duration::ZERO));
                cluster.advance(LATER);
                if lists.get() < number {
                    break;
                }
                let what = format!("{name}: {class} at list {number}");
                assert_same(&stage.world(), &expected, &what);
                assert_eq!(bystanders::owned(&stage.cluster().server, &what), ours, "{what}");
                runs += 1;
            }
        }
    }
    assert!(runs > 100, "{runs}");
}

/// Tells only what differs.
pub(crate) fn assert_same(found: &Value, expected: &Value, what: &str) {
    for (part, expected) in expected.as_object().expect("an object") {
        let found = &found[part];
        match (found.as_object(), expected.as_object()) {
            (Some(fields), Some(wanted)) if fields.keys().eq(wanted.keys()) => {
                let differs = wanted.iter().find(|(field, expected)| found[field.as_str()] != **expected);
                assert!(differs.is_none(), "{what}: {part}: {differs:?}, not {found:#}");
            }
            _ => assert_eq!(found, expected, "{what}: {part}"),
        }
    }
}

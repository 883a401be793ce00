//! Each request that a user operation causes fails in every possible way, one at a time, or the process crashes. Below the tier
//! `nightly`, it fails in a third of the ways. The final state must be the same: our objects are the same, and objects of other
//! clients are not even rewritten.
//!
//! Starting and stopping a watch are not requests to the server, and have no answer that could be a failure. The list of a watch
//! can fail and is retried; a separate test covers it.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind};
use lockstep_sim::cluster::{Cluster, FaultVerdict};
use serde_json::Value;

use crate::bystanders::{self, Objects};
use crate::refusal::{CLASSES, Refusal};

/// Longer than the retry delay after any single failure, and longer than any external system takes for an operation.
pub(crate) const LATER: Duration = Duration::from_mins(12);
/// Maximum number of additional requests after a failure.
const MORE: usize = 30;

/// The tier runs one in this many combinations of a request and a failure: all in `nightly`, and a third in the others.
fn share() -> u64 {
    if std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly") { 1 } else { 3 }
}

/// Returns whether the tier runs this combination of a request and a failure. The next request fails in other ways.
fn is_run(request: u64, failure: u64) -> bool {
    (request + failure).is_multiple_of(share())
}

/// A user operation in an idle cluster: its name, the setup and the operation.
pub(crate) type Flow<B> = (&'static str, fn() -> B, fn(&mut B));

/// A cluster with a controller.
pub(crate) trait Stage: 'static {
    /// The names of some objects that are unrelated to the controller.
    const BYSTANDERS: &'static [&'static str];

    fn cluster(&mut self) -> &mut Cluster;

    /// Returns the relevant final state.
    fn world(&mut self) -> Value;

    /// Returns whether the action never reports "not found" for an existing object.
    fn is_sure(action: &Action) -> bool;
}

/// Runs a flow with this fault for the request of that number; returns the number of requests.
pub(crate) fn run<B: Stage>(flow: &Flow<B>, fate: Option<(u64, FaultVerdict)>) -> (B, usize) {
    let (stage, requests, _) = observe(flow, fate);
    (stage, requests)
}

/// Like [`run`], and returns the objects that existed after the user operation.
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

/// Makes each request of a flow fail in each way.
pub(crate) fn leads_to_the_same_world<B: Stage>(flows: &[Flow<B>], name: &str) {
    let flow = flows.iter().find(|(flow, ..)| *flow == name).expect("a flow");
    let (mut calm, requests, objects) = observe(flow, None);
    let actions: Vec<Action> = calm.cluster().carried().map(|(_, carried)| carried.action.clone()).collect();
    let expected = calm.world();
    let ours = bystanders::owned(&calm.cluster().server, name);
    let lasting = objects.lasting(&calm.cluster().server);
    assert!(lasting.has_untouched(B::BYSTANDERS), "{name}");
    let failures = ErrorKind::ALL.into_iter().map(FaultVerdict::failed);
    let fates = [FaultVerdict::AnswerLost, FaultVerdict::CrashedBefore, FaultVerdict::CrashedAfter]
        .into_iter()
        .chain(failures);
    let fates: Vec<FaultVerdict> = fates.collect();
    let mut runs = 0;
    for (request, action) in (0..).zip(&actions) {
        let absence = FaultVerdict::failed(ErrorKind::NotFound);
        let is_a_lie = |fate: &&FaultVerdict| B::is_sure(action) && **fate == absence;
        let fates = (0..).zip(fates.iter().filter(|fate| !is_a_lie(fate)));
        for (_, fate) in fates.filter(|(failure, _)| is_run(request, *failure)) {
            let (mut stage, needed, objects) = observe(flow, Some((request, fate.clone())));
            let target = action.target().map(ToString::to_string).unwrap_or_default();
            let what = format!("{name}: {fate:?} at request {request}, {} {target}", action.name());
            assert_same(&stage.world(), &expected, &what);
            let server = &stage.cluster().server;
            assert_eq!(bystanders::owned(server, &what), ours, "{what}");
            objects.lasting(server).assert_as_in(&lasting, &what);
            assert!(needed <= requests + MORE, "{what}: {needed} requests instead of {requests}");
            runs += 1;
        }
    }
    assert!(runs * share() > 30, "{runs}");
}

/// Crashes the process after the user operation, and makes each list of its watches fail in each way.
pub(crate) fn watches_lead_to_the_same_world<B: Stage>(flows: &[Flow<B>]) {
    let mut runs = 0;
    for flow in flows {
        let (name, begin, act) = flow;
        let (mut calm, ..) = run(flow, None);
        let (expected, ours) = (calm.world(), bystanders::owned(&calm.cluster().server, name));
        for (failure, class) in (0..).zip(CLASSES) {
            for number in (1..).filter(|number| is_run(*number, failure)) {
                let mut stage = begin();
                act(&mut stage);
                let (refusal, lists) = Refusal::new(number, class);
                let cluster = stage.cluster();
                cluster.weather = Box::new(refusal);
                // The external systems have lower process numbers.
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
    assert!(runs * share() > 100, "{runs}");
}

/// Compares two states and reports only the differences.
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

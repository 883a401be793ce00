//! Each request of what users bring about fails once, in every way there is, or takes the process down: the world comes to the same
//! end.

use std::time::Duration;

use lockstep_core::engine::action::{Action, Class};
use lockstep_sim::cluster::{Cluster, Fate};
use serde_json::Value;

/// Longer than any single failure is waited out, and than any of the worlds takes for what is asked of it.
pub(crate) const LATER: Duration = Duration::from_mins(12);
/// How many more requests a failure may cost.
const MORE: usize = 30;

/// Something that users do, in a world that is at rest before.
pub(crate) type Flow<B> = (&'static str, fn() -> B, fn(&mut B));

/// A cluster with a controller in it.
pub(crate) trait Stage: 'static {
    fn cluster(&mut self) -> &mut Cluster;

    /// What matters of the world in the end.
    fn world(&mut self) -> Value;

    /// Whether it is one that never finds nothing where there is something.
    fn is_sure(action: &Action) -> bool;
}

/// Runs a flow in which this happens to the request of that number; returns how many requests there were.
pub(crate) fn run<B: Stage>((_, begin, act): &Flow<B>, fate: Option<(u64, Fate)>) -> (B, usize) {
    let mut stage = begin();
    let cluster = stage.cluster();
    cluster.journal.clear();
    cluster.interfere(move |number, _| match &fate {
        Some((at, fate)) if *at == number => fate.clone(),
        _ => Fate::Served,
    });
    act(&mut stage);
    stage.cluster().advance(LATER);
    let requests = stage.cluster().carried().count();
    (stage, requests)
}

/// Lets each request of a flow fail, in each way.
pub(crate) fn leads_to_the_same_world<B: Stage>(flows: &[Flow<B>], name: &str) {
    let flow = flows.iter().find(|(flow, ..)| *flow == name).expect("a flow");
    let (mut calm, requests) = run(flow, None);
    let actions: Vec<Action> = calm.cluster().carried().map(|(_, carried)| carried.action.clone()).collect();
    let expected = calm.world();
    let failures = Class::ALL.into_iter().map(Fate::failed);
    let fates = [Fate::AnswerLost, Fate::CrashedBefore, Fate::CrashedAfter].into_iter().chain(failures);
    let fates: Vec<Fate> = fates.collect();
    let mut runs = 0;
    for (at, action) in (0..).zip(&actions) {
        let is_a_lie = |fate: &&Fate| B::is_sure(action) && **fate == Fate::failed(Class::NotFound);
        for fate in fates.iter().filter(|fate| !is_a_lie(fate)) {
            let (mut stage, needed) = run(flow, Some((at, fate.clone())));
            let target = action.target().map(ToString::to_string).unwrap_or_default();
            let what = format!("{name}: {fate:?} at request {at}, {} {target}", action.name());
            assert_same(&stage.world(), &expected, &what);
            assert!(needed <= requests + MORE, "{what}: {needed} requests instead of {requests}");
            runs += 1;
        }
    }
    assert!(runs > 30, "{runs}");
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

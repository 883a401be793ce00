//! A dry run forecasts the writes that follow: for each seed, a cluster comes to rest, a change of a user is forecast, and then
//! the change really happens while all other controllers do nothing.

use lockstep_sim::SystemUnderTest;
use lockstep_subjects::bridge::Bridge;
use lockstep_subjects::dpuservice::DpuService;
use lockstep_subjects::namespaceclass::NamespaceClass;

use self::compare::{effective, effects, foreseeable, ordered};
use self::scene::Scene;

#[path = "dry_run/compare.rs"]
mod compare;
#[path = "dry_run/scene.rs"]
mod scene;

/// Returns the number of seeds in the tier that `tests/run` sets in the environment.
fn seeds() -> u64 {
    match std::env::var("LOCKSTEP_TIER").as_deref() {
        Ok("quick") => 10,
        Ok("nightly") => 1000,
        _ => 100,
    }
}

/// How much a forecast and what happens must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// All writes, in their order.
    Total,
    /// The writes to each object in their order, without intermediate statuses, and the state of each object in the end.
    OfEachObject,
}

/// Compares forecasts with what happens, and returns the number of writes that were compared.
fn compare(subject: &'static dyn SystemUnderTest, order: Order) -> usize {
    let (mut count, mut unquiet) = (0, 0);
    for seed in 0..seeds() {
        let mut scene = Scene::at_rest(subject, seed);
        let Some((operation, changes)) = scene.some_change() else { continue };
        let (snapshot, forecast) = scene.forecast(&changes);
        assert_eq!(forecast.pending, [], "seed {seed}: the cluster is at rest");
        // With MetalLB at rest, the Bridge asks it for an address again and again.
        if !forecast.is_quiet {
            unquiet += 1;
            continue;
        }
        let real = effective(foreseeable(&snapshot, scene.apply(&changes)));
        let forecast_writes = effective(forecast.writes);
        let expected = effects(&snapshot, &real, &scene.cluster.server);
        let actual = effects(&snapshot, &forecast_writes, &forecast.server);
        assert_eq!(actual, expected, "seed {seed}: {operation}");
        if order == Order::Total {
            let [actual, expected] = [&forecast_writes, &real].map(|writes| ordered(&snapshot, writes));
            assert_eq!(actual, expected, "seed {seed}: {operation}");
        }
        count += real.len();
    }
    assert!(unquiet <= seeds() / 20, "{unquiet} forecasts did not become quiet");
    count
}

/// Several passes run side by side, and the state of the queue decides which namespaces are first.
#[test]
fn forecasts_for_namespace_classes_are_what_happens() {
    assert!(compare(&NamespaceClass, Order::OfEachObject) > 0);
}

/// Three reconcilers share the work, and the state of their queues decides which of them is first.
#[test]
fn forecasts_for_dpu_services_are_what_happens() {
    assert!(compare(&DpuService, Order::OfEachObject) > 0);
}

#[test]
fn forecasts_for_bridges_are_what_happens() {
    assert!(compare(&Bridge, Order::Total) > 0);
}

//! Runs the real shell and the real kube client on a simulated network: a hundred seeds of NamespaceClass and some of the other
//! controllers. The first seeds of each run twice, to compare their traces.
//!
//! `LOCKSTEP_NETWORK_SEED=17 cargo test -p lockstep-tests --test network replay -- --nocapture` replays one seed and prints its
//! timeline, line by line; `LOCKSTEP_NETWORK_CONTROLLER=bridge` selects another controller.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockstep_engine::random::Random;
use lockstep_tests::network::faulty::Bug;
use lockstep_tests::network::plan::{Fault, Plan};
use lockstep_tests::network::scene::{self, Scene};
use lockstep_tests::network::{self, Report};

/// The number of seeds of NamespaceClass.
const SEEDS: u64 = 100;
/// The number of seeds of each controller with external systems.
const STAGED_SEEDS: u64 = 8;
/// The upper bound of the seeds that are tried until each wanted write was made.
const MORE_STAGED_SEEDS: u64 = 40;
/// The number of seeds that run twice.
const REPEATED_SEEDS: u64 = 4;
/// The maximum number of seeds for the search for one bug of the shell.
const HUNTED_SEEDS: u64 = 40;

/// The seed to replay, its controller, and the prefix of the line with the hash of the trace.
const VARIABLE: &str = "LOCKSTEP_NETWORK_SEED";
const CONTROLLER: &str = "LOCKSTEP_NETWORK_CONTROLLER";
const HASH: &str = "trace hash ";

/// Each bug of a shell is found within this many seeds.
const BUG_SEEDS: u64 = 150;
/// The first seeds that found them in the last complete search, if later ones. They are tried first, except in the tier `nightly`.
const FOUND_WITH: [(Bug, u64); 3] = [(Bug::NeverStepsDown, 2), (Bug::DeadWatch, 28), (Bug::NoRelist, 59)];

#[test]
fn whatever_the_network_does_the_world_becomes_the_desired_one_and_the_trace_follows_from_the_seed() {
    check_coverage(search(Scene::Classes, SEEDS).values());
}

#[test]
fn whatever_the_network_does_bridges_get_their_clusters() {
    let writes = search_for(
        scene::BRIDGE,
        &[
            "POST hostedclusters",
            "POST nodepools",
            "POST secrets",
            "PATCH services",
            "PATCH dpuclusters",
            "DELETE hostedclusters",
        ],
    );
    assert!(writes["POST hostedclusters"] as u64 >= STAGED_SEEDS, "{writes:?}");
}

#[test]
fn whatever_the_network_does_services_get_to_their_clusters() {
    let writes = search_for(
        scene::DPUSERVICE,
        &["POST applications", "PATCH applications", "DELETE applications", "POST secrets"],
    );
    assert!(writes["POST applications"] as u64 >= STAGED_SEEDS, "{writes:?}");
}

/// Runs seeds until each of these writes was made in one of them. Returns the number of each write.
fn search_for(scene: Scene, wanted: &[&str]) -> BTreeMap<String, usize> {
    let mut reports = search(scene, STAGED_SEEDS);
    for seed in STAGED_SEEDS..MORE_STAGED_SEEDS {
        let made = writes(&reports);
        if wanted.iter().all(|write| made.contains_key(*write)) {
            break;
        }
        reports.insert(seed, holds(scene, seed));
    }
    let made = writes(&reports);
    for write in wanted {
        assert!(made.contains_key(*write), "{write}: {made:?}");
    }
    made
}

/// Runs a seed, which must violate no invariant.
fn holds(scene: Scene, seed: u64) -> Report {
    let report = network::run(scene, seed, None, false);
    if let Some(violated) = &report.violated {
        let replay = replay_command(scene, seed);
        panic!("seed {seed}: {violated}\nplan: {:?}\nreplay: {replay}", report.faults);
    }
    report
}

/// Runs seeds, the first of them twice.
fn search(scene: Scene, seeds: u64) -> BTreeMap<u64, Report> {
    let reports = Mutex::new(BTreeMap::new());
    let next = AtomicU64::new(0);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= seeds {
            return;
        }
        let report = holds(scene, seed);
        if seed < REPEATED_SEEDS {
            let again = network::run(scene, seed, None, false);
            assert_eq!(report.hash, again.hash, "seed {seed} gives another trace the second time");
        }
        reports.lock().expect("no panic while it is held").insert(seed, report);
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let reports = reports.into_inner().expect("no panic while it was held");
    assert_eq!(reports.len() as u64, seeds);
    reports
}

/// Counts all writes of operators.
fn writes(reports: &BTreeMap<u64, Report>) -> BTreeMap<String, usize> {
    let mut writes = BTreeMap::new();
    for (write, count) in reports.values().flat_map(|report| &report.writes) {
        *writes.entry(write.clone()).or_insert(0) += count;
    }
    writes
}

/// Checks that every kind of fault happened; otherwise the search has gaps.
fn check_coverage<'a>(reports: impl Iterator<Item = &'a Report>) {
    let faults = reports.flat_map(|report| &report.faults);
    let mut counts = BTreeMap::new();
    for (_, fault) in faults {
        *counts.entry(fault.name()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 11, "some kinds of faults never happened: {counts:?}");
}

/// The network may delay a write that was requested under a lease until another replica leads.
#[test]
fn a_write_that_arrives_after_its_leader_was_replaced_does_no_harm() {
    let mut late = 0;
    for seed in 0..20 {
        let held = Duration::from_secs(25);
        let faults = vec![
            (Duration::from_secs(15), Fault::Hold(1, held)),
            (Duration::from_mins(1), Fault::Hold(2, held)),
        ];
        let plan = Plan { latency: Duration::from_millis(200), faults };
        let report = network::run_plan(Scene::Classes, plan, Random::from_seed(seed), None, false);
        assert_eq!(report.violated, None, "seed {seed}");
        late += report.late_writes;
    }
    assert!(late > 0, "no write of a former leader ever arrived late");
}

#[test]
fn each_bug_of_a_shell_is_found() {
    let is_complete = std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly");
    // A test of its own finds that bug.
    for bug in Bug::ALL.into_iter().filter(|bug| *bug != Bug::NoDeadlines) {
        let listed = FOUND_WITH.into_iter().filter(|(listed, _)| *listed == bug && !is_complete);
        let found = listed.map(|(_, seed)| seed).chain(0..BUG_SEEDS).find_map(|seed| {
            let violated = network::run(Scene::Classes, seed, Some(bug), false).violated?;
            Some((seed + 1, violated))
        });
        let (seeds, violated) = found.unwrap_or_else(|| panic!("{bug:?} is not found in {BUG_SEEDS} seeds"));
        println!("{:<16} after {seeds:>2} seeds: {violated:.120}", format!("{bug:?}"));
    }
}

/// The seeds of the other controllers find bugs as well. More bugs would take too long here.
#[test]
fn bugs_of_a_shell_are_found_with_every_controller() {
    for (scene, bug) in [
        (scene::BRIDGE, Bug::DeadWatch),
        (scene::BRIDGE, Bug::ForgetsRequests),
        (scene::DPUSERVICE, Bug::ForgetsRequests),
    ] {
        let finds = |seed: &u64| network::run(scene, *seed, Some(bug), false).violated.is_some();
        let found = (0..HUNTED_SEEDS).find(finds);
        println!("{bug:?} with {}: {found:?}", scene.controller());
        assert!(found.is_some(), "{bug:?} is not found with {} in {HUNTED_SEEDS} seeds", scene.controller());
    }
}

/// Checks that a bug is found in this plan, and that the same seed passes without it.
fn is_found_in(plan: &Plan, scene: Scene, bug: Bug) {
    let run = |seed, bug| network::run_plan(scene, plan.clone(), Random::from_seed(seed), bug, false);
    let found = (0..HUNTED_SEEDS).find(|seed| run(*seed, Some(bug)).violated.is_some());
    let found = found.unwrap_or_else(|| {
        panic!("{bug:?} is not found with {} in {HUNTED_SEEDS} seeds", scene.controller())
    });
    assert_eq!(run(found, None).violated, None, "seed {found} fails without {bug:?} as well");
}

/// An object whose deletion was missed stays in a cache that is not listed again. Random faults show that in few seeds, so here
/// the server loses its history repeatedly.
#[test]
fn a_shell_that_does_not_relist_is_found_with_bridges() {
    let restart = Fault::Restart(Duration::from_secs(5), true);
    let faults = (0..6).map(|round| (Duration::from_secs(8 + 18 * round), restart.clone())).collect();
    let plan = Plan { latency: Duration::from_millis(200), faults };
    is_found_in(&plan, scene::BRIDGE, Bug::NoRelist);
}

/// A failed request is retried at its deadline, unless another event triggers it earlier, which is usual. So here the server restarts
/// when the users have almost ended, and answers again before a watch reports a second failure.
#[test]
fn a_shell_without_deadlines_is_found_where_the_server_restarts_late() {
    let restart = Fault::Restart(Duration::from_millis(200), false);
    let plan =
        Plan { latency: Duration::from_millis(200), faults: vec![(Duration::from_secs(106), restart)] };
    is_found_in(&plan, Scene::Classes, Bug::NoDeadlines);
}

#[test]
fn another_process_gives_the_same_trace() -> anyhow::Result<()> {
    const SEED: u64 = 3;
    let here = network::run(Scene::Classes, SEED, None, false).hash;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "replay", "--nocapture"]).env(VARIABLE, SEED.to_string());
    let output = String::from_utf8(command.output()?.stdout)?;
    let there = output.lines().find_map(|line| line.strip_prefix(HASH)).context("no hash was printed")?;
    ensure!(there == here, "{there} there, {here} here");
    Ok(())
}

/// Replays the seed in the environment variable, and prints everything; without the variable it does nothing.
#[test]
fn replay() {
    let Ok(seed) = std::env::var(VARIABLE) else { return };
    let seed = seed.parse().unwrap_or_else(|_| panic!("{VARIABLE} must be a number, not {seed:?}"));
    let controller = std::env::var(CONTROLLER).unwrap_or_else(|_| Scene::Classes.controller().to_owned());
    let scene = Scene::of(&controller).unwrap_or_else(|| panic!("{CONTROLLER} is {controller:?}"));
    let report = network::run(scene, seed, None, true);
    println!("\n{}", report.timeline);
    println!("plan: {:?}", report.faults);
    println!("settled {:?} after all could hear again; {:?} in all", report.settled_after, report.elapsed);
    println!("{HASH}{}", report.hash);
    assert_eq!(report.violated, None, "seed {seed}");
}

fn replay_command(scene: Scene, seed: u64) -> String {
    let controller = scene.controller();
    format!(
        "{CONTROLLER}={controller} {VARIABLE}={seed} cargo test -p lockstep-tests --test network replay -- --nocapture"
    )
}

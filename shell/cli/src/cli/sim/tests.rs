//! Tests failures from the search to the files, with a planted bug.

use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use lockstep_cli::controllers;
use lockstep_engine::machine::Machine;
use lockstep_engine::recording::{Line, Origin, Replay, ReplayedStep, read};
use lockstep_sim::{Search, Simulation, Summary, SystemUnderTest, Violation, record};
use lockstep_subjects::namespaceclass::NamespaceClass;

use super::*;

/// Returns a simulation that fails.
fn flawed() -> Simulation {
    Simulation::new(&NamespaceClass).with_bug(planted::named("never_prunes", "namespaceclass").unwrap())
}

fn found(keep_going: bool, out: &Path) -> (Summary, Vec<Failure>) {
    let simulation = flawed();
    let search = Search {
        seeds: 0..60,
        stormy: Duration::from_mins(10),
        faults: vec!["conflict".to_owned()],
        threads: 2,
        keep_going,
    };
    let summary = search.run(&simulation, &|_| ());
    let failures = find(&simulation, &search, &summary, out);
    (summary, failures)
}

#[test]
fn a_failure_is_shrunk_and_leaves_a_plan_that_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("not/yet there");
    let (summary, failures) = found(false, &out);
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!(summary.runs, failure.seed + 1, "what came after the failure does not count");
    let whole = format!(
        "lockstep sim --controllers namespaceclass --seeds {0}..{1} --duration 10m --faults conflict",
        failure.seed,
        failure.seed + 1
    );
    assert_eq!(failure.replay, whole);
    let name = format!("namespaceclass-{}", failure.seed);
    let files = ["json", "txt", "html", "jsonl"].map(|ending| out.join(format!("{name}.{ending}")));
    assert_eq!(failure.files, files.each_ref().map(|path| path.to_str().unwrap()));

    let file = input::plan_file(files[0].to_str().unwrap()).unwrap();
    let shrunk = failure.shrunk.as_ref().unwrap();
    assert_eq!(shrunk.replay, Some(format!("lockstep sim --plan '{}'", file.path.display())));
    let words: Vec<String> = file.plan.faults.iter().map(ToString::to_string).collect();
    assert_eq!(failure.plan, Some(words));
    let violation = flawed().run(&file.plan, false).violation.unwrap();
    assert_eq!((violation.invariant, &violation.seen), (failure.invariant, &failure.seen));
    let sound = Simulation::new(&NamespaceClass);
    assert_eq!(sound.run(&file.plan, false).violation, None, "the bug is to blame");

    let text = std::fs::read_to_string(&files[1]).unwrap();
    for part in [failure.invariant, failure.sentence, &failure.seen, &whole, "process 0"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(std::fs::read_to_string(&files[2]).unwrap().to_lowercase().starts_with("<!doctype html>"));

    // The controller without the bug makes the request that the one with the bug omitted.
    let again = replayed(&std::fs::read(&files[3]).unwrap()).expect("the recording names the bug");
    let given = again.differs.expect("differs");
    assert!(given.requests.iter().any(|request| request.action.name() == "delete"), "{given:?}");
    let run = sound.run(&file.plan, true);
    let recording = record(&NamespaceClass, &file.plan, &run).unwrap().expect("has a journal");
    assert_eq!(replayed(&recording), None);
}

/// Returns the first step of a recording that a replay does not reproduce.
fn replayed(recording: &[u8]) -> Option<ReplayedStep> {
    let (header, lines) = read::open(recording).unwrap();
    let lines: Vec<Line> = lines.map(Result::unwrap).collect();
    assert!(lines.len() > 20, "{} steps", lines.len());
    let revive = |origin: Origin<'_>| {
        controllers::revive("namespaceclass", origin).map(|machine| machine as Box<dyn Machine>)
    };
    Replay::new(&header, revive).unwrap().run(lines).unwrap()
}

#[test]
fn the_command_that_runs_a_seed_again_can_be_given_as_it_is_printed() {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }
    let violation = Violation { invariant: "", sentence: "", seen: String::new(), at: Duration::ZERO };
    for (seconds, subject) in [(60, "bridge"), (90, "bridge"), (3600, "together"), (5401, "sentinel")] {
        let stormy = Duration::from_secs(seconds);
        let search = Search { seeds: 0..1, stormy, faults: Vec::new(), threads: 1, keep_going: false };
        let replay = Failure::of_seed(&search, subject, 7, &violation).replay;
        let words = replay.strip_prefix("lockstep ").unwrap().split(' ');
        let again = Command::try_parse_from(words).unwrap_or_else(|error| panic!("{replay}: {error}")).args;
        let subjects: Vec<&str> = again.subjects().into_iter().map(SystemUnderTest::name).collect();
        assert_eq!((again.seeds, again.duration), (Some(7..8), Some(stormy)), "{replay}");
        assert_eq!(subjects, [subject]);
    }
}

#[test]
fn similar_failures_are_shrunk_once_and_listed_by_seed() {
    let folder = tempfile::tempdir().unwrap();
    let (summary, failures) = found(true, folder.path());
    assert_eq!(summary.runs, 60);
    assert_eq!(failures.len(), summary.failures.len());
    let like: Vec<&Failure> =
        failures.iter().filter(|failure| failure.invariant == failures[0].invariant).collect();
    assert!(like.len() > 1, "{failures:?}");
    assert!(like[0].shrunk.is_some() && like[1..].iter().all(|failure| failure.shrunk.is_none()));
    let (count, again) = (failures.len(), like[1].seed);
    let fail = if like.len() == 2 { "fails the seed" } else { "fail the seeds" };
    let report = Report::new(&[("namespaceclass", summary)], Duration::from_secs(1), failures);
    let text = report.to_string();
    assert!(text.contains(&format!("in the same way {fail} {again}")), "{text}");
    assert!(text.ends_with(&format!("\n{count} runs failed\n")), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["failures"].as_array().unwrap().len(), count);
    assert!(json["failures"][0]["shrunk"]["replay"].is_string(), "{json}");
}

#[test]
fn failures_are_reported_if_the_folder_is_not_writable() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "x").unwrap();
    let (_, failures) = found(false, &taken);
    assert!(failures[0].files.is_empty());
    let text = failures[0].to_string();
    for part in [
        failures[0].invariant,
        "the plan, shrunk",
        "run it again: lockstep sim",
        "error: cannot create",
        "taken",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

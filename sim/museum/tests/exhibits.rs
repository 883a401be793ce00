//! Each exhibit is found, and the controllers without bugs are clean.

#![expect(clippy::print_stdout, reason = "the figures are for people who read a test's output")]

use std::collections::BTreeSet;
use std::ops::Range;

use lockstep_museum::{Exhibit, SEEDS_MAX, SOUND, exhibits};
use lockstep_sim::{Search, Simulation, SystemUnderTest};

/// The seeds with failures of controllers without bugs that were fixed.
const ONCE_FAILED: &[(&str, &[u64])] = &[
    // Two leaders; a leader that restarts after its successor took over (96632); a copy that is created and deleted between two
    // watches (6736, 9154, 24828).
    ("mirror", &[5594, 5797, 6736, 6922, 8847, 9154, 12523, 16287, 16529, 24828, 28303, 96632]),
    // A read and a change of an object at the same time.
    ("reporter", &[18246]),
    // The creation of a Worker that was sent before another leader deleted that Worker.
    ("runner", &[29881]),
];

/// Searches for a bug, and returns the number of seeds that it took and the violated invariant.
fn hunt(exhibit: &Exhibit) -> Option<(u64, &'static str)> {
    let search = Search { seeds: 0..SEEDS_MAX, ..Search::default() };
    let summary = search.run(&Simulation::new(exhibit.subject), &|_| ());
    summary.failures.first_key_value().map(|(seed, violation)| {
        println!("{:45} {:4} {} ({})", exhibit.bug, seed + 1, violation.invariant, violation.seen);
        (seed + 1, violation.invariant)
    })
}

#[test]
fn every_bug_is_found_within_four_hundred_seeds() {
    let missing: Vec<&str> = exhibits().filter(|it| hunt(it).is_none()).map(|it| it.bug).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Returns the number of seeds of each controller without bugs in the tier that `tests/run` sets in the environment.
fn seeds() -> u64 {
    match std::env::var("LOCKSTEP_TIER").as_deref() {
        Ok("quick") => 40,
        Ok("nightly") => 10_000,
        _ => 300,
    }
}

/// Searches all of these seeds for a failure of a controller without bugs.
fn assert_clean(subject: &'static dyn SystemUnderTest, seeds: Range<u64>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let search = Search { seeds, threads, keep_going: true, ..Search::default() };
    let summary = search.run(&Simulation::new(subject), &|_| ());
    println!("{}: {} runs, {} steps", subject.name(), summary.runs, summary.steps);
    let failures = summary.failures.iter();
    let failures: Vec<String> =
        failures.map(|(seed, it)| format!("seed {seed}: {}: {}", it.invariant, it.seen)).collect();
    assert!(failures.is_empty(), "{}: {}", subject.name(), failures.join("\n"));
}

#[test]
fn no_seed_fails_without_a_bug() {
    for subject in SOUND {
        assert_clean(subject, 0..seeds());
    }
}

#[test]
fn no_seed_fails_again() {
    for subject in SOUND {
        let once_failed = ONCE_FAILED.iter().filter(|(name, _)| *name == subject.name());
        for seed in once_failed.flat_map(|(_, seeds)| *seeds) {
            assert_clean(subject, *seed..*seed + 1);
        }
    }
}

#[test]
fn names_and_sources_are_unique() {
    let names: BTreeSet<&str> = exhibits().map(|it| it.bug).collect();
    let sources: BTreeSet<String> = exhibits().map(Exhibit::source).collect();
    assert_eq!((names.len(), sources.len()), (exhibits().count(), exhibits().count()));
}

#[test]
fn the_page_lists_every_bug() {
    const BEGIN: &str = "LOCKSTEP_REGENERATE=1 writes it. -->\n";
    const END: &str = "<!-- end of the table -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/museum.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let expected = table_of_exhibits();
    if std::env::var_os("LOCKSTEP_REGENERATE").is_some() {
        std::fs::write(path, [before, BEGIN, &expected, END, after].concat()).unwrap();
    } else {
        assert_eq!(table, expected, "run the test with LOCKSTEP_REGENERATE=1");
    }
}

fn table_of_exhibits() -> String {
    let projects: BTreeSet<&str> = exhibits().map(|it| it.project).collect();
    let mut table = format!("\n{} bugs of {} projects:\n\n", exhibits().count(), projects.len());
    table
        .push_str("| bug | source | class | controller | what happened |\n| --- | --- | --- | --- | --- |\n");
    let mut rows: Vec<&Exhibit> = exhibits().collect();
    rows.sort_by_key(|it| (it.class, it.project, it.issue));
    for exhibit in rows {
        let Exhibit { bug, class, story, subject, .. } = exhibit;
        let (source, controller) = (exhibit.source(), subject.name());
        let row = format!("| `{bug}` | {source} | {class} | `{controller}` | {story} |\n");
        table.push_str(&row);
    }
    table.push('\n');
    table
}

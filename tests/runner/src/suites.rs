//! The suites of each tier, and which suites run at the same time.

use std::path::PathBuf;

use anyhow::ensure;

use crate::cargo::Binary;

/// The amount of tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// For developers, before each commit.
    Quick,
    /// For continuous integration.
    Full,
    /// Long searches.
    Nightly,
}

impl Tier {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Quick, Self::Full, Self::Nightly].into_iter().find(|tier| tier.name() == name)
    }

    /// Returns its name in arguments and in `LOCKSTEP_TIER`, which determines the number of seeds of searches.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Nightly => "nightly",
        }
    }
}

/// The resource that limits a suite. A suite that computes runs at the same time as one that waits for other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Computes,
    Waits,
}

/// How a test binary is run. A binary that is not in [`SUITES`] runs completely in every tier, and computes.
struct Suite {
    name: &'static str,
    lane: Lane,
    /// The tests of it that run in [`Tier::Quick`].
    quick: Quick,
}

/// The tests of a suite that the lowest tier runs.
#[derive(Clone, Copy)]
enum Quick {
    All,
    Nothing,
    /// Tests with one of these texts in their names.
    Only(&'static [&'static str]),
    /// Tests with none of these texts in their names.
    Except(&'static [&'static str]),
}

/// A test binary and its arguments.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) lane: Lane,
    /// Arguments of libtest that select tests.
    pub(crate) filters: Vec<String>,
}

/// The suites in descending order of duration, so that no long suite runs alone at the end.
const SUITES: &[Suite] = &[
    computes("lockstep-tests/network", Quick::Only(&["another_process"])),
    computes("lockstep-sim-tests/dry_run", Quick::All),
    computes("lockstep-sim-tests/bridge", Quick::Except(&["failures::", "replay::", "scale::"])),
    computes("lockstep-sim-tests/sentinel", Quick::Only(&["every_seed"])),
    computes("lockstep-sim-tests/dpuservice", Quick::Except(&["failures::", "replay::", "scale::"])),
    computes(
        "lockstep-sim-tests/namespaceclass",
        Quick::Except(&["failed_in_any_way", "failures::", "scale::"]),
    ),
    computes("lockstep-sim-tests/simulated_bridge", Quick::Only(&["every_seed"])),
    computes("lockstep-sim-tests/simulated_dpuservice", Quick::Only(&["every_seed"])),
    computes("lockstep-sim-tests/simulated_together", Quick::Only(&["every_seed"])),
    computes("lockstep-sim-tests/simulation", Quick::Only(&["every_seed", "without_faults", "leadership"])),
    computes("lockstep-sim-tests/explored", Quick::All),
    // It runs only if Argo CD is built, which `--nightly` does.
    waits("lockstep-tests/argocd", Quick::Nothing),
    waits("lockstep-tests/bridge_chart", Quick::Nothing),
    waits("lockstep-cli/cli", Quick::All),
    waits("lockstep-tests/dpuservice_chart", Quick::Nothing),
    waits("lockstep-tests/rabbitmq", Quick::Nothing),
    waits("lockstep-tests/sentinel", Quick::Nothing),
    waits("lockstep-tests/sentinel_chart", Quick::Nothing),
    waits("lockstep-tests/bridge", Quick::Except(&["a_bridge_"])),
    waits("lockstep-tests/conformance", Quick::Nothing),
    waits("lockstep-tests/dpuservice", Quick::All),
    waits("lockstep-tests/chart", Quick::Nothing),
    waits("lockstep-tests/sentinel_traces", Quick::Nothing),
    waits("lockstep-tests/pubsub", Quick::Nothing),
    waits("lockstep-tests/clients", Quick::Nothing),
    waits("lockstep-tests/histories", Quick::Except(&["histories_of_"])),
    waits("lockstep-tests/kubectl", Quick::Nothing),
    waits("lockstep-tests/metallb", Quick::Nothing),
    waits("lockstep-tests/replay", Quick::Nothing),
    waits("lockstep-tests/release", Quick::Nothing),
    waits("lockstep-tests/control_plane", Quick::Nothing),
    waits("lockstep-tests/sentinel_scale", Quick::Nothing),
    waits("lockstep-tests/sentinel_input", Quick::Nothing),
    waits("lockstep-tests/sentinel_events", Quick::Nothing),
    waits("lockstep-tests/live_page", Quick::Nothing),
    waits("lockstep-tests/timeline", Quick::Nothing),
    waits("lockstep-tests/external", Quick::Nothing),
    // helm is not built in the lowest tier.
    waits("lockstep-tests/dpuservice_admission", Quick::Except(&["helm_says_the_same"])),
    waits("lockstep-tests/namespaceclass", Quick::All),
    waits("lockstep-tests/bridge_admission", Quick::All),
    waits("lockstep-tests/sentinel_config", Quick::All),
    waits("lockstep-tests/sentinel_metrics", Quick::All),
    waits("lockstep-tests/sentinel_command", Quick::All),
    waits("lockstep-tests/dev", Quick::All),
    waits("lockstep-cli/dev_fleet", Quick::All),
];

const fn computes(name: &'static str, quick: Quick) -> Suite {
    Suite { name, lane: Lane::Computes, quick }
}

const fn waits(name: &'static str, quick: Quick) -> Suite {
    Suite { name, lane: Lane::Waits, quick }
}

impl Quick {
    /// Returns the arguments of libtest; `None` if nothing runs.
    fn filters(self) -> Option<Vec<String>> {
        match self {
            Self::All => Some(Vec::new()),
            Self::Nothing => None,
            Self::Only(parts) => Some(parts.iter().map(|part| (*part).to_owned()).collect()),
            Self::Except(parts) => {
                Some(parts.iter().flat_map(|part| ["--skip".to_owned(), (*part).to_owned()]).collect())
            }
        }
    }
}

/// Returns whether a tier runs any test of a suite.
pub(crate) fn is_run(tier: Tier, name: &str) -> bool {
    let is_left_out = |suite: &Suite| suite.name == name && matches!(suite.quick, Quick::Nothing);
    tier != Tier::Quick || !SUITES.iter().any(is_left_out)
}

/// Returns the suites of a tier, longest first; only the wanted ones if some are named.
pub(crate) fn plan(tier: Tier, binaries: Vec<Binary>, wanted: &[String]) -> anyhow::Result<Vec<Job>> {
    for suite in SUITES.iter().filter(|suite| is_run(tier, suite.name)) {
        ensure!(
            binaries.iter().any(|binary| binary.name == suite.name),
            "no test binary {}: correct SUITES in the test runner",
            suite.name
        );
    }
    let place = |name: &str| SUITES.iter().position(|suite| suite.name == name);
    let mut jobs: Vec<Job> = binaries
        .into_iter()
        .filter(|binary| wanted.is_empty() || wanted.contains(&binary.name))
        .filter_map(|binary| {
            let suite = place(&binary.name).map(|place| &SUITES[place]);
            let quick = suite.filter(|_| tier == Tier::Quick).map_or(Quick::All, |suite| suite.quick);
            let filters = quick.filters()?;
            let lane = suite.map_or(Lane::Computes, |suite| suite.lane);
            let Binary { name, executable, directory } = binary;
            Some(Job { name, executable, directory, lane, filters })
        })
        .collect();
    jobs.sort_by_key(|job| place(&job.name).unwrap_or(usize::MAX));
    Ok(jobs)
}

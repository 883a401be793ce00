//! What runs in which tier, and beside what.

use std::path::PathBuf;

use anyhow::ensure;

use crate::cargo::Binary;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// What people run before each commit.
    Quick,
    /// What continuous integration runs.
    Full,
    /// Long searches.
    Nightly,
}

impl Tier {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Quick, Self::Full, Self::Nightly].into_iter().find(|tier| tier.name() == name)
    }

    /// Its name in arguments and in `LOCKSTEP_TIER`, by which searches choose their number of seeds.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Nightly => "nightly",
        }
    }
}

/// What a suite spends its time in: one that computes runs beside one that waits for other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Computes,
    Waits,
}

/// How a test binary is run. One that is not in [`SUITES`] runs whole in every tier, and computes.
struct Suite {
    name: &'static str,
    lane: Lane,
    /// What of it runs in [`Tier::Quick`].
    quick: Quick,
}

/// What the lowest tier runs of a suite.
#[derive(Clone, Copy)]
enum Quick {
    All,
    Nothing,
    /// Tests whose names hold one of these.
    Only(&'static [&'static str]),
    /// Tests whose names hold none of these.
    Except(&'static [&'static str]),
}

/// A test binary with what to run of it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) lane: Lane,
    /// libtest's arguments that choose tests.
    pub(crate) filters: Vec<String>,
}

/// Longest first, so that no long suite is left to run by itself at the end.
const SUITES: &[Suite] = &[
    computes("lockstep-tests/network", Quick::Only(&["another_process"])),
    computes("lockstep-sim-tests/bridge", Quick::Except(&["failures::", "replay::", "scale::"])),
    computes("lockstep-sim-tests/sentinel", Quick::Only(&["every_seed"])),
    computes("lockstep-sim-tests/dpuservice", Quick::Except(&["failures::", "replay::", "scale::"])),
    computes(
        "lockstep-sim-tests/namespaceclass",
        Quick::Except(&["failed_in_any_way", "failures::", "scale::"]),
    ),
    computes("lockstep-sim-tests/simulated_bridge", Quick::Only(&["every_seed"])),
    computes("lockstep-sim-tests/simulated_dpuservice", Quick::Only(&["every_seed"])),
    computes("lockstep-sim-tests/simulation", Quick::Only(&["every_seed", "without_faults", "leadership"])),
    // Only where Argo CD is built, which `--nightly` does.
    waits("lockstep-tests/argocd", Quick::Nothing),
    waits("lockstep-tests/bridge_chart", Quick::Nothing),
    waits("lockstep-shell/cli", Quick::All),
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
    waits("lockstep-tests/metallb", Quick::Nothing),
    waits("lockstep-tests/replay", Quick::Nothing),
    waits("lockstep-tests/control_plane", Quick::Nothing),
    waits("lockstep-tests/sentinel_scale", Quick::Nothing),
    waits("lockstep-tests/sentinel_input", Quick::Nothing),
    waits("lockstep-tests/sentinel_events", Quick::Nothing),
    waits("lockstep-tests/timeline", Quick::Nothing),
    waits("lockstep-tests/external", Quick::Nothing),
    // helm is not built for the lowest tier.
    waits("lockstep-tests/dpuservice_admission", Quick::Except(&["helm_says_the_same"])),
    waits("lockstep-tests/namespaceclass", Quick::All),
    waits("lockstep-tests/bridge_admission", Quick::All),
    waits("lockstep-tests/sentinel_config", Quick::All),
    waits("lockstep-tests/sentinel_metrics", Quick::All),
    waits("lockstep-tests/sentinel_command", Quick::All),
    waits("lockstep-tests/dev", Quick::All),
    waits("lockstep-shell/dev_fleet", Quick::All),
];

const fn computes(name: &'static str, quick: Quick) -> Suite {
    Suite { name, lane: Lane::Computes, quick }
}

const fn waits(name: &'static str, quick: Quick) -> Suite {
    Suite { name, lane: Lane::Waits, quick }
}

impl Quick {
    /// libtest's arguments for it; none if nothing is to run.
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

/// Whether a tier runs any test of a suite.
pub(crate) fn is_run(tier: Tier, name: &str) -> bool {
    let is_left_out = |suite: &Suite| suite.name == name && matches!(suite.quick, Quick::Nothing);
    tier != Tier::Quick || !SUITES.iter().any(is_left_out)
}

/// The suites of a tier, longest first; only the wanted ones if some are named.
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

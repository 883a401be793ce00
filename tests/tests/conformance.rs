//! Tests that the API server model answers as a real kube-apiserver does.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lockstep_tests::conformance::{
    Kind, ModelArm, RealArm, Report, Scenario, changing_definitions, compare, install, lifecycles,
    own_definitions, own_lifecycles, sequences, widgets,
};
use lockstep_tests::control_plane::ControlPlane;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Runtime;

/// The number of generated sequences, unless `PROPTEST_CASES` sets another; twenty times as many in the tier `nightly`.
const SEQUENCES: u32 = 120;
const SEQUENCES_OF_EACH_KIND: u32 = 5;
const SEQUENCES_OF_DEFINITIONS: u32 = 30;

/// The number of compared requests, so that no suite passes that compares nothing. The numbers of the hand-written scenarios
/// and of the lifecycles are exact. The number of generated requests is a minimum, because it changes with the generator.
const HANDWRITTEN: usize = 1786;
const BUILT_IN_LIFECYCLES: usize = 2047;
const OWN_LIFECYCLES: usize = 273;
const GENERATED: usize = 1400;
const GENERATED_OF_ALL_KINDS: usize = 2500;
const GENERATED_OF_DEFINITIONS: usize = 500;

/// Returns the hand-written scenarios, in the order of their names; `SCENARIO` picks one.
fn scenarios() -> anyhow::Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let picked = std::env::var_os("SCENARIO");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if picked.is_none() || path.file_stem() == picked.as_deref() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[tokio::test]
async fn handwritten_scenarios_agree() -> anyhow::Result<()> {
    let mut real = RealArm::new(ControlPlane::shared()).await?;
    let mut report = Report::default();
    for path in scenarios()? {
        let scenario = Scenario::read(&path)?;
        let found = compare(&scenario, &mut ModelArm::default(), &mut real).await?;
        println!("{}: {} requests compared", scenario.name, found.compared);
        report.absorb(found);
    }
    settle(&report, HANDWRITTEN);
    Ok(())
}

#[tokio::test]
async fn the_lifecycles_of_built_in_kinds_agree() -> anyhow::Result<()> {
    lifecycles_agree(&lifecycles()?, &[], BUILT_IN_LIFECYCLES).await
}

#[tokio::test]
async fn the_lifecycles_of_our_own_kinds_agree() -> anyhow::Result<()> {
    lifecycles_agree(&own_lifecycles()?, &own_definitions(), OWN_LIFECYCLES).await
}

/// Compares lifecycles, each on a model of its own; `SCENARIO` picks one.
async fn lifecycles_agree(
    lifecycles: &[Scenario],
    definitions: &[CustomResourceDefinition],
    requests: usize,
) -> anyhow::Result<()> {
    let mut real = RealArm::new(ControlPlane::shared()).await?;
    for crd in definitions {
        install(&mut real, crd).await?;
    }
    let picked = std::env::var("SCENARIO").ok();
    let mut report = Report::default();
    for scenario in
        lifecycles.iter().filter(|lifecycle| picked.as_ref().is_none_or(|name| *name == lifecycle.name))
    {
        let mut model = ModelArm::default();
        for crd in definitions {
            install(&mut model, crd).await?;
        }
        report.absorb(compare(scenario, &mut model, &mut real).await?);
    }
    settle(&report, requests);
    Ok(())
}

/// Checks that there are no differences, and that all requests were compared, unless one scenario was picked.
#[expect(clippy::print_stdout, reason = "the figures belong to the output of the test")]
fn settle(report: &Report, requests: usize) {
    println!("{} requests compared, {} disagreements", report.compared, report.disagreements.len());
    assert!(report.disagreements.is_empty(), "{}", report.disagreements.join("\n\n"));
    if std::env::var_os("SCENARIO").is_none() {
        assert_eq!(report.compared, requests, "the number of requests is in this file and in docs/limits.md");
    }
}

#[test]
fn generated_sequences_about_config_maps_agree() -> anyhow::Result<()> {
    sequences_agree(&[("config-maps".to_owned(), sequences(&Kind::config_maps()))], SEQUENCES, GENERATED)
}

#[test]
fn generated_sequences_about_deployments_agree() -> anyhow::Result<()> {
    sequences_agree(&[("deployments".to_owned(), sequences(&Kind::deployments()))], SEQUENCES, GENERATED)
}

#[test]
fn generated_sequences_about_widgets_agree() -> anyhow::Result<()> {
    sequences_agree(&[("widgets".to_owned(), sequences(&Kind::widgets()))], SEQUENCES, GENERATED)
}

#[test]
fn generated_sequences_about_each_built_in_kind_agree() -> anyhow::Result<()> {
    let kinds = Kind::built_in()?;
    let named =
        kinds.iter().enumerate().map(|(number, kind)| (format!("built-in-{number}"), sequences(kind)));
    sequences_agree(&named.collect::<Vec<_>>(), SEQUENCES_OF_EACH_KIND, GENERATED_OF_ALL_KINDS)
}

#[test]
fn generated_sequences_about_changing_definitions_agree() -> anyhow::Result<()> {
    let sequences = ("changing".to_owned(), changing_definitions()?);
    sequences_agree(&[sequences], SEQUENCES_OF_DEFINITIONS, GENERATED_OF_DEFINITIONS)
}

/// The two servers of generated sequences.
struct Servers {
    runtime: Runtime,
    model: ModelArm,
    real: RealArm,
}

impl Servers {
    fn start() -> anyhow::Result<Self> {
        let runtime = Runtime::new()?;
        let (mut model, mut real) =
            (ModelArm::default(), runtime.block_on(RealArm::new(ControlPlane::shared()))?);
        runtime.block_on(install(&mut model, &widgets()?))?;
        runtime.block_on(install(&mut real, &widgets()?))?;
        Ok(Self { runtime, model, real })
    }

    /// Compares a sequence in a namespace of its own.
    fn compare(&mut self, namespace: String, scenario: Scenario) -> anyhow::Result<Report> {
        let scenario = Scenario { name: namespace.clone(), namespace, ..scenario };
        self.runtime.block_on(compare(&scenario, &mut self.model, &mut self.real))
    }
}

/// Compares sequences, the same in every run, and prints the rate of differences. The first failing sequence is shrunk.
#[expect(clippy::print_stdout, reason = "the figures belong to the output of the test")]
fn sequences_agree(
    strategies: &[(String, BoxedStrategy<Scenario>)],
    sequences: u32,
    least: usize,
) -> anyhow::Result<()> {
    let mut servers = Servers::start()?;
    let config = Config { failure_persistence: None, ..Config::default() };
    let is_nightly = std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly");
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config.cases,
        None if is_nightly => 20 * sequences,
        None => sequences,
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let (mut report, mut failing, number) = (Report::default(), Vec::new(), Cell::new(0));
    for (name, strategy) in strategies {
        for _ in 0..cases {
            let tree = strategy.new_tree(&mut runner).map_err(|reason| anyhow::anyhow!("{reason}"))?;
            number.set(number.get() + 1);
            let mut found = servers.compare(format!("generated-{name}-{}", number.get()), tree.current())?;
            // The states of the two servers differ after a difference, so only the first one counts.
            found.disagreements.truncate(1);
            if let Some(first) = found.disagreements.first_mut() {
                first.push_str("\n    in ");
                first.push_str(&tree.current().to_string());
                // Shrinking takes long: who stops the run keeps what was found.
                println!("{first}");
                failing.push((name, tree));
            }
            report.absorb(found);
        }
    }
    let (compared, different) = (report.compared, report.disagreements.len());
    let number_compared = number.get();
    println!(
        "{compared} requests of {number_compared} sequences compared, {different} sequences with a difference"
    );
    if let Some((name, tree)) = failing.into_iter().next() {
        let servers = RefCell::new(servers);
        let shrunk = runner.run_one(tree, |scenario| {
            number.set(number.get() + 1);
            let found = servers.borrow_mut().compare(format!("generated-{name}-{}", number.get()), scenario);
            match found.map_err(|error| TestCaseError::fail(format!("{error:#}")))?.disagreements.first() {
                None => Ok(()),
                Some(first) => Err(TestCaseError::fail(first.clone())),
            }
        });
        let mut text = report.disagreements.join("\n\n");
        if let Err(TestError::Fail(reason, scenario)) = shrunk {
            // Writing to a String can't fail.
            let _ = write!(text, "\n\nthe first one, shrunk: {reason}\n    in {scenario}");
        }
        anyhow::bail!(text);
    }
    anyhow::ensure!(cases < sequences || compared >= least, "only {compared} requests compared");
    Ok(())
}

//! Tests that the API server model answers as a real kube-apiserver does.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lockstep_tests::conformance::{
    CONFIG_MAPS, DEPLOYMENTS, Kind, ModelArm, RealArm, Report, Scenario, WIDGETS, compare, install,
    lifecycles, own_definitions, own_lifecycles, sequences, widgets,
};
use lockstep_tests::control_plane::ControlPlane;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tokio::runtime::Runtime;

/// The number of generated sequences of each kind, unless `PROPTEST_CASES` sets another; twenty times as many in the tier
/// `nightly`.
const SEQUENCES: u32 = 120;

/// The number of compared requests, so that no suite passes that compares nothing. The numbers of the hand-written scenarios
/// and of the lifecycles are exact. The number of generated requests is a minimum, because it changes with the generator.
const HANDWRITTEN: usize = 1263;
const BUILT_IN_LIFECYCLES: usize = 2047;
const OWN_LIFECYCLES: usize = 273;
const GENERATED: usize = 1400;

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
    sequences_agree("config-maps", CONFIG_MAPS)
}

#[test]
fn generated_sequences_about_deployments_agree() -> anyhow::Result<()> {
    sequences_agree("deployments", DEPLOYMENTS)
}

#[test]
fn generated_sequences_about_widgets_agree() -> anyhow::Result<()> {
    sequences_agree("widgets", WIDGETS)
}

/// Compares sequences, the same in every run, each in a namespace of its own. A failing sequence is shrunk.
#[expect(clippy::print_stdout, reason = "the figures belong to the output of the test")]
fn sequences_agree(name: &str, kind: Kind) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let mut arms = (ModelArm::default(), runtime.block_on(RealArm::new(ControlPlane::shared()))?);
    runtime.block_on(install(&mut arms.0, &widgets()?))?;
    runtime.block_on(install(&mut arms.1, &widgets()?))?;
    let (arms, number, compared) = (RefCell::new(arms), Cell::new(0), Cell::new(0));

    let config = Config { failure_persistence: None, ..Config::default() };
    let is_nightly = std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly");
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config.cases,
        None if is_nightly => 20 * SEQUENCES,
        None => SEQUENCES,
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { cases, ..config }, rng);
    let verdict = runner.run(&sequences(kind), |scenario| {
        number.set(number.get() + 1);
        let scenario = Scenario { namespace: format!("generated-{name}-{}", number.get()), ..scenario };
        let (model, real) = &mut *arms.borrow_mut();
        let report = runtime
            .block_on(compare(&scenario, model, real))
            .map_err(|error| TestCaseError::fail(format!("{error:#}")))?;
        compared.set(compared.get() + report.compared);
        match report.disagreements.first() {
            None => Ok(()),
            Some(first) => Err(TestCaseError::fail(first.clone())),
        }
    });
    println!("{name}: {} requests of {} sequences compared", compared.get(), number.get());
    verdict.map_err(|error| anyhow::anyhow!("{error}"))?;
    anyhow::ensure!(
        cases < SEQUENCES || compared.get() >= GENERATED,
        "only {} requests compared",
        compared.get()
    );
    Ok(())
}

//! Models of the systems around the running controllers.

use std::collections::BTreeSet;

use anyhow::Context as _;
use lockstep_crds::CrdSet;
use lockstep_engine::machine::Machine;
use lockstep_external as external;
use lockstep_external::argocd::ArgoCd;
use lockstep_external::{Level, Pace, System};

use super::dpus;

/// Returns the systems around these controllers, each once.
pub(super) fn systems(sets: &[CrdSet]) -> Vec<System> {
    let around = sets.iter().flat_map(|set| match set.controller {
        lockstep_crds::bridge::CONTROLLER => &external::BRIDGE[..],
        lockstep_crds::dpuservice::CONTROLLER => &external::DPUSERVICE[..],
        _ => &[],
    });
    around.copied().collect::<BTreeSet<System>>().into_iter().collect()
}

/// Returns the controllers of these systems, at a pace that people can follow. Only the charts of the examples can be
/// deployed: Argo CD knows no other.
pub(super) fn controllers(systems: &[System], seed: u64) -> anyhow::Result<Vec<Box<dyn Machine + Send>>> {
    let charts = dpus::charts()?;
    let controller = |system: &System| -> Box<dyn Machine + Send> {
        match system {
            System::ArgoCd => Box::new(Level::new(ArgoCd::offering(charts.clone()), Pace::BRISK, seed)),
            other => other.controller(Pace::BRISK, seed),
        }
    };
    Ok(systems.iter().map(controller).collect())
}

/// Returns the CRDs of these systems.
pub(super) fn definitions(systems: &[System]) -> anyhow::Result<CrdSet> {
    let definitions = external::definitions(systems).into_iter().map(serde_json::from_value);
    let crds = definitions.collect::<Result<_, _>>().context("not a CRD")?;
    Ok(CrdSet { controller: "around", runs_alone: true, crds })
}

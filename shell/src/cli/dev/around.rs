//! Models of the systems around the controllers that run.

use std::collections::BTreeSet;

use anyhow::Context as _;
use lockstep_core::engine::machine::Machine;
use lockstep_crds::CrdSet;
use lockstep_sim::external::argocd::ArgoCd;
use lockstep_sim::external::{self, Level, Pace, System};

use super::dpus;

/// The systems around these controllers, each once.
pub(super) fn systems(sets: &[CrdSet]) -> Vec<System> {
    let around = sets.iter().flat_map(|set| match set.controller {
        lockstep_crds::bridge::CONTROLLER => &external::BRIDGE[..],
        lockstep_crds::dpuservice::CONTROLLER => &external::DPUSERVICE[..],
        _ => &[],
    });
    around.copied().collect::<BTreeSet<System>>().into_iter().collect()
}

/// Their controllers, at a pace that suits those who watch. Of charts, only those of the
/// examples can be deployed: any other is unknown to Argo CD.
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

/// The definitions of their kinds.
pub(super) fn definitions(systems: &[System]) -> anyhow::Result<CrdSet> {
    let definitions = external::definitions(systems).into_iter().map(serde_json::from_value);
    let crds = definitions.collect::<Result<_, _>>().context("not a CRD")?;
    Ok(CrdSet { controller: "around", runs_alone: true, crds })
}

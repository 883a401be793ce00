//! Models of the systems around the controllers that run.

use std::collections::BTreeSet;

use anyhow::Context as _;
use lockstep_core::engine::machine::Machine;
use lockstep_crds::CrdSet;
use lockstep_sim::worlds::{self, Pace, System};

/// The systems around these controllers, each once.
pub(super) fn systems(sets: &[CrdSet]) -> Vec<System> {
    let around = sets.iter().flat_map(|set| match set.controller {
        lockstep_crds::bridge::CONTROLLER => &worlds::BRIDGE[..],
        lockstep_crds::dpuservice::CONTROLLER => &worlds::DPUSERVICE[..],
        _ => &[],
    });
    around.copied().collect::<BTreeSet<System>>().into_iter().collect()
}

/// Their controllers, at a pace that suits those who watch.
pub(super) fn controllers(systems: &[System], seed: u64) -> Vec<Box<dyn Machine + Send>> {
    worlds::controllers(systems, Pace::BRISK, seed)
}

/// The definitions of their kinds.
pub(super) fn definitions(systems: &[System]) -> anyhow::Result<CrdSet> {
    let definitions = worlds::definitions(systems).into_iter().map(serde_json::from_value);
    let crds = definitions.collect::<Result<_, _>>().context("a definition of the worlds is none")?;
    Ok(CrdSet { controller: "around", runs_alone: true, crds })
}

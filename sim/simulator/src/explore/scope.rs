//! The scope of an exploration.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::counterexample::{self, Found};
use super::depth_first::DepthFirst;
use super::outcome::Explored;
use super::setup::Setup;
use super::transition::Place;
use super::world::World;
use crate::bugs::Bug;
use crate::subject::{SmallWorld, SystemUnderTest};

/// The scope.
#[derive(Debug, Clone, Copy)]
pub struct Exploration {
    /// Maximum number of faults in a run. A crash, a broken or stale watch and a change of the leader are faults as well.
    pub faults: usize,
    /// Whether the order between independent parts of the world is left out.
    pub reduced: bool,
}

impl Exploration {
    /// Explores a small world of a controller, with a planted bug if one is given, until an invariant is violated. `progress`
    /// receives the number of distinct states after each new one, and returns whether to continue.
    pub fn run(
        &self,
        subject: &'static dyn SystemUnderTest,
        small: &SmallWorld,
        bug: Option<&'static Bug>,
        progress: &dyn Fn(u64) -> ControlFlow<()>,
    ) -> Explored {
        let setup = Arc::new(Setup::new(subject, small, bug));
        let mut search = DepthFirst::new(self.reduced, None, progress);
        let mut failure = None;
        for faults in self.places(&setup) {
            let found = match World::new(Arc::clone(&setup), faults.clone(), false) {
                Ok(root) => search.run(root),
                Err(_) => Some(Vec::new()),
            };
            if let Some(path) = found {
                let found = Found { setup: &setup, faults, path };
                failure = counterexample::shortest(found, &search, progress);
                break;
            }
            if search.is_cut_short {
                break;
            }
        }
        let DepthFirst { transitions, depth, finals, visited, is_cut_short, .. } = search;
        let is_complete = !is_cut_short && failure.is_none();
        Explored { states: visited.len() as u64, transitions, depth, finals, is_complete, failure }
    }

    /// Returns the possible distributions of the faults over the parts of the world. Each run has one of them. If it is chosen
    /// first, the parts without faults are independent of those with faults.
    fn places(&self, setup: &Setup) -> Vec<Vec<Place>> {
        if !self.reduced {
            return vec![vec![Place::Anywhere; self.faults]];
        }
        let mut parts: Vec<Place> =
            setup.small.users.iter().filter_map(|user| user.part).map(Place::Part).collect();
        parts.sort_unstable();
        parts.dedup();
        parts.push(Place::Whole);
        let mut all = vec![Vec::new()];
        for _ in 0..self.faults {
            all = all.iter().flat_map(|places| extended(places, &parts)).collect();
        }
        all
    }
}

/// Returns the distributions with one more fault, in ascending order, so that each occurs once.
fn extended(places: &[Place], parts: &[Place]) -> Vec<Vec<Place>> {
    let further = parts.iter().filter(|part| places.last().is_none_or(|last| last <= *part));
    further.map(|part| places.iter().copied().chain([*part]).collect()).collect()
}

//! The program of the processes of a simulation: the controller, with or without a planted bug.

use std::cell::Cell;

use lockstep_engine::action::{Failure, KubeRequest};
use lockstep_engine::machine::Machine;
use lockstep_engine::wire;

use crate::bugs::Bug;
use crate::cluster::Program;
use crate::subject::SystemUnderTest;

/// The program of a process in a simulation.
pub(super) struct Runs {
    pub(super) subject: &'static dyn SystemUnderTest,
    pub(super) bug: Option<&'static Bug>,
    pub(super) plan_seed: u64,
    pub(super) process: usize,
    pub(super) incarnations: Cell<u64>,
}

/// Returns the machine's seed for one incarnation of a process; both are counted from zero.
pub(crate) fn seed_of(plan_seed: u64, process: usize, incarnation: u64) -> u64 {
    plan_seed.wrapping_add(process as u64 * 1000).wrapping_add(incarnation)
}

impl Program for Runs {
    fn machine(&self) -> Box<dyn Machine> {
        let machine = self.subject.machine(seed_of(self.plan_seed, self.process, self.incarnations.get()));
        self.incarnations.set(self.incarnations.get() + 1);
        match self.bug {
            Some(bug) => (bug.plant)(machine),
            None => machine,
        }
    }

    fn encode(&self, request: &KubeRequest, manager: &str) -> Result<http::Request<Vec<u8>>, Failure> {
        let encoded = wire::encode(request, manager)?;
        Ok(match self.bug.and_then(|bug| bug.garble) {
            Some(garble) => garble(request, encoded),
            None => encoded,
        })
    }
}

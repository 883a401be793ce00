//! Tests the DPF-HCP Bridge with models of HyperShift, DPF, MetalLB and a registry, and with users who change everything.

use std::time::Duration;

use lockstep_apiserver::server::ApiServer;
use lockstep_bridge::Operator;
use lockstep_bridge::retry::{BACKOFF, DENIED, UNAVAILABLE};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::operator::Config;
use lockstep_external as external;
use lockstep_external::{Level, Pace};
use lockstep_sim::cluster::{Change, ExternalSystems};
use lockstep_sim::history::History;
use lockstep_sim::invariant::Invariant;
use lockstep_sim::subject::{Checker, Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use crate::kinds;

mod desired;
pub(crate) mod hypershift_crds;
mod operations;
mod phase_log;
mod reported;
mod rival;
mod rules;
mod setup;
pub mod small;

pub(crate) use self::operations::create_bridges;
pub(crate) use self::setup::{DPF, DPU_CLUSTERS};

/// The Bridge as a system under test.
#[derive(Debug, Clone, Copy)]
pub struct Bridge;

fn config(seed: u64) -> Config {
    let instance = format!("operator-{seed}");
    Config { concurrency: 3, resync: Duration::from_mins(10), instance, seed }
}

impl SystemUnderTest for Bridge {
    fn name(&self) -> &'static str {
        lockstep_crds::bridge::CONTROLLER
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Operator::new(config(seed)))
    }

    fn config(&self, seed: u64) -> Value {
        json!(config(seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "create", "apply", "patch", "patch_status", "delete", "find_image"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        kinds::create(client, self.name(), &external::BRIDGE);
        hypershift_crds::begin(client);
        setup::begin(client);
        operations::begin(client);
    }

    fn operations(&self) -> &'static [Operation] {
        operations::OPERATIONS
    }

    fn invariants(&self) -> &'static [Invariant] {
        rules::INVARIANTS
    }

    fn logs_written_conditions(&self) -> bool {
        true
    }

    fn reports(&self, server: &ApiServer) -> Vec<ObjectRef> {
        reported::rebuilt(server)
    }

    fn may_change(&self, change: &Change, _: &ApiServer, history: &History) -> Result<(), String> {
        rules::may_change(change, history)
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF, DENIED, UNAVAILABLE]
    }

    /// A last refusal just before can delay a retry by five minutes. Then HyperShift deletes a control plane and creates it
    /// again.
    fn bound(&self) -> Duration {
        Duration::from_mins(25)
    }

    fn calm(&self, client: &mut dyn Client) {
        hypershift_crds::install(client);
        setup::restore(client);
        operations::settle(client);
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        desired::differences(world.server)
    }

    fn witness(&self) -> Option<Box<dyn Checker>> {
        Some(Box::new(phase_log::PhaseLog::default()))
    }

    fn outside(&self) -> Option<Box<dyn ExternalSystems>> {
        Some(Box::new(setup::registry()))
    }

    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        let mut systems = external::controllers(&external::BRIDGE, Pace::SLOW, seed);
        systems.push(Box::new(Level::new(rival::Rival, Pace::AT_ONCE, seed)));
        systems
    }

    /// Control planes need minutes to start and stop.
    fn stormy(&self) -> Duration {
        Duration::from_mins(30)
    }
}

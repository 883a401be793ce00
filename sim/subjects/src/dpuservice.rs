//! Tests the DPUService controller with models of Argo CD, DPF and DPU clusters, and with users who change everything.

use std::time::Duration;

use lockstep_apiserver::server::ApiServer;
use lockstep_dpuservice::{BACKOFF, Operator};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::operator::Config;
use lockstep_external as external;
use lockstep_external::Pace;
use lockstep_sim::cluster::Change;
use lockstep_sim::history::{History, references};
use lockstep_sim::invariant::Invariant;
use lockstep_sim::subject::{Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use crate::kinds;

pub(crate) mod argocd;
mod desired;
mod identity;
mod operations;
mod reported;
mod rules;
mod setup;
pub mod small;

pub(crate) use self::operations::remove_missing_canaries;
pub(crate) use self::setup::{HOLD, create_service};

/// The DPUService controller as a system under test.
#[derive(Debug, Clone, Copy)]
pub struct DpuService;

fn config(seed: u64) -> Config {
    let instance = format!("operator-{seed}");
    Config { concurrency: 3, resync: Duration::from_mins(10), instance, seed }
}

impl SystemUnderTest for DpuService {
    fn name(&self) -> &'static str {
        lockstep_crds::dpuservice::CONTROLLER
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Operator::new(config(seed)))
    }

    fn config(&self, seed: u64) -> Value {
        json!(config(seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "list", "create", "apply", "patch", "patch_status", "delete"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        kinds::create(client, self.name(), &external::DPUSERVICE);
        setup::begin(client);
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
        references(server, &lockstep_dpuservice::names::service())
    }

    fn may_change(&self, change: &Change, _: &ApiServer, history: &History) -> Result<(), String> {
        rules::may_change(change, history)
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    /// A last refusal just before can delay a retry by five minutes. A removed cluster keeps its Applications for five more. Then
    /// Argo CD removes and starts what runs.
    fn bound(&self) -> Duration {
        Duration::from_mins(25)
    }

    /// Argo CD notices some changes only when it compares the next time.
    fn needs_no_resync(&self) -> bool {
        false
    }

    fn calm(&self, client: &mut dyn Client) {
        argocd::install(client);
        setup::restore(client);
        operations::settle(client);
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        desired::differences(world.server)
    }

    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        external::controllers(&external::DPUSERVICE, Pace::SLOW, seed)
    }

    /// Argo CD's changes take minutes.
    fn stormy(&self) -> Duration {
        Duration::from_mins(30)
    }
}

//! Tests the HyperFleet Sentinel with a fleet in both dialects, a broker, and adapters that answer events with reports.

use std::time::Duration;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::ObjectRef;
use lockstep_sentinel::{Sentinel as Operator, Settings};
use lockstep_sim::cluster::{Change, ExternalSystems};
use lockstep_sim::history::{History, references};
use lockstep_sim::invariant::Invariant;
use lockstep_sim::subject::{Checker, Client, Operation, SystemUnderTest, World};
use serde_json::json;

mod condensed;
mod desired;
mod expressions;
mod external;
mod listing;
mod measured;
mod names;
mod operations;
mod oracle;
mod outage_checker;
mod publish_checker;
mod record;
pub mod small;
mod takeover_checker;

use self::external::Beyond;
use self::names::{CONFIG, NAMESPACE};
pub(crate) use self::operations::poll_seldom;

/// The Sentinel as a system under test.
#[derive(Debug, Clone, Copy)]
pub struct Sentinel;

impl SystemUnderTest for Sentinel {
    fn name(&self) -> &'static str {
        lockstep_crds::sentinel::CONTROLLER
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Operator::new(settings(seed)))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "patch_status", "fetch", "connect", "publish"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        create_kind(client);
        operations::restore(client);
    }

    fn operations(&self) -> &'static [Operation] {
        operations::OPERATIONS
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[]
    }

    /// Permits only changes to the status of its own configuration.
    fn may_change(&self, change: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        let spec = |object: &Option<_>| {
            object.as_ref().map(|object: &std::sync::Arc<serde_json::Value>| object["spec"].clone())
        };
        let is_own = change.object.kind.kind == "SentinelConfig" && change.object.name == CONFIG;
        if is_own && change.old.is_some() && spec(&change.old) == spec(&change.new) {
            return Ok(());
        }
        Err(format!("{} is not the Sentinel's to change", change.object))
    }

    /// It has no keys that back off.
    fn backoffs(&self) -> &'static [Backoff] {
        &[]
    }

    /// A connection that failed repeatedly is retried after half a minute, and so is the read of a Secret. A status follows after
    /// that. A write that was forbidden is retried after ten minutes.
    fn bound(&self) -> Duration {
        Duration::from_mins(12)
    }

    fn calm(&self, client: &mut dyn Client) {
        operations::restore(client);
        if let Some(beyond) = operations::beyond(client) {
            beyond.0.heal(beyond.1);
        }
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        desired::differences(world)
    }

    fn outside(&self) -> Option<Box<dyn ExternalSystems>> {
        Some(Box::new(Beyond::new()))
    }

    fn witness(&self) -> Option<Box<dyn Checker>> {
        Some(Box::<publish_checker::PublishChecker>::default())
    }

    /// A cycle starts every five seconds.
    fn stormy(&self) -> Duration {
        Duration::from_mins(15)
    }

    fn reports(&self, server: &ApiServer) -> Vec<ObjectRef> {
        references(server, &lockstep_sentinel::loader::kind())
    }

    fn becomes_idle(&self) -> bool {
        false
    }
}

fn settings(seed: u64) -> Settings {
    let (namespace, config) = (NAMESPACE.to_owned(), CONFIG.to_owned());
    Settings { namespace, config, logs_decisions: false, traces: false, seed }
}

fn create_kind(client: &mut dyn Client) {
    for crd in lockstep_crds::of(lockstep_crds::sentinel::CONTROLLER) {
        client.create_kind(&json!(crd), &[NAMESPACE]);
    }
}

//! Tests several controllers in one cluster: each with its own leader, its own operations and its own invariants, and all of them
//! with the same objects.
//!
//! The Bridge gives DPUClusters their kubeconfig, and the DPUService controller deploys to these DPUClusters. Classes of the
//! NamespaceClass operator govern the namespaces of bridges, services and clusters. A Sentinel polls, less often than when it is alone:
//! most of the time of a search would pass in polls.

use std::time::Duration;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_external as external;
use lockstep_external::{Pace, System};
use lockstep_sim::cluster::{Author, Change, Combined, ExternalSystems};
use lockstep_sim::history::History;
use lockstep_sim::invariant::Invariant;
use lockstep_sim::subject::{Client, Operation, SystemUnderTest, World};

use crate::bridge::Bridge;
use crate::dpuservice::{DpuService, remove_missing_canaries};
use crate::sentinel::poll_seldom;

mod desired;
mod members;
mod operations;
mod rules;

use self::members::MEMBERS;

/// The name of the system under test.
pub const NAME: &str = "together";

/// The controllers, in one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Together;

/// The systems around all of them.
const SYSTEMS: [System; 5] =
    [System::HyperShift, System::Dpf, System::MetalLb, System::DpuClusters, System::ArgoCd];

impl SystemUnderTest for Together {
    fn name(&self) -> &'static str {
        NAME
    }

    fn members(&self) -> &'static [&'static dyn SystemUnderTest] {
        MEMBERS
    }

    fn machine(&self, _: u64) -> Box<dyn Machine> {
        unreachable!("a process runs one of the members")
    }

    fn actions(&self) -> &'static [&'static str] {
        &[
            "discover",
            "get",
            "list",
            "create",
            "apply",
            "patch",
            "patch_status",
            "delete",
            "find_image",
            "fetch",
            "connect",
            "publish",
        ]
    }

    fn prepare(&self, client: &mut dyn Client) {
        for member in MEMBERS {
            member.prepare(client);
        }
        poll_seldom(client);
    }

    fn operations(&self) -> &'static [Operation] {
        &operations::OPERATIONS
    }

    fn invariants(&self) -> &'static [Invariant] {
        rules::INVARIANTS
    }

    /// Permits what the controller may change when it runs alone.
    fn may_change(&self, change: &Change, server: &ApiServer, history: &History) -> Result<(), String> {
        let Author::Process(process) = change.by else { return Ok(()) };
        // The shell of a controller holds it.
        if change.object.kind.kind == "Lease" {
            return Ok(());
        }
        let controller = history.controller(process);
        match MEMBERS.iter().find(|member| Some(member.name()) == controller) {
            Some(member) => member.may_change(change, server, history),
            None => Err(format!("process {process} runs no controller")),
        }
    }

    /// Each of the members has its own.
    fn backoffs(&self) -> &'static [Backoff] {
        &[]
    }

    /// Services can be deployed to a cluster only after its bridge is ready.
    fn bound(&self) -> Duration {
        Bridge.bound() + DpuService.bound()
    }

    fn needs_no_resync(&self) -> bool {
        DpuService.needs_no_resync()
    }

    fn calm(&self, client: &mut dyn Client) {
        operations::release(client);
        for member in MEMBERS {
            member.calm(client);
        }
        poll_seldom(client);
        operations::complete(client);
        operations::abandon_clusters(client);
        remove_missing_canaries(client);
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let of_members = MEMBERS.iter().flat_map(|member| member.differences(world));
        of_members.chain(desired::differences(world.server)).collect()
    }

    fn outside(&self) -> Option<Box<dyn ExternalSystems>> {
        Some(Box::new(Combined(MEMBERS.iter().filter_map(|member| member.outside()).collect())))
    }

    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        external::controllers(&SYSTEMS, Pace::SLOW, seed)
    }

    /// Control planes, and then the deployments to them, take minutes.
    fn stormy(&self) -> Duration {
        Duration::from_mins(30)
    }
}

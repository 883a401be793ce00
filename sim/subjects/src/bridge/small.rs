//! Worlds that are small enough to explore every run in them: one or two bridges for a DPUCluster.

use lockstep_bridge::Operator;
use lockstep_engine::machine::Machine;
use lockstep_engine::operator::Config;
use lockstep_external as external;
use lockstep_external::Pace;
use lockstep_sim::explorable::Explorable;
use lockstep_sim::subject::{Client, Operation, SmallWorld, SystemUnderTest as _, User};

use super::operations::{create_named, target};
use super::setup::{self, BRIDGES};
use super::{Bridge, config};
use crate::kinds;

/// A bridge is created.
pub const CREATED: SmallWorld = SmallWorld {
    name: "a bridge is created",
    machine,
    prepare,
    external: around,
    outside: || Some(Box::new(setup::registry())),
    users: &[User { part: None, operations: &[CREATE] }],
    part: |_| None,
};

/// A bridge is created and deleted.
pub const DELETED: SmallWorld = SmallWorld {
    name: "a bridge is created and deleted",
    users: &[User { part: None, operations: &[CREATE, DELETE] }],
    ..CREATED
};

/// Two bridges are created for the same DPUCluster.
pub const RIVALS: SmallWorld = SmallWorld {
    name: "two bridges are created for one DPUCluster",
    users: &[User { part: None, operations: &[CREATE] }, User { part: None, operations: &[CREATE_RIVAL] }],
    ..CREATED
};

/// All of them, the smallest first.
pub const ALL: [SmallWorld; 3] = [CREATED, DELETED, RIVALS];

const CREATE: Operation =
    Operation::new("create bridge prod", "user", 1, |client, _| create_named(client, BRIDGES[0], 0));
const CREATE_RIVAL: Operation =
    Operation::new("create bridge lab", "user", 1, |client, _| create_named(client, BRIDGES[3], 0));
const DELETE: Operation = Operation::new("delete bridge prod", "user", 1, |client, _| {
    client.delete(&target(BRIDGES[0]));
});

/// Returns a machine that can reconcile all keys at the same time.
fn machine(seed: u64) -> Box<dyn Explorable> {
    Box::new(Operator::new(Config { concurrency: 16, ..config(seed) }))
}

fn around() -> Vec<Box<dyn Machine + Send>> {
    external::controllers(&external::BRIDGE, Pace::AT_ONCE, 0)
}

fn prepare(client: &mut dyn Client) {
    kinds::create(client, Bridge.name(), &external::BRIDGE);
    setup::begin_small(client);
}

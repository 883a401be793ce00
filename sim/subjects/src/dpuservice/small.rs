//! Worlds that are small enough to explore every run in them: a DPU cluster, and one or two services.

use lockstep_dpuservice::Operator;
use lockstep_dpuservice::names;
use lockstep_engine::machine::Machine;
use lockstep_engine::operator::Config;
use lockstep_external as external;
use lockstep_external::Pace;
use lockstep_sim::explorable::Explorable;
use lockstep_sim::subject::{Client, Operation, SmallWorld, SystemUnderTest as _, User};
use serde_json::json;

use super::setup::{self, CLUSTERS, SERVICES, VERSIONS, name, service};
use super::{DpuService, config};
use crate::kinds;

/// A service is created for a cluster that exists.
pub const CREATED: SmallWorld = SmallWorld {
    name: "a service is created",
    machine,
    prepare,
    external: around,
    outside: || None,
    users: &[User { part: None, operations: &[CREATE] }],
    part: |_| None,
};

/// A service is created and deleted.
pub const DELETED: SmallWorld = SmallWorld {
    name: "a service is created and deleted",
    users: &[User { part: None, operations: &[CREATE, DELETE] }],
    ..CREATED
};

/// Two services are created.
pub const TWO_SERVICES: SmallWorld = SmallWorld {
    name: "two services are created",
    users: &[User { part: None, operations: &[CREATE] }, User { part: None, operations: &[CREATE_OTHER] }],
    ..CREATED
};

/// A service is restored from a backup, with its finalizer.
pub const RESTORED: SmallWorld = SmallWorld {
    name: "a service is restored",
    users: &[User { part: None, operations: &[RESTORE] }],
    ..CREATED
};

/// All of them, the smallest first.
pub const ALL: [SmallWorld; 4] = [RESTORED, CREATED, DELETED, TWO_SERVICES];

const CREATE: Operation = Operation::new("create edge/agent", "user", 1, |client, _| create(client, 0));
const CREATE_OTHER: Operation =
    Operation::new("create edge/storage", "user", 1, |client, _| create(client, 2));
const RESTORE: Operation = Operation::new("restore edge/agent", "user", 1, |client, _| {
    let mut backup = service(&name(SERVICES[0]), VERSIONS[0]);
    backup["metadata"]["finalizers"] = json!([names::FINALIZER]);
    client.create(&names::service(), &backup);
});
const DELETE: Operation = Operation::new("delete edge/agent", "user", 1, |client, _| {
    client.delete(&name(SERVICES[0]).object(&names::service()));
});

/// Returns a machine that can reconcile all keys at the same time.
fn machine(seed: u64) -> Box<dyn Explorable> {
    Box::new(Operator::new(Config { concurrency: 16, ..config(seed) }))
}

fn around() -> Vec<Box<dyn Machine + Send>> {
    external::controllers(&external::DPUSERVICE, Pace::AT_ONCE, 0)
}

fn prepare(client: &mut dyn Client) {
    kinds::create(client, DpuService.name(), &external::DPUSERVICE);
    setup::create_namespaces(client);
    setup::create_cluster(client, &name(CLUSTERS[0]));
}

fn create(client: &mut dyn Client, index: usize) {
    client.create(&names::service(), &service(&name(SERVICES[index]), VERSIONS[0]));
}

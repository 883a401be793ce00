//! Worlds that are small enough to explore every run in them: a fleet without or with one resource, and a broker.
//! No operation may change a Secret: the description of a state leaves secrets out.

use lockstep_sentinel::Sentinel as Operator;
use lockstep_sim::explorable::Explorable;
use lockstep_sim::subject::{Client, Operation, SmallWorld, User};
use serde_json::json;

use super::external::{Beyond, HOSTS};
use super::operations::{self, config};
use super::{create_kind, settings};

/// A resource is created.
pub const CREATED: SmallWorld = SmallWorld {
    name: "a resource is created",
    machine,
    prepare,
    external: Vec::new,
    outside: || Some(Box::new(Beyond::small(0))),
    users: &[User { part: None, operations: &[CREATE] }],
    part: |_| None,
};

/// A fleet with one resource is polled.
pub const POLLED: SmallWorld = SmallWorld {
    name: "a resource is polled",
    outside: || Some(Box::new(Beyond::small(1))),
    users: &[],
    ..CREATED
};

/// A resource is created, and the connection to the broker breaks.
pub const DISCONNECTED: SmallWorld = SmallWorld {
    name: "a resource is created, and the connection breaks",
    users: &[User { part: None, operations: &[CREATE] }, User { part: None, operations: &[DISCONNECT] }],
    ..CREATED
};

/// A resource is created, and the configuration changes to another host.
pub const REDIRECTED: SmallWorld = SmallWorld {
    name: "a resource is created, and the host changes",
    users: &[User { part: None, operations: &[CREATE] }, User { part: None, operations: &[REDIRECT] }],
    ..CREATED
};

/// The configuration is deleted and created again.
pub const REPLACED: SmallWorld = SmallWorld {
    name: "the configuration is replaced",
    users: &[User { part: None, operations: &[REPLACE] }],
    ..CREATED
};

/// All of them, the smallest first.
pub const ALL: [SmallWorld; 5] = [POLLED, CREATED, REPLACED, DISCONNECTED, REDIRECTED];

const CREATE: Operation = Operation::new("create a resource", "user", 1, |client, _| {
    if let Some((beyond, now)) = operations::beyond(client) {
        beyond.create("us-east", now);
    }
});
const DISCONNECT: Operation = Operation::new("the connection breaks", "broker", 1, |client, _| {
    if let Some((beyond, _)) = operations::beyond(client) {
        beyond.cut();
    }
});
const REDIRECT: Operation = Operation::new("change the host of the API", "user", 1, |client, _| {
    client.merge(&config(), &json!({ "spec": { "hyperfleetAPI": { "url": HOSTS[3].url } } }));
});
const REPLACE: Operation = Operation::new("replace the configuration", "user", 1, |client, _| {
    client.delete(&config());
    operations::begin_small(client);
});

fn machine(seed: u64) -> Box<dyn Explorable> {
    Box::new(Operator::new(settings(seed)))
}

fn prepare(client: &mut dyn Client) {
    create_kind(client);
    operations::begin_small(client);
}

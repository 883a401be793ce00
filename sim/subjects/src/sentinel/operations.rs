//! The operations of users, adapters and the network.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_engine::random::Random;
use lockstep_external::hyperfleet::Dialect;
use lockstep_external::hyperfleet::damage::Damage;
use lockstep_sentinel::loader;
use lockstep_sim::subject::{Client, Operation};
use serde_json::{Value, json};

use super::expressions;
use super::external::{Beyond, HOSTS};
use super::names::{CONFIG, NAMESPACE, PASSWORD};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::new("create resources", "user", 8, create),
    Operation::new("remove resources", "user", 4, remove),
    Operation::new("move a resource to another shard", "user", 4, relabel),
    Operation::new("report on resources", "adapter", 10, report),
    Operation::new("answers of the API get damaged", "network", 10, damage),
    Operation::new("pages of the API can't be read for a while", "fleet", 8, spoil),
    Operation::new("resources get large specifications", "user", 5, enlarge),
    Operation::new("the broker goes down for a while", "broker", 5, go_down),
    Operation::new("the connection breaks between events", "broker", 6, break_soon),
    Operation::new("the connection breaks while nothing is sent", "broker", 4, break_now),
    Operation::new("the broker refuses events", "broker", 6, refuse),
    Operation::new("the broker takes nothing for a while", "broker", 3, take_nothing),
    Operation::new("change the configuration", "user", 8, configure),
    Operation::new("change the expressions", "user", 8, express),
    Operation::new("change the host of the API", "user", 6, redirect),
    Operation::new("break the configuration", "user", 4, misconfigure),
    Operation::new("remove the configuration and create it again", "user", 3, replace),
    Operation::new("change the password of the broker", "user", 3, change_password),
    Operation::new("remove the Secret", "user", 2, remove_secret),
    Operation::new("put everything right", "user", 6, put_right),
];

/// Returns the systems outside Kubernetes and their time.
pub(super) fn beyond(client: &mut dyn Client) -> Option<(&mut Beyond, Timestamp)> {
    let (outside, now) = client.outside()?;
    Some((outside.find_mut()?, now))
}

fn secret() -> ObjectRef {
    let kind = Kind::known("", "v1", "Secret", "secrets", true);
    ObjectRef::namespaced(&kind, NAMESPACE, "rabbitmq")
}

pub(super) fn config() -> ObjectRef {
    ObjectRef::namespaced(&loader::kind(), NAMESPACE, CONFIG)
}

fn good_spec() -> Value {
    json!({
        "resourceType": "clusters",
        "backoffNotReady": "10s",
        "backoffReady": "30m",
        "pollInterval": "5s",
        "shardSelector": { "matchLabels": { "region": "us-east" }, "matchExpressions": null },
        "hyperfleetAPI": { "url": HOSTS[1].url, "timeout": "10s", "dialect": "search" },
        "broker": { "type": "rabbitmq", "topic": "events", "urlSecretRef": { "name": "rabbitmq", "key": "url" } },
    })
}

fn url_with(password: &str) -> Value {
    json!({ "url": STANDARD.encode(format!("amqp://sentinel:{password}@rabbitmq:5672/")) })
}

/// Restores the configuration and the Secret to their correct state.
pub(super) fn restore(client: &mut dyn Client) {
    write(client, &good_spec());
    client.merge(&config(), &json!({ "spec": expressions::none() }));
}

/// Lets the Sentinel poll once in a minute.
pub(crate) fn poll_seldom(client: &mut dyn Client) {
    client.merge(&config(), &json!({ "spec": { "pollInterval": "1m" } }));
}

/// Creates a configuration that polls every four minutes, and its Secret: each further poll multiplies the runs.
pub(super) fn begin_small(client: &mut dyn Client) {
    let mut spec = good_spec();
    spec["pollInterval"] = json!("4m");
    spec["backoffNotReady"] = json!("4m");
    write(client, &spec);
}

fn write(client: &mut dyn Client, spec: &Value) {
    let kind = Arc::clone(&secret().kind);
    let object =
        json!({ "metadata": { "namespace": NAMESPACE, "name": "rabbitmq" }, "data": url_with(PASSWORD) });
    client.create(&kind, &object);
    client.merge(&secret(), &json!({ "data": url_with(PASSWORD) }));
    let object = json!({ "metadata": { "namespace": NAMESPACE, "name": CONFIG }, "spec": spec });
    client.create(&loader::kind(), &object);
    client.merge(&config(), &json!({ "spec": spec }));
}

fn create(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, now)) = beyond(client) else { return };
    for _ in 0..=random.below(40) {
        beyond.create(random.pick(&["us-east", "us-east", "eu-west"]), now);
    }
}

fn remove(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, _)) = beyond(client) else { return };
    for _ in 0..=random.below(20) {
        if let Some(id) = beyond.any(random).filter(|_| beyond.resources().len() > 50) {
            beyond.remove(&id);
        }
    }
}

fn relabel(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, now)) = beyond(client) else { return };
    if let Some(id) = beyond.any(random) {
        beyond.label(&id, random.pick(&["us-east", "eu-west"]), now);
    }
}

fn report(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, now)) = beyond(client) else { return };
    for _ in 0..=random.below(10) {
        if let Some(id) = beyond.any(random) {
            beyond.report(&id, random.below(2) == 0, now);
        }
    }
}

fn damage(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, _)) = beyond(client) else { return };
    let item = usize::try_from(random.below(100)).unwrap_or(0);
    let damage = random.pick(&[
        Damage::Html,
        Damage::EmptyBody,
        Damage::TruncatedJson,
        Damage::WrongTimeFormat { item },
        Damage::MissingId { item },
        Damage::ItemNotAnObject { item },
        Damage::NullStatus { item },
        Damage::ServerError(500),
        Damage::ServerError(503),
        Damage::Throttled { retry_after: 3 },
        Damage::Throttled { retry_after: 0 },
    ]);
    for _ in 0..=random.below(6) {
        beyond.damage.push_back(damage);
    }
}

/// Makes the first page, the last page or any page unreadable, and perhaps some pages after it.
fn spoil(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, now)) = beyond(client) else { return };
    let ids: Vec<String> = beyond.resources().map(|resource| resource.id.clone()).collect();
    let anywhere = random.below(ids.len() as u64);
    let first = random.pick(&[0, anywhere, anywhere, ids.len().saturating_sub(1) as u64]);
    let rows = random.pick(&[1, 1, 20, 40, 60]);
    let spoilt = ids.into_iter().skip(usize::try_from(first).unwrap_or(0)).take(rows).collect();
    let lasts = Duration::from_secs(1 + random.below(60));
    beyond.unreadable = (spoilt, now.saturating_add(lasts).unwrap_or(now));
}

/// Enlarges consecutive resources, so that pages get too large. Sometimes one of them can't be read at all.
fn enlarge(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, now)) = beyond(client) else { return };
    let first = usize::try_from(random.below(beyond.resources().len() as u64)).unwrap_or(0);
    let is_huge = random.below(4) == 0;
    let rows = if is_huge { 1 } else { random.pick(&[1, 2, 3, 3]) };
    let ids = beyond.resources().skip(first).take(rows).map(|resource| resource.id.clone()).collect();
    beyond.enlarge(ids, is_huge, now);
}

fn go_down(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, now)) = beyond(client) else { return };
    let lasts = Duration::from_secs(1 + random.below(120));
    beyond.broker.down_until = now.saturating_add(lasts).unwrap_or(now);
    beyond.cut();
}

fn break_soon(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, _)) = beyond(client) else { return };
    beyond.broker.breaks_after = Some(random.below(60));
}

fn break_now(client: &mut dyn Client, _: &mut Random) {
    if let Some((beyond, _)) = beyond(client) {
        beyond.cut();
    }
}

fn refuse(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, _)) = beyond(client) else { return };
    beyond.broker.nacks = 1 + random.below(80);
}

fn redirect(client: &mut dyn Client, random: &mut Random) {
    let host = random.pick(&[&HOSTS[0], &HOSTS[0], &HOSTS[1], &HOSTS[2], &HOSTS[3], &HOSTS[4], &HOSTS[4]]);
    let dialect = if host.dialect == Dialect::Released { "search" } else { "labels" };
    // Some configurations have the wrong dialect.
    let dialect = if random.below(4) == 0 { random.pick(&["labels", "search"]) } else { dialect };
    client.merge(&config(), &json!({ "spec": { "hyperfleetAPI": { "url": host.url, "dialect": dialect } } }));
}

/// Simulates a user that may connect but not write, a topic that is gone, or an exhausted quota.
fn take_nothing(client: &mut dyn Client, random: &mut Random) {
    let Some((beyond, now)) = beyond(client) else { return };
    let lasts = Duration::from_secs(30 + random.below(180));
    beyond.broker.takes_nothing_until = now.saturating_add(lasts).unwrap_or(now);
}

fn configure(client: &mut dyn Client, random: &mut Random) {
    let region = random.pick(&["us-east", "us-east", "eu-west"]);
    let spec = match random.below(5) {
        0 => {
            json!({ "shardSelector": { "matchLabels": { "region": region }, "matchExpressions": null } })
        }
        1 => json!({ "backoffNotReady": random.pick(&["5s", "10s", "15s", "1m"]) }),
        2 => json!({ "backoffReady": random.pick(&["1m", "3m", "30m"]) }),
        3 => json!({ "shardSelector": { "matchLabels": null, "matchExpressions": [requirement(random)] } }),
        _ => {
            json!({ "pollInterval": random.pick(&["2s", "5s", "8s"]), "broker": { "exchange": random.pick(&["x", "y"]) } })
        }
    };
    client.merge(&config(), &json!({ "spec": spec }));
}

/// Returns a requirement of a selector that most, some or no resources meet.
fn requirement(random: &mut Random) -> Value {
    let values = random.pick(&[&["us-east"][..], &["us-east", "eu-west"], &["us-west"]]);
    match random.below(4) {
        0 => json!({ "key": "region", "operator": "Exists" }),
        1 => json!({ "key": "zone", "operator": "DoesNotExist" }),
        2 => json!({ "key": "region", "operator": "NotIn", "values": values }),
        _ => json!({ "key": "region", "operator": "In", "values": values }),
    }
}

fn express(client: &mut dyn Client, random: &mut Random) {
    client.merge(&config(), &json!({ "spec": expressions::any(random) }));
}

/// Sets an invalid configuration that the API server accepts.
fn misconfigure(client: &mut dyn Client, random: &mut Random) {
    let spec = match random.below(5) {
        0 => json!({ "hyperfleetAPI": { "url": "http://" } }),
        3 => json!({ "shardSelector": { "matchLabels": { "region": "us east" } } }),
        1 => json!({ "broker": { "urlSecretRef": { "name": "another" } } }),
        2 => json!({ "messageDecision": { "result": "resource.generation >" } }),
        _ => json!({ "hyperfleetAPI": { "url": "http://nowhere" } }),
    };
    client.merge(&config(), &json!({ "spec": spec }));
}

fn replace(client: &mut dyn Client, random: &mut Random) {
    client.delete(&config());
    if random.below(3) > 0 {
        restore(client);
    }
}

fn change_password(client: &mut dyn Client, random: &mut Random) {
    let password = format!("tops3cret-{}", 2 + random.below(8));
    let Some((beyond, _)) = beyond(client) else { return };
    beyond.broker.password.clone_from(&password);
    beyond.cut();
    if random.below(2) == 0 {
        client.merge(&secret(), &json!({ "data": url_with(&password) }));
    }
}

fn remove_secret(client: &mut dyn Client, _: &mut Random) {
    client.delete(&secret());
}

fn put_right(client: &mut dyn Client, _: &mut Random) {
    restore(client);
    if let Some((beyond, now)) = beyond(client) {
        beyond.heal(now);
    }
}

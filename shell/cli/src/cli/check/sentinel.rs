//! Checks each SentinelConfig of a namespace: what its Sentinel reports, and whether the fleet's API and the broker can be
//! reached from here.

use std::time::Duration;

use k8s_openapi::ByteString;
use lockstep_engine::action::{Action, ErrorKind, Failure, Fetch};
use lockstep_engine::broker::Broker;
use lockstep_engine::object::{Kind, Name, ObjectRef, metadata};
use lockstep_sentinel::config::{self, Config, Target};
use lockstep_sentinel::fleet::{self, Place};
use lockstep_sentinel::status::{BROKER_CONNECTED, FLEET_REACHABLE, PUBLISHING};
use reqwest::Url;
use serde_json::Value;
use tokio::net::TcpStream;

use super::super::cluster::Cluster;
use super::finding::Finding;
use super::permissions::{Account, Permission};

const CHECK: &str = "Sentinel";

/// How long the connection to a broker may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What to do if a system is not reachable from here, which need not mean that the Sentinel can't reach it.
const FROM_HERE: &str = "check its URL, or run the check in the pod of the Sentinel";

pub(super) async fn check(cluster: &Cluster, account: &Account, namespace: &str) -> Vec<Finding> {
    let kind = Kind::known(
        lockstep_crds::sentinel::GROUP,
        lockstep_crds::sentinel::VERSION,
        "SentinelConfig",
        "sentinelconfigs",
        true,
    );
    let configs = match cluster.list(&kind, Some(namespace)).await {
        Ok(configs) => configs,
        // A check of its own reports the missing CRD.
        Err(failure) if failure.class == ErrorKind::KindNotServed => return Vec::new(),
        Err(failure) => {
            let message = format!("SentinelConfigs could not be listed ({failure})");
            return vec![Finding::warn(CHECK, namespace, message, "use an account that may list them")];
        }
    };
    if configs.is_empty() {
        let remedy =
            "name the namespace of the fleet with --namespace, or leave the Sentinel out of --controllers";
        return vec![Finding::warn(CHECK, namespace, "no SentinelConfig", remedy)];
    }
    let mut findings = Vec::new();
    for object in configs {
        findings.extend(one(cluster, account, &object).await);
    }
    findings
}

async fn one(cluster: &Cluster, account: &Account, object: &Value) -> Vec<Finding> {
    let subject = format!("SentinelConfig {}", Name::of(object));
    let config = match config::read(object) {
        Ok(config) => config,
        Err(problems) => {
            return vec![Finding::fail(CHECK, &subject, problems.join("; "), "correct its spec")];
        }
    };
    let mut findings = vec![reported(&subject, object), fleet(cluster, &subject, &config).await];
    let namespace = metadata(object, "namespace");
    if let Target::InSecret { secret, .. } = &config.target {
        let read = Permission {
            group: String::new(),
            resource: "secrets".to_owned(),
            name: secret.name.clone(),
            namespace: namespace.to_owned(),
            verb: "get".to_owned(),
        };
        let remedy = "name the Secret in the chart's value sentinels: the Role of the chart then grants it";
        findings.push(account.check(&subject, [read].into(), remedy).await);
    }
    let broker = match address(cluster, namespace, &config.target).await {
        Ok(address) => reach(&subject, &address).await,
        Err(problem) => {
            Finding::warn(CHECK, &subject, problem, "correct spec.broker or the Secret that it names")
        }
    };
    findings.push(broker);
    findings
}

/// Returns what the Sentinel itself reports: its view counts, because it runs where it must reach the systems.
fn reported(subject: &str, object: &Value) -> Finding {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) else {
        let remedy = "start its Sentinel with the chart's value sentinels";
        return Finding::warn(CHECK, subject, "no Sentinel has reported a status", remedy);
    };
    let broken = conditions.iter().filter(|condition| {
        let is_checked =
            [FLEET_REACHABLE, BROKER_CONNECTED, PUBLISHING].iter().any(|known| condition["type"] == **known);
        is_checked && condition["status"] == "False"
    });
    let broken = broken.map(|condition| {
        let field = |field: &str| condition[field].as_str().unwrap_or_default();
        format!("{}=False ({}: {})", field("type"), field("reason"), field("message"))
    });
    let broken = broken.collect::<Vec<_>>().join("; ");
    if broken.is_empty() {
        return Finding::ok(CHECK, subject, "its Sentinel reports no failure");
    }
    Finding::fail(CHECK, subject, format!("its Sentinel reports {broken}"), "see the condition's message")
}

async fn fleet(cluster: &Cluster, subject: &str, config: &Config) -> Finding {
    let url = fleet::url(
        &config.url,
        config.dialect,
        &config.resource_type,
        &config.selector,
        &Place { size: 1, ..Place::default() },
    );
    let (headers, timeout) = (config.headers.clone(), config.timeout);
    let action = Action::Http(Fetch { url, headers, timeout, keep: config.fields() });
    let shown = lockstep_runtime::failure::masked(&config.url);
    match cluster.execute(&action).await {
        Ok(_) => Finding::ok(CHECK, subject, format!("fleet API {shown} answers")),
        Err(failure) if failure.class == ErrorKind::Forbidden => {
            let message = format!(
                "fleet API {shown} answers, but refuses the token of this process ({})",
                failure.message
            );
            Finding::warn(CHECK, subject, message, "set HYPERFLEET_API_TOKEN_FILE to a file with the token")
        }
        Err(failure) => {
            let message = format!("fleet API {shown} could not be read from here ({})", failure.message);
            Finding::warn(CHECK, subject, message, FROM_HERE)
        }
    }
}

/// Connects without logging in: a login would declare the exchange.
async fn reach(subject: &str, address: &str) -> Finding {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let problem = match connected {
        Ok(Ok(_)) => {
            let message = format!("broker {address} accepts connections; credentials were not checked");
            return Finding::ok(CHECK, subject, message);
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    Finding::warn(
        CHECK,
        subject,
        format!("broker {address} can't be reached from here ({problem})"),
        FROM_HERE,
    )
}

/// Returns the host and port of the broker; never the credentials in its URL.
async fn address(cluster: &Cluster, namespace: &str, target: &Target) -> Result<String, String> {
    match target {
        Target::Known(Broker::RabbitMq { url, .. }) => host(url.reveal()),
        Target::Known(Broker::PubSub { .. }) => {
            let emulator = std::env::var("PUBSUB_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
            Ok(emulator.unwrap_or_else(|| "pubsub.googleapis.com:443".to_owned()))
        }
        Target::InSecret { secret, .. } => {
            let kind = Kind::known("", "v1", "Secret", "secrets", true);
            let target = ObjectRef::namespaced(&kind, namespace, &secret.name);
            let place = format!("key {:?} of {target}", secret.key);
            let unreadable = |failure: Failure| format!("{place} could not be read ({failure})");
            let found = cluster.get(target).await.map_err(unreadable)?;
            let found = found.ok_or_else(|| format!("Secret {namespace}/{} does not exist", secret.name))?;
            let data = found["data"].get(&secret.key).cloned().unwrap_or_default();
            let data: ByteString =
                serde_json::from_value(data).map_err(|_| format!("{place} does not exist"))?;
            let url = String::from_utf8(data.0).map_err(|_| format!("{place} is not a URL"))?;
            host(url.trim()).map_err(|_| format!("{place} is not a URL"))
        }
    }
}

fn host(url: &str) -> Result<String, String> {
    // The text itself may contain a password.
    let parsed = Url::parse(url).map_err(|_| "the URL of the broker can't be parsed".to_owned())?;
    let port = parsed.port().unwrap_or(if parsed.scheme() == "amqps" { 5671 } else { 5672 });
    let host = parsed.host_str().ok_or_else(|| "the URL of the broker has no host".to_owned())?;
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_address_of_a_broker_has_no_credentials() {
        assert_eq!(host("amqp://user:hush@rabbit/"), Ok("rabbit:5672".to_owned()));
        assert_eq!(host("amqps://user:hush@rabbit"), Ok("rabbit:5671".to_owned()));
        assert_eq!(host("amqp://user:hush@rabbit:7/x"), Ok("rabbit:7".to_owned()));
        let error = host("hush").unwrap_err();
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn failures_that_a_sentinel_reports_are_failures() {
        let config = |status: &str| {
            let condition = serde_json::json!({
                "type": "BrokerConnected", "status": status, "reason": "ConnectionFailed", "message": "refused",
            });
            serde_json::json!({"status": {"conditions": [condition]}})
        };
        assert_eq!(reported("x", &config("True")).level, Level::Ok);
        let failed = reported("x", &config("False"));
        assert_eq!(failed.level, Level::Fail);
        assert!(failed.message.contains("BrokerConnected=False (ConnectionFailed: refused)"), "{failed}");
        assert_eq!(reported("x", &serde_json::json!({})).level, Level::Warn);
    }
}

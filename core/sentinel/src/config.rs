//! Parses a SentinelConfig: durations, selector, broker, and every problem in them.
//!
//! Source: HyperFleet Sentinel, "Config Loader".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_crds::sentinel::{Broker as BrokerSpec, SecretKeyRef, SentinelConfigSpec};
use lockstep_engine::broker::{Broker, Exchange, ExchangeType, SecretString};
use lockstep_engine::document::Fields;
use lockstep_engine::duration;
use serde_json::Value;

use super::decision::Backoffs;
use super::fleet::{self, Parser};
use super::resource::{Dialect, ResourceType};
use super::rules::Rules;
use super::selector::Selector;

/// The resources that a Sentinel watches, and the broker to which it publishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The kind of resources.
    pub resource_type: ResourceType,
    /// The backoffs of the resources.
    pub backoffs: Backoffs,
    /// The selector of the resources.
    pub selector: Selector,
    /// The base URL of the API.
    pub url: String,
    /// The time limit for one answer of the API.
    pub timeout: Duration,
    /// The dialect of the API.
    pub dialect: Dialect,
    /// Additional headers of each request.
    pub headers: BTreeMap<String, String>,
    /// The broker for the events.
    pub target: Target,
    /// The time from the end of one poll to the beginning of the next.
    pub poll_interval: Duration,
    /// The expressions that decide instead of the backoffs, or add fields to events.
    pub rules: Option<Arc<Rules>>,
}

impl Config {
    /// Returns the fields of a page that are kept.
    pub fn fields(&self) -> Arc<Fields> {
        self.rules.as_ref().map_or_else(fleet::fields, |rules| fleet::fields_for(rules.fields()))
    }

    /// Returns the parser of pages.
    pub fn parser(&self) -> Parser<'_> {
        Parser { dialect: self.dialect, selector: &self.selector, keeps_documents: self.rules.is_some() }
    }
}

/// The broker for the events, as far as the configuration alone defines it.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A completely defined broker.
    Known(Broker),
    /// A RabbitMQ broker whose URL is in a Secret.
    InSecret {
        /// The Secret and the key that contain the URL.
        secret: SecretKeyRef,
        /// The exchange.
        exchange: Exchange,
    },
}

impl Target {
    /// Returns the type of the broker, under the name that configurations and metrics use.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Known(broker) => broker.name(),
            Self::InSecret { .. } => "rabbitmq",
        }
    }
}

/// Parses a configuration. The error lists every problem: what is wrong, in which field, and how to fix it.
pub fn read(object: &Value) -> Result<Config, Vec<String>> {
    let spec: SentinelConfigSpec =
        serde_json::from_value(object["spec"].clone()).map_err(|error| vec![format!("spec: {error}")])?;
    let mut problems = Vec::new();
    let mut duration = |field: &str, text: &str| {
        let read = duration::parse(text).and_then(|duration| match duration {
            short if short < Duration::from_millis(1) => {
                Err(format!("{text:?} is too short: at least 1ms is needed"))
            }
            duration => Ok(duration),
        });
        read.map_err(|problem| problems.push(format!("spec.{field}: {problem}"))).unwrap_or_default()
    };
    let backoffs = Backoffs {
        ready: duration("backoffReady", &spec.backoff_ready),
        not_ready: duration("backoffNotReady", &spec.backoff_not_ready),
    };
    let poll_interval = duration("pollInterval", &spec.poll_interval);
    let timeout = duration("hyperfleetAPI.timeout", &spec.hyperfleet_api.timeout);
    let resource_type = ResourceType::read(&spec.resource_type).unwrap_or_else(|| {
        problems.push(format!(
            "spec.resourceType: {:?} is no kind of resources; write its plural, such as clusters or nodepools",
            spec.resource_type
        ));
        ResourceType::default()
    });
    let dialect = match spec.hyperfleet_api.dialect.as_deref() {
        Some("search") => Dialect::Search,
        other => {
            if let Some(other) = other.filter(|other| *other != "labels") {
                problems.push(format!("spec.hyperfleetAPI.dialect: {other:?} is neither labels nor search"));
            }
            Dialect::Labels
        }
    };
    let url = spec.hyperfleet_api.url;
    if !is_url(&url, &["http", "https"]) {
        problems.push(format!(
            "spec.hyperfleetAPI.url: {:?} is no URL of an API; write http://host:port or https://host:port",
            without_credentials(&url)
        ));
    }
    let headers = spec.hyperfleet_api.headers;
    problems.extend(headers.iter().filter_map(|(name, value)| header(name, value)));
    let selector = spec.shard_selector.map_or(Ok(Selector::default()), |selector| Selector::read(&selector));
    let selector = selector.map_err(|mut wrong| problems.append(&mut wrong)).unwrap_or_default();
    let rules = Rules::read(spec.message_decision.as_ref(), &spec.message_data);
    let rules = rules.map_err(|mut wrong| problems.append(&mut wrong)).unwrap_or_default();
    match (target(spec.broker), problems.is_empty()) {
        (Ok(target), true) => Ok(Config {
            resource_type,
            backoffs,
            selector,
            url,
            timeout,
            dialect,
            headers,
            target,
            poll_interval,
            rules: rules.map(Arc::new),
        }),
        (target, _) => {
            problems.extend(target.err());
            Err(problems)
        }
    }
}

fn target(broker: BrokerSpec) -> Result<Target, String> {
    if broker.topic.is_empty() {
        return Err("spec.broker.topic: is empty; name the topic".to_owned());
    }
    match broker.r#type.as_str() {
        "gcp-pubsub" => match broker.project_id.filter(|project| !project.is_empty()) {
            Some(project) => Ok(Target::Known(Broker::PubSub { project, topic: broker.topic })),
            None => Err("spec.broker.projectID: is missing; the type gcp-pubsub needs it".to_owned()),
        },
        "rabbitmq" => {
            let (name, topic) = (broker.exchange.filter(|exchange| !exchange.is_empty()), broker.topic);
            let name = name.unwrap_or_else(|| topic.clone());
            let exchange = match broker.exchange_type.as_deref() {
                None | Some("fanout") => Exchange { name, r#type: ExchangeType::Fanout, routing_key: topic },
                // Released adapters bind their queues without a routing key.
                Some("topic") => Exchange { name, r#type: ExchangeType::Topic, routing_key: String::new() },
                Some(other) => {
                    return Err(format!("spec.broker.exchangeType: {other:?} is neither fanout nor topic"));
                }
            };
            match (broker.url.filter(|url| !url.is_empty()), broker.url_secret_ref) {
                (Some(url), None) => {
                    let url = broker_url(&url).map_err(|problem| format!("spec.broker.url: {problem}"))?;
                    Ok(Target::Known(Broker::RabbitMq { url, exchange }))
                }
                (None, Some(secret)) => Ok(Target::InSecret { secret, exchange }),
                (Some(_), Some(_)) => {
                    Err("spec.broker: url and urlSecretRef are both given; remove one".to_owned())
                }
                (None, None) => Err("spec.broker: the type rabbitmq needs url or urlSecretRef".to_owned()),
            }
        }
        other => Err(format!("spec.broker.type: {other:?} is neither gcp-pubsub nor rabbitmq")),
    }
}

/// Parses a broker's URL. The error does not show it, because it may contain a password.
pub(super) fn broker_url(url: &str) -> Result<SecretString, String> {
    if is_url(url, &["amqp", "amqps"]) {
        Ok(SecretString::new(url))
    } else {
        let form = "amqp://user:password@host:5672/vhost, or amqps://; percent-encode special characters (/ is %2F, @ is %40)";
        Err(format!("is no URL of a RabbitMQ broker; write {form}"))
    }
}

/// Headers that the Sentinel sets itself.
const OWN_HEADERS: [&str; 6] =
    ["accept", "authorization", "connection", "content-length", "host", "transfer-encoding"];

/// Returns what is wrong with a header; the value is not shown.
fn header(name: &str, value: &str) -> Option<String> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let problem = if !is_name {
        "is no name of a header: write letters, digits and hyphens"
    } else if name.eq_ignore_ascii_case("authorization") {
        "is set by the Sentinel: put the token into the file that HYPERFLEET_API_TOKEN_FILE names"
    } else if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        "is set by the Sentinel: remove it"
    } else if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        "has a value that no header can have: write printable ASCII characters"
    } else {
        return None;
    };
    Some(format!("spec.hyperfleetAPI.headers: {name:?} {problem}"))
}

fn is_url(url: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let is_plain = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // The end of a password that is not percent-encoded would be a path, which messages show.
    let is_whole = !path.contains('@');
    schemes.contains(&scheme) && is_plain && is_whole && !host.is_empty() && !host.starts_with(':')
}

/// Returns a URL without credentials, for messages.
pub(super) fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        (_, None) => url.to_owned(),
    }
}

#[cfg(test)]
mod tests;

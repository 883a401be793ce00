//! The destination of spans, from the standard variables of OpenTelemetry.
//!
//! Source: OpenTelemetry, "OpenTelemetry Protocol Exporter" and "Environment Variable Specification". An empty variable counts
//! as unset, and a variable for traces overrides that for all signals.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::Url;

/// The collector for all signals; the path of traces is appended to it.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The collector for traces, with the path.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// The path of traces.
const PATH: &str = "/v1/traces";

/// The default timeout of the collector for a batch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The destination of spans, and their service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The URL at which the collector accepts traces.
    pub endpoint: Url,
    /// The timeout for a batch, all attempts together.
    pub timeout: Duration,
    /// The name of the service in the spans.
    pub service: String,
}

impl Settings {
    /// Reads the variables with `look_up`. Returns `None` if no collector is named. The default name of the service is
    /// `service`. The error names the wrong variable and its fix, but not its value, which may be secret.
    pub fn read(service: &str, look_up: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Self>> {
        let look_up = |name: &str| look_up(name).filter(|value| !value.is_empty());
        let of_traces = |name: &str| {
            let mut names = ["TRACES_", ""].into_iter().map(|of| format!("OTEL_EXPORTER_OTLP_{of}{name}"));
            names.find_map(|name| look_up(&name).map(|value| (name, value)))
        };
        let endpoint = match (look_up(TRACES_ENDPOINT), look_up(ENDPOINT)) {
            (Some(url), _) => collector(&url).context(TRACES_ENDPOINT)?,
            (None, Some(url)) => {
                collector(&format!("{}{PATH}", url.trim_end_matches('/'))).context(ENDPOINT)?
            }
            (None, None) => return Ok(None),
        };
        for (name, known) in
            [("PROTOCOL", ["http/protobuf"].as_slice()), ("COMPRESSION", ["none", "gzip"].as_slice())]
        {
            if let Some((variable, value)) = of_traces(name)
                && !known.contains(&value.as_str())
            {
                bail!("{variable} is {value:?}; it must be {}", known.join(" or "));
            }
        }
        let timeout = match of_traces("TIMEOUT") {
            Some((variable, value)) => {
                let millis = value.parse().with_context(|| {
                    format!("{variable} is {value:?}; it must be a number of milliseconds, such as 10000")
                })?;
                Duration::from_millis(millis)
            }
            None => TIMEOUT,
        };
        Ok(Some(Self { endpoint, timeout, service: self::service(service, look_up) }))
    }

    /// Returns the address of the collector, without secrets.
    pub(super) fn collector(&self) -> String {
        self.endpoint.origin().ascii_serialization()
    }
}

fn collector(url: &str) -> anyhow::Result<Url> {
    const HINT: &str =
        "write the URL of a collector that speaks OTLP over HTTP, such as http://collector:4318";
    let url = Url::parse(url).with_context(|| format!("it is no URL; {HINT}"))?;
    let is_http = matches!(url.scheme(), "http" | "https");
    ensure!(is_http && url.has_host(), "it is no URL of HTTP or HTTPS; {HINT}");
    Ok(url)
}

fn service(default: &str, look_up: impl Fn(&str) -> Option<String>) -> String {
    let attributes = look_up("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let mut attributes = attributes.split(',').filter_map(|attribute| attribute.split_once('='));
    let among =
        attributes.find(|(key, _)| key.trim() == "service.name").map(|(_, name)| name.trim().to_owned());
    look_up("OTEL_SERVICE_NAME").or(among).unwrap_or_else(|| default.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> anyhow::Result<Option<Settings>> {
        let look_up = |name: &str| {
            let (_, value) = variables.iter().find(|(variable, _)| *variable == name)?;
            Some((*value).to_owned())
        };
        Settings::read("sentinel", look_up)
    }

    #[test]
    fn without_a_collector_there_are_none() {
        for variables in [vec![], vec![(ENDPOINT, "")], vec![("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]] {
            assert_eq!(read(&variables).unwrap(), None);
        }
    }

    #[test]
    fn the_variable_for_traces_outranks_that_for_all() {
        let settings = |variables: &[(&str, &str)]| read(variables).unwrap().expect("a collector");
        for (variables, endpoint) in [
            (vec![(ENDPOINT, "http://c:4318")], "http://c:4318/v1/traces"),
            (vec![(ENDPOINT, "https://c/otlp/")], "https://c/otlp/v1/traces"),
            (vec![(ENDPOINT, "http://c"), (TRACES_ENDPOINT, "http://t/mine")], "http://t/mine"),
            (vec![(TRACES_ENDPOINT, "http://[::1]:4318")], "http://[::1]:4318/"),
        ] {
            let expected = Settings {
                endpoint: endpoint.parse().unwrap(),
                timeout: TIMEOUT,
                service: "sentinel".to_owned(),
            };
            assert_eq!(settings(&variables), expected);
        }

        let mut variables = vec![
            (ENDPOINT, "http://c"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name = east"),
        ];
        let Settings { timeout, service, .. } = settings(&variables);
        assert_eq!((timeout, service.as_str()), (Duration::from_millis(1500), "east"));
        variables.push(("OTEL_SERVICE_NAME", "west"));
        assert_eq!(settings(&variables).service, "west");
    }

    #[test]
    fn invalid_settings_are_reported_without_secrets() {
        let endpoint = "such as http://collector:4318";
        for (variables, expected) in [
            (vec![(ENDPOINT, "hunter2@collector:4318")], vec![ENDPOINT, "is no URL", endpoint]),
            (vec![(ENDPOINT, "collector:4318/hunter2")], vec![ENDPOINT, "HTTP or HTTPS", endpoint]),
            (
                vec![(TRACES_ENDPOINT, "grpc://me:hunter2@c")],
                vec![TRACES_ENDPOINT, "HTTP or HTTPS", endpoint],
            ),
            (
                vec![(TRACES_ENDPOINT, "http://me:hunter2@:4318")],
                vec![TRACES_ENDPOINT, "is no URL", "empty host"],
            ),
            (
                vec![(ENDPOINT, "http://c"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
                vec!["OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\"; it must be http/protobuf"],
            ),
            (
                vec![(ENDPOINT, "http://c"), ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zip")],
                vec!["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION is \"zip\"; it must be none or gzip"],
            ),
            (
                vec![(ENDPOINT, "http://c"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")],
                vec!["OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\"; it must be a number of milliseconds"],
            ),
        ] {
            let message = format!("{:#}", read(&variables).unwrap_err());
            assert!(expected.iter().all(|part| message.contains(part)), "{message}");
            assert!(!message.contains("hunter2") && !message.contains('\n'), "{message}");
        }
    }
}

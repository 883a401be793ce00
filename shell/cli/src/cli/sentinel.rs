//! `lockstep sentinel`, also available under the name `sentinel`.

use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{CommandFactory as _, FromArgMatches as _};
use lockstep_cli::controllers;
use lockstep_engine::duration;
use lockstep_engine::lease::Election;
use lockstep_engine::machine::{Event, Machine};
use lockstep_runtime::address::Address;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::connect;
use lockstep_runtime::failure::masked;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::run::Options;
use lockstep_runtime::spans::{self, Spans};
use lockstep_sentinel::event::SOURCE;
use lockstep_sentinel::{Sentinel, Settings};
use tracing::info;

use super::election::ElectionArgs;
use super::page::{Page, PageArgs};
use super::serving::{Listeners, Serving};
use super::signal::Signals;
use super::{logging, process};

/// Runs the HyperFleet Sentinel of one SentinelConfig
///
/// It polls the resources of its shard and publishes a reconcile event for each one with an expired backoff. The cluster
/// is that of the current kubeconfig (KUBECONFIG, ~/.kube/config), or that of the pod in which it runs.
#[derive(Debug, clap::Parser)]
#[command(after_help = ENVIRONMENT, max_term_width = 100)]
pub(crate) struct Args {
    /// The name of the SentinelConfig
    #[arg(long, value_name = "NAME")]
    config: String,

    /// The namespace of the SentinelConfig [default: `POD_NAMESPACE`, or that of the context or of the pod]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Where /metrics is served; 0 disables it
    #[arg(long, value_name = "ADDR", default_value = ":8080")]
    metrics_bind_address: Address,

    /// Where /healthz and /readyz are served; 0 disables it
    #[arg(long, value_name = "ADDR", default_value = ":8081")]
    health_probe_bind_address: Address,

    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    election: ElectionArgs,

    /// The name of the Lease, in the namespace of the SentinelConfig [default: the name of the SentinelConfig]
    #[arg(long, value_name = "NAME")]
    lease_name: Option<String>,
}

const ENVIRONMENT: &str = "\
Environment:
  HYPERFLEET_API_TOKEN_FILE       A file with the bearer token for the HyperFleet API; read again when it changes
  GOOGLE_APPLICATION_CREDENTIALS  The key for Google Pub/Sub [default: that of the environment]
  PUBSUB_EMULATOR_HOST            The Pub/Sub emulator to publish to, such as localhost:8085
  LOCKSTEP_SHUTDOWN_TIMEOUT       How long to wait for confirms in flight at shutdown [default: 5s]
  LOCKSTEP_LOG_LEVEL              off, error, warn, info, debug (logs each decision), trace [default: info]
  LOCKSTEP_LOG_FORMAT             text or json [default: text]
  LOCKSTEP_TRACEPARENT            true: events name their place in the trace of their poll (W3C Trace Context)
                                  [default: false]
  OTEL_EXPORTER_OTLP_ENDPOINT     An OpenTelemetry collector for the spans of polls and of the events that they publish,
                                  such as http://collector:4318; events name their place then [default: none]

Install the CRD first: lockstep crds --controllers sentinel | kubectl apply --server-side -f -
Ctrl-C or SIGTERM ends it, after the confirms in flight.";

/// The minimum time for the export of the last spans, even if the confirms used the whole shutdown timeout.
const LAST_SPANS: Duration = Duration::from_secs(1);

/// Returns whether the program was called by the name of the Sentinel.
pub(crate) fn is_called() -> bool {
    let name = std::env::args_os().next();
    name.is_some_and(|name| Path::new(&name).file_name() == Some("sentinel".as_ref()))
}

/// Parses the command line of the program with that name.
pub(crate) fn parse() -> Args {
    let matches = Args::command().name("sentinel").version(env!("CARGO_PKG_VERSION")).get_matches();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The settings from environment variables.
struct Environment {
    log_level: String,
    log_format: logging::Format,
    grace: Duration,
    traces: bool,
    spans: Option<spans::Settings>,
}

impl Environment {
    fn read() -> anyhow::Result<Self> {
        let log_format = match variable("LOCKSTEP_LOG_FORMAT") {
            Some(format) => <logging::Format as clap::ValueEnum>::from_str(&format, true)
                .map_err(|_| anyhow!("LOCKSTEP_LOG_FORMAT is {format:?}; it must be text or json"))?,
            None => logging::Format::Text,
        };
        let grace = match variable("LOCKSTEP_SHUTDOWN_TIMEOUT") {
            Some(text) => {
                duration::parse(&text).map_err(|error| anyhow!("LOCKSTEP_SHUTDOWN_TIMEOUT: {error}"))?
            }
            None => Duration::from_secs(5),
        };
        let spans = spans::Settings::read(SOURCE, variable)?;
        let traces = match variable("LOCKSTEP_TRACEPARENT").as_deref() {
            None | Some("false") => spans.is_some(),
            Some("true") => true,
            Some(other) => bail!("LOCKSTEP_TRACEPARENT is {other:?}; it must be true or false"),
        };
        let log_level = variable("LOCKSTEP_LOG_LEVEL").unwrap_or_else(|| "info".to_owned());
        Ok(Self { log_level, log_format, grace, traces, spans })
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let environment = Environment::read()?;
    logging::start(&environment.log_level, environment.log_format)?;
    let mut signals = Signals::new()?;
    let preparing = prepare(&args, &environment);
    let (serving, spans) = tokio::select! {
        biased;
        () = signals.next() => return Ok(()),
        ready = preparing => ready?,
    };
    let result = serving.run(&mut signals).await;
    if let (Ok(()), Some(spans)) = (&result, spans) {
        let waited = signals.first().map(|first| first.elapsed()).unwrap_or_default();
        spans.finish(environment.grace.saturating_sub(waited).max(LAST_SPANS)).await;
    }
    result
}

async fn prepare(args: &Args, environment: &Environment) -> anyhow::Result<(Serving, Option<Spans>)> {
    let config = connect::configuration(None, None).await?;
    let own = args.namespace.clone().or_else(|| variable("POD_NAMESPACE"));
    let namespace = own.unwrap_or_else(|| config.default_namespace.clone());
    let metrics = Metrics::new(prometheus::Registry::new())?;
    let client = connect::client(config.clone(), &metrics)?;
    let object = format!("{namespace}/{}", args.config);
    info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = masked(&config.cluster_url.to_string()),
        controllers = lockstep_crds::sentinel::CONTROLLER,
        config = object,
        leader_elect = args.election.leader_elect,
        "starting"
    );
    let clock = Clock::start(jiff::Timestamp::now);
    let seed = process::seed();
    let mut manager = Manager::new(client, clock.clone(), seed, metrics.clone());
    let spans = environment.spans.as_ref().map(|spans| Spans::export(spans, object.clone())).transpose()?;
    if args.election.leader_elect {
        let lease = args.lease_name.as_ref().unwrap_or(&args.config);
        let election = Election::new(&namespace, lease, process::instance());
        manager.elect(Box::new(election), connect::client(config, &metrics)?);
    }
    let sentinel = Sentinel::new(Settings {
        namespace,
        config: args.config.clone(),
        logs_decisions: tracing::enabled!(tracing::Level::DEBUG),
        traces: environment.traces,
        seed,
    });
    let options = Options {
        grace: environment.grace,
        final_event: Some(Event::LeadershipChanged { leading: false }),
        spans: spans.clone(),
        ..controllers::options(lockstep_crds::sentinel::CONTROLLER)
    };
    let page_at = &args.page.status_bind_address;
    let mut page = (*page_at != Address::Off).then(Page::new);
    let machine: Box<dyn Machine + Send> = match &mut page {
        Some(page) => page.follow_sentinel(sentinel, &object)?,
        None => Box::new(sentinel),
    };
    manager.add_with(machine, options);
    let listeners =
        Listeners::bind(&args.metrics_bind_address, &args.health_probe_bind_address, page_at).await?;
    Ok((Serving::new(manager, metrics, clock, page, listeners), spans))
}

/// Returns an environment variable that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

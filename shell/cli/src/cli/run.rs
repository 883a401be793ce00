//! `lockstep run`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use lockstep_cli::controllers;
use lockstep_crds::CrdSet;
use lockstep_engine::action::ErrorKind;
use lockstep_engine::duration;
use lockstep_engine::lease::Election;
use lockstep_engine::machine::Machine;
use lockstep_engine::operator::Config;
use lockstep_runtime::address::Address;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::execute::Executor;
use lockstep_runtime::failure::masked;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::run::Options;
use lockstep_runtime::{connect, record};
use tracing::info;

use super::choice::Choice;
use super::cluster::ClusterArgs;
use super::election::ElectionArgs;
use super::misuse::Misuse;
use super::page::{Page, PageArgs};
use super::serving::{Listeners, Serving};
use super::signal::Signals;
use super::{logging, process};

/// Runs controllers against a cluster
///
/// The cluster is that of the current kubeconfig (--kubeconfig, KUBECONFIG, ~/.kube/config), or that of the pod in which
/// it runs. Every flag also has an environment variable. If a flag is repeated, the last value wins.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    choice: Choice,

    /// The namespace of the Lease for leader election [default: the namespace of the context, or of the pod]
    #[arg(long, value_name = "NAMESPACE", env = "LOCKSTEP_NAMESPACE")]
    namespace: Option<String>,

    /// Where /metrics is served; 0 disables it
    #[arg(long, value_name = "ADDR", default_value = ":8080", env = "LOCKSTEP_METRICS_BIND_ADDRESS")]
    metrics_bind_address: Address,

    /// Where /healthz and /readyz are served; 0 disables it
    #[arg(long, value_name = "ADDR", default_value = ":8081", env = "LOCKSTEP_HEALTH_PROBE_BIND_ADDRESS")]
    health_probe_bind_address: Address,

    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    election: ElectionArgs,

    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "lockstep", env = "LOCKSTEP_LEASE_NAME")]
    lease_name: String,

    /// What to log: off, error, warn, info, debug, trace, or directives such as `info,lockstep=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "LOCKSTEP_LOG_LEVEL")]
    log_level: String,

    /// The format of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", env = "LOCKSTEP_LOG_FORMAT")]
    log_format: logging::Format,

    /// Maximum number of concurrent reconciles of each controller [default: 16; bridge: 5]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1024),
        env = "LOCKSTEP_CONCURRENCY"
    )]
    concurrency: Option<u16>,

    /// Interval of the resync of all objects, such as 90s, 10m or 1h
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = resync, env = "LOCKSTEP_RESYNC")]
    resync: Duration,

    /// Write every step of the controller to this file, without the values of Secrets, for `lockstep replay`
    #[arg(long, value_name = "FILE", env = "LOCKSTEP_RECORD")]
    record: Option<PathBuf>,

    /// Maximum size of the recording, such as 512Ki, 64Mi or 1Gi, before a new file begins; three older ones are
    /// kept as FILE.1, FILE.2 and FILE.3
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64Mi",
        value_parser = size,
        env = "LOCKSTEP_RECORD_MAX_SIZE"
    )]
    record_max_size: u64,

    #[command(flatten)]
    cluster: ClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  lockstep run --controllers namespaceclass
  lockstep run --context staging --log-level debug
  lockstep run --leader-elect --namespace lockstep-system --log-format json
  lockstep run --metrics-bind-address 127.0.0.1:9090 --health-probe-bind-address 0
  lockstep run --controllers namespaceclass --record run.jsonl
  lockstep run --controllers namespaceclass --status-bind-address :8082

Install the CRDs first:
  lockstep crds --controllers namespaceclass | kubectl apply --server-side -f -
Ctrl-C or SIGTERM ends it, after what is being written.";

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let sets = controllers::select_running(&args.choice.controllers).map_err(Misuse::of)?;
    if args.record.is_some() && sets.len() != 1 {
        let names = sets.iter().map(|set| set.controller).collect::<Vec<_>>().join(", ");
        let story = format!("--record records one controller; choose it with --controllers, out of {names}");
        return Err(Misuse(story).into());
    }
    logging::start(&args.log_level, args.log_format)?;
    let mut signals = Signals::new()?;
    let preparing = async {
        let config = args.cluster.config().await?;
        let metrics = Metrics::new(prometheus::Registry::new())?;
        let client = connect(config.clone(), &sets, &metrics).await?;
        let account = connect::account(&client).await;
        info!(
            version = env!("CARGO_PKG_VERSION"),
            cluster = masked(&config.cluster_url.to_string()),
            account = account.as_deref().unwrap_or("unknown"),
            controllers = sets.iter().map(|set| set.controller).collect::<Vec<_>>().join(","),
            leader_elect = args.election.leader_elect,
            "starting"
        );
        let page_at = &args.page.status_bind_address;
        let listeners =
            Listeners::bind(&args.metrics_bind_address, &args.health_probe_bind_address, page_at).await?;
        let clock = Clock::start(jiff::Timestamp::now);
        let (instance, seed) = (process::instance(), process::seed());
        let mut manager = Manager::new(client, clock.clone(), seed, metrics.clone());
        let mut recording = None;
        let mut page = (*page_at != Address::Off).then(Page::new);
        for set in &sets {
            let concurrency = args.concurrency.unwrap_or_else(|| controllers::concurrency(set.controller));
            let settings = Config {
                concurrency: concurrency.into(),
                resync: args.resync,
                instance: instance.clone(),
                seed,
            };
            let machine = process::controller(set.controller, &settings)?;
            let traits = machine.traits();
            let mut machine: Box<dyn Machine + Send> = if let Some(path) = args.record.clone() {
                let options = record::Options { path, max_bytes: args.record_max_size };
                let (recorded, begun) = record::start(machine, serde_json::to_value(&settings)?, options)?;
                recording = Some(begun);
                Box::new(recorded)
            } else {
                machine
            };
            if let Some(page) = &mut page {
                machine = page.follow(machine, traits, set, set.controller)?;
            }
            let max_in_flight = controllers::requests_in_flight(concurrency);
            manager.add_with(machine, Options { max_in_flight, ..controllers::options(set.controller) });
        }
        if args.election.leader_elect {
            let namespace = args.namespace.as_deref().unwrap_or(&config.default_namespace);
            let election = Election::new(namespace, &args.lease_name, instance);
            manager.elect(Box::new(election), connect::client(config, &metrics)?);
        }
        Ok::<_, anyhow::Error>((Serving::new(manager, metrics, clock, page, listeners), recording))
    };
    // A signal ends the program even if a connection hangs.
    let (serving, recording) = tokio::select! {
        biased;
        () = signals.next() => return Ok(()),
        ready = preparing => ready?,
    };
    let result = serving.run(&mut signals).await;
    if let Some(recording) = recording {
        recording.finish();
    }
    result
}

/// Connects, and checks that the cluster answers and has our CRDs.
async fn connect(config: kube::Config, sets: &[CrdSet], metrics: &Metrics) -> anyhow::Result<kube::Client> {
    let url = masked(&config.cluster_url.to_string());
    let client = connect::client(config, metrics)?;
    let executor = Executor::new(client.clone(), "run");
    let kinds = controllers::kinds(sets);
    let missing = controllers::missing(&executor, &kinds).await.map_err(|failure| match failure.class {
        ErrorKind::Unavailable | ErrorKind::Unknown => {
            anyhow!("cannot reach the Kubernetes API at {url}: {}", failure.message)
        }
        ErrorKind::NotFound
        | ErrorKind::KindNotServed
        | ErrorKind::AlreadyExists
        | ErrorKind::Conflict
        | ErrorKind::Invalid
        | ErrorKind::Forbidden
        | ErrorKind::Gone
        | ErrorKind::Throttled => anyhow!("the Kubernetes API at {url} refuses to list its kinds: {failure}"),
    })?;
    if !missing.is_empty() {
        let names = missing.iter().map(|kind| format!("{}.{}", kind.plural, kind.group));
        bail!(
            "the cluster at {url} does not serve {}; install the CRDs with: {}",
            names.collect::<Vec<_>>().join(", "),
            controllers::install_command(&controllers::defining(&missing), "")
        );
    }
    // If the CRD belongs to another project, its objects belong to the controller of that project.
    for set in sets {
        let unknown = unknown_fields(&client, set).await?;
        if !unknown.is_empty() {
            bail!(
                "the CRD in the cluster at {url} lacks {}; if the CRD belongs to another project (NVIDIA's DPF \
                 has its own DPUServices), the controller {} can't run in this cluster: choose others with \
                 --controllers; if it is an older version of Lockstep's, upgrade it with: {}",
                unknown.join(", "),
                set.controller,
                controllers::install_command(&[set.controller], "--force-conflicts ")
            );
        }
    }
    Ok(client)
}

/// Returns the fields that the cluster's CRDs lack. The API server publishes the schema of a new CRD after a moment.
async fn unknown_fields(client: &kube::Client, set: &CrdSet) -> anyhow::Result<Vec<String>> {
    let mut attempts = 1;
    loop {
        match controllers::unknown_fields(client, std::slice::from_ref(set)).await {
            Err(_) if attempts < SCHEMA_ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(SCHEMA_PAUSE).await;
            }
            Err(why) => bail!(
                "{why}; without it, the CRD may belong to another project (NVIDIA's DPF has its own DPUServices), so the \
                 controller {} does not start",
                set.controller
            ),
            Ok(unknown) => return Ok(unknown),
        }
    }
}

fn resync(text: &str) -> Result<Duration, String> {
    let resync = duration::parse(text)?;
    if resync < Duration::from_secs(1) { Err("expected at least 1s".to_owned()) } else { Ok(resync) }
}

/// How often a schema is requested before the program gives up, and the pause between two requests.
const SCHEMA_ATTEMPTS: usize = 10;
const SCHEMA_PAUSE: Duration = Duration::from_secs(1);

/// The minimum size of a recording file, in bytes.
const RECORD_MIN_BYTES: u64 = 64 << 10;

fn size(text: &str) -> Result<u64, String> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let read = units.iter().find_map(|(unit, shift)| {
        let number = text.strip_suffix(unit)?.parse::<u64>().ok()?;
        number.checked_mul(1 << shift)
    });
    let bytes = read.ok_or("expected a size such as 512Ki, 64Mi or 1Gi")?;
    if bytes < RECORD_MIN_BYTES { Err("expected at least 64Ki".to_owned()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::super::{Cli, Command};
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(size("64Ki"), Ok(65_536));
        assert_eq!(size("2Gi"), Ok(2 << 30));
        for bad in ["", "64", "63Ki", "-1Mi", "64MB", "1.5Mi", "99999999999Gi"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    /// The chart appends extraArgs to its own flags.
    #[test]
    fn a_flag_that_is_given_again_counts_as_it_was_given_last() {
        let first =
            ["lockstep", "run", "--log-level=info", "--controllers=bridge,dpuservice", "--leader-elect"];
        let again = ["--log-level=debug", "--controllers=sentinel,bridge"];
        let line = first.into_iter().chain(again);
        let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else { unreachable!() };
        assert_eq!((args.log_level.as_str(), args.election.leader_elect), ("debug", true));
        assert_eq!(args.choice.controllers, ["sentinel", "bridge"]);
    }

    #[test]
    fn the_help_names_the_default_concurrency() {
        let mut cli = Cli::command();
        let help = cli.find_subcommand_mut("run").unwrap().render_help().to_string();
        let help: Vec<&str> = help.split_whitespace().collect();
        let help = help.join(" ");
        let [most, bridge] = ["namespaceclass", "bridge"].map(controllers::concurrency);
        assert!(help.contains(&format!("[default: {most}; bridge: {bridge}]")), "{help}");
        assert_eq!(usize::from(most), Config::default().concurrency);
    }

    #[test]
    fn resync_reads_the_usual_forms() {
        assert_eq!(resync("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(resync("1h30m"), Ok(Duration::from_mins(90)));
        for bad in ["", "10", "-5m", "0s", "999ms", "soon"] {
            assert!(resync(bad).is_err(), "{bad:?}");
        }
    }
}

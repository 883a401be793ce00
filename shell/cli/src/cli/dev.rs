//! `lockstep dev`: all components in one process, for a trial.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use lockstep_apiserver::host::{Host, Options};
use lockstep_cli::controllers;
use lockstep_crds::CrdSet;
use lockstep_engine::operator::Config;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown::{self, Shutdown};
use lockstep_runtime::{connect, serve};
use tokio::sync::mpsc;

use self::fleet::Fleet;
use self::kubeconfig::Kubeconfig;
use self::lab::Lab;
use self::live::View;
use super::choice::Choice;
use super::page::Page;
use super::signal::Signals;
use super::{logging, process};

mod around;
mod dpus;
mod fleet;
mod kubeconfig;
mod lab;
mod live;
mod setup;

/// Runs an API server, the controllers and examples in one process
///
/// The API server is Lockstep's model of a Kubernetes API server, kept in memory; kubectl and other clients can use it. The
/// CRDs are installed, the controllers run, and examples are applied, with models of the systems around
/// them. Then every change is shown as it happens, until Ctrl-C. A page for the browser shows the controllers at work. Nothing
/// is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the API is served; anyone who can connect can change everything
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8001", env = "LOCKSTEP_LISTEN")]
    listen: SocketAddr,

    /// Where to write the kubeconfig; removed at the end
    #[arg(long, value_name = "FILE", default_value = "lockstep.kubeconfig", env = "LOCKSTEP_DEV_KUBECONFIG")]
    kubeconfig: PathBuf,

    #[command(flatten)]
    choice: Choice,

    /// Serve the API alone: no CRDs, no controllers, no examples
    #[arg(long)]
    bare: bool,

    /// What to log to stderr, beside the live view
    #[arg(long, value_name = "LEVEL", default_value = "error", env = "LOCKSTEP_LOG_LEVEL")]
    log_level: String,
}

const EXAMPLES: &str = "\
Examples:
  lockstep dev
  lockstep dev --listen 127.0.0.1:0 --kubeconfig /tmp/dev.kubeconfig
  lockstep dev --bare

Then, in another terminal:
  kubectl --kubeconfig lockstep.kubeconfig get namespaceclassbindings --all-namespaces";

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let sets = if args.bare { Vec::new() } else { controllers::select(&args.choice.controllers)? };
    logging::start(&args.log_level, logging::Format::Text)?;
    let mut signals = Signals::new()?;
    let host = Host::bind(args.listen, Options::default())
        .await
        .with_context(|| format!("cannot serve the API at {} (--listen chooses another)", args.listen))?;
    let kubeconfig = Kubeconfig::write(&args.kubeconfig, &host.kubeconfig_yaml())?;
    let result = if args.bare {
        introduce(&host, &kubeconfig, &sets, &[])?;
        signals.next().await;
        Ok(())
    } else {
        let (stop, stopping) = shutdown::channel();
        let controlled = control(&host, &kubeconfig, &sets, stopping);
        tokio::pin!(controlled);
        // A signal ends the setup at once, and the running controllers gracefully.
        tokio::select! {
            biased;
            () = signals.next() => {
                stop.pull();
                controlled.await
            }
            ended = &mut controlled => ended,
        }
    };
    host.shutdown().await;
    result
}

/// Runs the controllers and prints changes, until shutdown is requested.
async fn control(
    host: &Host,
    kubeconfig: &Kubeconfig,
    sets: &[CrdSet],
    mut stopping: Shutdown,
) -> anyhow::Result<()> {
    let metrics = Metrics::new(prometheus::Registry::new())?;
    let client = connect::client(kube::Config::new(host.url().parse()?), &metrics)?;
    let (sender, notes) = mpsc::unbounded_channel();
    let clock = Clock::start(jiff::Timestamp::now);
    let mut manager = Manager::new(client.clone(), clock, process::seed(), metrics.clone());
    manager.send_notes_to(sender.clone());
    let (alone, together): (Vec<_>, Vec<_>) = sets.iter().cloned().partition(|set| set.runs_alone);
    let mut page = add_controllers(&mut manager, &together)?;
    let mut fleets = Vec::new();
    for example in fleet::EXAMPLES.iter().filter(|_| !alone.is_empty()) {
        let (fleet, options) = Fleet::start(example).await?;
        let sentinel = fleet.sentinel(process::seed());
        manager.add_with(page.follow_sentinel(sentinel, &fleet.object())?, options);
        fleets.push(fleet);
    }
    let mut more = Vec::new();
    for (what, path, routes) in
        [("page", "/", page.routes()), ("metrics", "/metrics", serve::metrics_routes(metrics))]
    {
        let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        more.push(format!("{what:<11} http://{}{path}", listener.local_addr()?));
        tokio::spawn(serve::serve(listener, routes, stopping.clone()));
    }
    let mut examples = Vec::new();
    let mut definitions = sets.to_vec();
    let mut later = Vec::new();
    let systems = around::systems(sets);
    for machine in around::controllers(&systems, process::seed())? {
        manager.add(machine);
    }
    definitions.push(around::definitions(&systems)?);
    if sets.iter().any(|set| set.controller == lockstep_crds::dpuservice::CONTROLLER) {
        examples.extend(dpus::objects()?);
    }
    if sets.iter().any(|set| set.controller == lockstep_crds::bridge::CONTROLLER) {
        let lab = Lab::start(stopping.clone()).await?;
        examples.extend(lab.objects());
        later.push(Lab::dpu_cluster());
        more.push(format!("releases    {} and {}", lab.image(0), lab.image(1)));
    }
    for fleet in fleets {
        more.push(format!("fleet       {}", fleet.url()));
        examples.push(fleet.config());
        tokio::spawn(fleet.adapt(sender.clone()));
    }
    let set_up = async {
        setup::install(&client, &definitions).await?;
        introduce(host, kubeconfig, sets, &more)?;
        View::start(&client, notes).await
    };
    let mut view = tokio::select! {
        biased;
        () = stopping.requested() => return Ok(()),
        view = set_up => view?,
    };
    let running = manager.run(stopping);
    let examples = async {
        setup::apply_examples(client.clone(), sets, examples).await?;
        if !later.is_empty() {
            tokio::time::sleep(lab::LATER).await;
        }
        setup::apply_examples(client.clone(), &[], later).await
    };
    tokio::pin!(running, examples);
    let mut applied = false;
    loop {
        // The controllers have priority, so that a flood of lines can't keep the program from ending.
        tokio::select! {
            biased;
            ended = &mut running => return Ok(ended?),
            result = &mut examples, if !applied => {
                result?;
                applied = true;
            }
            line = view.next() => line?,
        }
    }
}

/// Adds the controllers, and returns the page that shows them.
fn add_controllers(manager: &mut Manager, sets: &[CrdSet]) -> anyhow::Result<Page> {
    let mut page = Page::new();
    let (instance, seed) = (process::instance(), process::seed());
    for set in sets {
        let settings = Config {
            concurrency: controllers::concurrency(set.controller).into(),
            resync: std::time::Duration::from_mins(10),
            instance: instance.clone(),
            seed,
        };
        let machine = process::controller(set.controller, &settings)?;
        let traits = machine.traits();
        manager.add_with(
            page.follow(machine, traits, set, set.controller)?,
            controllers::options(set.controller),
        );
    }
    Ok(page)
}

/// Prints what runs and which commands to try.
fn introduce(host: &Host, kubeconfig: &Kubeconfig, sets: &[CrdSet], more: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let kubectl = format!("kubectl --kubeconfig {}", kubeconfig.shown());
    writeln!(out, "API server  {}", host.url())?;
    writeln!(out, "kubeconfig  {}", kubeconfig.shown())?;
    if sets.is_empty() {
        writeln!(out, "\nTry, in another terminal:\n  {kubectl} get namespaces\n\nCtrl-C ends it.")?;
        return out.flush();
    }
    let names = sets.iter().map(|set| set.controller).collect::<Vec<_>>().join(", ");
    writeln!(out, "controllers {names}")?;
    for line in more {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\nTry, in another terminal:")?;
    let of = |controller: &str| sets.iter().any(|set| set.controller == controller);
    let mut commands: Vec<String> = Vec::new();
    if of(lockstep_crds::bridge::CONTROLLER) {
        commands.push("get dpfhcp --all-namespaces".to_owned());
        commands.push(format!("--namespace {} delete dpfhcp {}", lab::NAMESPACE, lab::BRIDGE));
    }
    if of(lockstep_crds::dpuservice::CONTROLLER) {
        commands.extend(dpus::commands());
    }
    if of(lockstep_crds::sentinel::CONTROLLER) {
        commands.push("get sentinelconfigs".to_owned());
    }
    if of(lockstep_crds::namespaceclass::CONTROLLER) {
        let examples = [
            "get namespaceclasses",
            "get namespaceclassbindings --all-namespaces",
            "--namespace shop get configmaps,serviceaccounts,roles,networkpolicies,resourcequotas",
            "label namespace default namespaceclass.akuity.io/name=web",
            "label namespace shop namespaceclass.akuity.io/name=restricted --overwrite",
            "edit namespaceclass restricted",
            "delete namespaceclass restricted",
        ];
        commands.extend(examples.map(str::to_owned));
    }
    for command in commands {
        writeln!(out, "  {kubectl} {command}")?;
    }
    writeln!(out, "\nCtrl-C ends it; nothing is kept. What changes from here on:\n")?;
    out.flush()
}

//! `lockstep plan`: what the controllers would do after a change.
//!
//! ```text
//!   input ─▶ changes ─▶ dry run ⇄ reader ─▶ report
//!                                   │
//!                                   └─▶ redaction
//! ```

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::bail;
use lockstep_cli::controllers;
use lockstep_crds::CrdSet;
use lockstep_engine::action::KubeRequest;
use lockstep_engine::machine::Machine;
use lockstep_engine::operator::Config;
use lockstep_runtime::execute::Executor;
use lockstep_runtime::failure::masked;
use lockstep_sim::dry_run::{Forecast, Incomplete, Make, Snapshot, dry_run};

use self::changes::{Changes, FIELD_MANAGER};
use self::reader::Reader;
use self::redaction::Redaction;
use self::report::Report;
use super::choice::Choice;
use super::cluster::{self, ClusterArgs};
use super::misuse::Misuse;
use super::process;

mod changes;
mod input;
mod reader;
mod redaction;
mod report;

/// The exit code with `--exit-code` if the cluster would change. 1 is a failure, and 2 a usage error.
const WOULD_CHANGE: u8 = 3;

/// Shows what the controllers would do after a change, without changing anything
///
/// Reads the cluster, applies the objects of the files to a copy in memory, and runs the controllers on this copy until they
/// have nothing more to do. Shows every write that they make. The cluster itself gets reads only: get, list and discovery.
/// Other systems, such as Argo CD and HyperShift, do nothing in the copy; the last lines name what the controllers wait for.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The changed objects, as YAML or JSON; - for stdin
    #[arg(short, long, value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,

    /// Delete the objects of the files instead of applying them; kind, namespace and name suffice
    #[arg(long)]
    delete: bool,

    /// Show how each object changes, without the values of Secrets
    #[arg(long)]
    diff: bool,

    /// Exit with code 3 if anything would change
    #[arg(long)]
    exit_code: bool,

    #[command(flatten)]
    choice: Choice,

    /// The namespace of objects that name none [default: the namespace of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  lockstep plan -f class.yaml
  lockstep plan -f class.yaml --diff
  lockstep plan -f bridge.yaml --delete
  kubectl get namespaceclass web -o yaml | sed 's/info/debug/' | lockstep plan -f -
  lockstep plan -f class.yaml --exit-code || echo 'not applied'

It needs the permissions of the controllers to get and list, and to get CRDs.";

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sets = controllers::select_running(&args.choice.controllers).map_err(Misuse::of)?;
    let objects = input::read(&args.filename)?;
    let config = args.cluster.config().await?;
    let url = masked(&config.cluster_url.to_string());
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = cluster::client(config)?;
    let executor = Executor::new(client.clone(), "plan");
    let mut reader = Reader::new(executor.clone());
    // The first request: its failure says whether the cluster answers at all.
    let changes = Changes::find(&mut reader, objects, &namespace, args.delete).await?;
    let (sets, left_out) = installed(&client, &executor, sets, !args.choice.controllers.is_empty()).await?;
    check_controllers_of(&changes, &left_out)?;
    let (snapshot, forecast) = forecast(&mut reader, &sets, &changes).await?;
    let mut redaction = Redaction::new(&sets)?;
    redaction.learn(&snapshot, &forecast);
    let report = Report { sets: &sets, forecast: &forecast, redaction: &redaction, with_diff: args.diff };
    let mut out = io::stdout().lock();
    writeln!(out, "{url}: {} objects read with {} requests", snapshot.len(), reader.requests())?;
    for LeftOut { set, reason } in &left_out {
        writeln!(out, "controller {} left out: {reason}", set.controller)?;
    }
    report.write(&mut out)?;
    out.flush()?;
    let code = if args.exit_code && report.would_change() { WOULD_CHANGE } else { 0 };
    Ok(ExitCode::from(code))
}

/// A controller that can't act in the plan.
struct LeftOut {
    set: CrdSet,
    reason: String,
}

/// Returns the controllers for which the cluster has all CRDs, and the others. It must have those of controllers that are named.
async fn installed(
    client: &kube::Client,
    executor: &Executor,
    sets: Vec<CrdSet>,
    named: bool,
) -> anyhow::Result<(Vec<CrdSet>, Vec<LeftOut>)> {
    let (mut installed, mut missing, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for set in sets {
        let one = std::slice::from_ref(&set);
        let unserved = controllers::missing(executor, &controllers::kinds(one)).await?;
        let reason = if unserved.is_empty() {
            let unknown = controllers::unknown_fields(client, one).await.map_err(anyhow::Error::msg)?;
            if unknown.is_empty() {
                installed.push(set);
                continue;
            }
            if named {
                // The CRD of another project may have the same name.
                bail!(
                    "the cluster has other CRDs than this version of the controller {0}; compare them with: lockstep \
                     crds --controllers {0}",
                    set.controller
                );
            }
            format!("the CRD in the cluster lacks {}", unknown.join(", "))
        } else {
            missing.push(set.controller);
            let unserved: Vec<String> = unserved.iter().map(ToString::to_string).collect();
            format!("the cluster does not serve {}", unserved.join(", "))
        };
        left_out.push(LeftOut { set, reason });
    }
    if !missing.is_empty() && (named || installed.is_empty()) {
        bail!(
            "the cluster has no CRDs of {}; install those that you need, such as with: {}",
            missing.join(", "),
            controllers::install_command(&missing, "")
        );
    }
    if installed.is_empty() {
        bail!("the CRDs in the cluster belong to another project, or to another version of Lockstep");
    }
    Ok((installed, left_out))
}

/// Fails if a changed object belongs to a controller that is left out: the plan would say that nothing follows.
fn check_controllers_of(changes: &Changes, left_out: &[LeftOut]) -> anyhow::Result<()> {
    for target in changes.writes.iter().filter_map(KubeRequest::target) {
        let defines = |set: &CrdSet| {
            let mut specs = set.crds.iter().map(|crd| &crd.spec);
            specs.any(|spec| spec.group == target.kind.group && spec.names.kind == target.kind.kind)
        };
        if let Some(LeftOut { set, reason }) = left_out.iter().find(|left_out| defines(&left_out.set)) {
            bail!(
                "cannot plan the change of {target}: {reason}, so the controller {0} is left out; compare its CRDs \
                 with: lockstep crds --controllers {0}",
                set.controller
            );
        }
    }
    Ok(())
}

/// Repeats the dry run until the snapshot has every answer.
async fn forecast(
    reader: &mut Reader,
    sets: &[CrdSet],
    changes: &Changes,
) -> anyhow::Result<(Snapshot, Forecast)> {
    let makes: Vec<Make> = sets.iter().map(make).collect::<anyhow::Result<_>>()?;
    let mut snapshot = Snapshot::new(jiff::Timestamp::now());
    for (read, outcome) in &changes.reads {
        snapshot.add(read.clone(), outcome.clone());
    }
    loop {
        match dry_run(&snapshot, &makes, &changes.writes, FIELD_MANAGER) {
            Ok(forecast) => return Ok((snapshot, forecast)),
            Err(Incomplete::Missing(reads)) => {
                for (read, outcome) in reader.read_all(reads).await? {
                    snapshot.add(read, outcome);
                }
            }
            Err(error @ (Incomplete::UnknownKind(_) | Incomplete::Refused { .. })) => {
                return Err(error.into());
            }
        }
    }
}

fn make(set: &CrdSet) -> anyhow::Result<Make> {
    let config = Config {
        concurrency: controllers::concurrency(set.controller).into(),
        resync: Duration::from_mins(10),
        instance: "plan".to_owned(),
        seed: 0,
    };
    let name = set.controller;
    process::controller(name, &config)?;
    Ok(Rc::new(move || {
        let machine = controllers::machine(name, &config).expect("it has just been created");
        machine as Box<dyn Machine>
    }))
}

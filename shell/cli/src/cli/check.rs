//! `lockstep check`.

use std::io::Write as _;
use std::process::ExitCode;

use jiff::Timestamp;
use lockstep_cli::controllers;
use lockstep_crds::CrdSet;
use lockstep_runtime::connect;

use self::finding::{Finding, Level};
use self::permissions::Account;
use super::choice::Choice;
use super::cluster::{Cluster, ClusterArgs};
use super::misuse::Misuse;

mod api_server;
mod crds;
mod finding;
mod leader;
mod permissions;
mod registry;
mod sentinel;
mod systems;

/// Checks whether a cluster has what the controllers need
///
/// Checks the API server, the resource definitions, the permissions, the systems that each controller needs, and the
/// leaders. It only reads. Each check is a line: OK, WARN or FAIL, what is wrong, and what to do. WARN is for what only some
/// objects need, and for what could not be checked. In a pod of the chart, it checks with the account of that pod.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    choice: Choice,

    /// The namespace of the Leases and of each SentinelConfig [default: that of the context, or of the pod]
    #[arg(long, short, value_name = "NAMESPACE", env = "LOCKSTEP_NAMESPACE")]
    namespace: Option<String>,

    /// The name of the Lease [default: all Leases that are named as the chart names them, and `lockstep`]; the chart's value
    /// fullnameOverride changes the names
    #[arg(long, value_name = "NAME", env = "LOCKSTEP_LEASE_NAME")]
    lease_name: Option<String>,

    /// Check the permissions of this account, such as system:serviceaccount:lockstep-system:lockstep-bridge
    /// [default: that of the kubeconfig or of the pod]
    #[arg(long = "as", value_name = "USER")]
    account: Option<String>,

    /// How the results look
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Output,

    /// Exit with 0 unless a check is FAIL
    #[arg(long)]
    ignore_warnings: bool,

    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  lockstep check
  lockstep check --controllers bridge,dpuservice --namespace lockstep-system
  lockstep check --controllers bridge --as system:serviceaccount:lockstep-system:lockstep-bridge
  lockstep check -o json
  kubectl --namespace lockstep-system exec deployment/lockstep-bridge -- \\
    lockstep check --controllers bridge --lease-name lockstep-bridge

Exit codes: 0 if every check is OK, 1 if the worst result is WARN (0 with --ignore-warnings), 2 if it is FAIL (and on
usage errors).";

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sets = controllers::select(&args.choice.controllers).map_err(Misuse::of)?;
    let findings = find(&args, &sets).await;
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => findings.iter().try_for_each(|finding| writeln!(out, "{finding}"))?,
        Output::Json => writeln!(out, "{}", finding::json(&findings)?)?,
    }
    let worst = finding::worst(&findings);
    Ok(if args.ignore_warnings && worst < Level::Fail {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(worst as u8)
    })
}

/// Makes all checks. If the API server can't be used, the others would fail for the same reason.
async fn find(args: &Args, sets: &[CrdSet]) -> Vec<Finding> {
    let (cluster, account) = match connect(args).await {
        Ok(connected) => connected,
        Err(error) => {
            let remedy = "name a kubeconfig with --kubeconfig or KUBECONFIG";
            return vec![Finding::fail("API server", "configuration", error.to_string(), remedy)];
        }
    };
    let mut findings = vec![api_server::check(&cluster, sets).await];
    if findings.iter().any(|finding| finding.check == api_server::REACHABLE && finding.level == Level::Fail) {
        return findings;
    }
    let namespace = args.namespace.as_deref().unwrap_or(&cluster.namespace);
    for set in sets {
        findings.extend(crds::check(&cluster, set).await);
        findings.extend(permissions::check(&cluster, &account, set, namespace).await);
        findings.extend(systems::check(&cluster, set).await);
        match set.controller {
            lockstep_crds::bridge::CONTROLLER => findings.extend(registry::check(&cluster).await),
            lockstep_crds::sentinel::CONTROLLER => {
                findings.extend(sentinel::check(&cluster, &account, namespace).await);
            }
            _ => {}
        }
    }
    let together = sets.iter().filter(|set| !set.runs_alone).map(|set| set.controller).collect::<Vec<_>>();
    if !together.is_empty() {
        let place = leader::Place { namespace, name: args.lease_name.as_deref() };
        findings.extend(leader::check(&cluster, &account, &place, &together, Timestamp::now()).await);
    }
    findings
}

async fn connect(args: &Args) -> Result<(Cluster, Account), connect::Error> {
    let config = args.cluster.config().await?;
    let account = Account::new(config.clone(), args.account.as_deref()).await?;
    Ok((Cluster::new(config)?, account))
}

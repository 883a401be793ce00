//! `lockstep get`.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use lockstep_cli::controllers;
use lockstep_engine::action::ErrorKind;
use lockstep_engine::object::Kind;

use self::row::Row;
use super::cluster::{Cluster, ClusterArgs};
use super::kinds;
use super::misuse::Misuse;

mod causes;
pub(super) mod row;
mod table;

/// Shows the objects of all controllers in one table, and what they have in common
///
/// The columns READY, REASON and MESSAGE are those of the condition Ready (Valid for a NamespaceClass). Below the table,
/// objects that are not ready for the same reason and with the same message are counted together.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only objects of this kind, such as dpuservice, dpusvc or DPUServices
    kind: Option<String>,

    /// The namespace [default: that of the context]; objects without a namespace are always shown
    #[arg(long, short, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,

    /// Objects of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,

    /// How the objects are shown; wide: with whole messages and the time of the last change
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Output,

    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Wide,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  lockstep get --all-namespaces
  lockstep get dpuservice --namespace dpu-services
  lockstep get -A -o wide
  lockstep get -A -o json";

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let kinds = match &args.kind {
        None => kinds::all(),
        Some(name) => vec![kinds::find(name).map_err(Misuse)?],
    };
    let cluster = Cluster::new(args.cluster.config().await?)?;
    let namespace = args.namespace.as_deref().unwrap_or(&cluster.namespace);
    let namespace = Some(namespace).filter(|_| !args.all_namespaces);
    let (rows, forbidden) = rows(&cluster, &kinds, namespace).await?;
    for failure in forbidden {
        writeln!(std::io::stderr(), "warning: {failure}")?;
    }
    let causes = causes::group(&rows);
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Json => {
            let document = serde_json::json!({ "objects": rows, "causes": causes });
            writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
        }
        Output::Table | Output::Wide if rows.is_empty() => {
            let place =
                namespace.map_or_else(String::new, |name| format!(" in namespace {name}; -A shows all"));
            writeln!(out, "no objects found{place}")?;
        }
        output => {
            write!(out, "{}", table::table(&rows, output == Output::Wide, Timestamp::now()))?;
            write!(out, "{}", table::causes(&causes))?;
        }
    }
    Ok(())
}

/// Returns the objects of the kinds that the cluster serves, sorted by kind and name, and a message for each kind that the
/// account may not list.
async fn rows(
    cluster: &Cluster,
    kinds: &[Arc<Kind>],
    namespace: Option<&str>,
) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let (mut rows, mut missing, mut forbidden) = (Vec::new(), Vec::new(), Vec::new());
    for kind in kinds {
        let failed = || format!("list {kind} at {} failed", cluster.url);
        match cluster.list(kind, namespace.filter(|_| kind.namespaced)).await {
            Ok(objects) => rows.extend(objects.iter().map(|object| Row::of(kind, object))),
            Err(failure) if failure.class == ErrorKind::KindNotServed => missing.push(Arc::clone(kind)),
            Err(failure) if failure.class == ErrorKind::Forbidden => {
                forbidden.push(format!("{}: {failure}", failed()));
            }
            Err(failure) => return Err(failure).with_context(failed),
        }
    }
    if missing.len() == kinds.len() {
        bail!(
            "the cluster at {} does not serve {}; install those CRDs that you need, such as with: {}",
            cluster.url,
            missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            controllers::install_command(&controllers::defining(&missing), "")
        );
    }
    if missing.len() + forbidden.len() == kinds.len() {
        bail!("{}", forbidden.join("; "));
    }
    rows.sort_by(|one, other| one.key().cmp(&other.key()));
    Ok((rows, forbidden))
}

//! `lockstep explain`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::recording::read;

use self::explanation::Explanation;
use self::history::History;
use super::kinds;
use super::misuse::Misuse;

mod decision;
pub(super) mod explanation;
pub(super) mod history;
mod live;
mod pass;

/// Explains the conditions of an object from a recording or from a running process
///
/// Reads what `lockstep run --record` wrote, or asks a process that serves the live page. For each condition it shows when the
/// controller decided it, what began that reconcile, which answers it got, and what the steps show about the objects in the
/// message. Then it shows when the object is reconciled again. It shows only what was recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The kind, such as dpuservice, dpusvc or DPUServices
    kind: String,

    /// NAMESPACE/NAME, or NAME if the kind has no namespace
    object: String,

    /// The recording
    #[arg(long, value_name = "FILE", required_unless_present = "url")]
    recording: Option<PathBuf>,

    /// The address of the live page of a running process, such as `http://127.0.0.1:8082`
    #[arg(long, value_name = "URL", conflicts_with_all = ["recording", "until"])]
    url: Option<String>,

    /// Explain the conditions as they were after the step of this number [default: the last step]
    #[arg(long, value_name = "N")]
    until: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  lockstep explain dpfhcpbridge dpf-hcp-bridge-system/prod --recording run.jsonl
  lockstep explain namespaceclass restricted --recording run.jsonl.1
  lockstep explain dpusvc dpu-services/web --recording run.jsonl --until 250
  lockstep explain namespaceclassbinding shop/shop --url http://127.0.0.1:8082";

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let object = object(&args).map_err(Misuse)?;
    let explanation = match (&args.recording, &args.url) {
        (_, Some(url)) => live::explain(url, &object).await?,
        (Some(file), None) => from_file(file, args.until, &object)?,
        (None, None) => bail!("neither a recording nor a URL is given"),
    };
    Ok(std::io::stdout().lock().write_all(explanation.to_string().as_bytes())?)
}

fn object(args: &Args) -> Result<ObjectRef, String> {
    let kind = kinds::find(&args.kind)?;
    let name = match args.object.split_once('/') {
        Some((namespace, name)) if kind.namespaced => Name::new(namespace, name),
        None if !kind.namespaced => Name::new("", &args.object),
        Some(_) => return Err(format!("{} has no namespace; write its name alone", kind.kind)),
        None => return Err(format!("{} has a namespace; write NAMESPACE/NAME", kind.kind)),
    };
    Ok(name.object(&kind))
}

fn from_file(path: &Path, until: Option<u64>, object: &ObjectRef) -> anyhow::Result<Explanation> {
    let file = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {file}"))?;
    let (_, lines) = read::open(&bytes).with_context(|| file.to_string())?;
    let history = History::read(lines, until).with_context(|| file.to_string())?;
    explanation::explain(&history, object).ok_or_else(|| {
        let known = history.names(&object.kind);
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        anyhow!("{object} does not occur in {file}; objects of this kind in it: {known}")
    })
}

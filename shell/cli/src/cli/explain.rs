//! `lockstep explain`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use lockstep_engine::object::Name;
use lockstep_engine::recording::read;

use self::history::History;
use super::kinds;
use super::misuse::Misuse;

mod decision;
mod history;
mod pass;
mod text;

/// Explains the conditions of an object from a recording
///
/// Reads what `lockstep run --record` wrote. For each condition it shows when the controller decided it, what began that
/// reconcile, which answers it got, and what the recording shows about the objects in the message. Then it shows when
/// the object is reconciled again. It shows only what the recording contains.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The kind, such as dpuservice, dpusvc or DPUServices
    kind: String,

    /// NAMESPACE/NAME, or NAME if the kind has no namespace
    object: String,

    /// The recording
    #[arg(long, value_name = "FILE")]
    recording: PathBuf,

    /// Explain the conditions as they were after the step of this number [default: the last step]
    #[arg(long, value_name = "N")]
    until: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  lockstep explain dpfhcpbridge dpf-hcp-bridge-system/prod --recording run.jsonl
  lockstep explain namespaceclass restricted --recording run.jsonl.1
  lockstep explain dpusvc dpu-services/web --recording run.jsonl --until 250";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let kind = kinds::find(&args.kind).map_err(Misuse)?;
    let name = match args.object.split_once('/') {
        Some((namespace, name)) if kind.namespaced => Name::new(namespace, name),
        None if !kind.namespaced => Name::new("", &args.object),
        Some(_) => return Err(Misuse(format!("{} has no namespace; write its name alone", kind.kind)).into()),
        None => return Err(Misuse(format!("{} has a namespace; write NAMESPACE/NAME", kind.kind)).into()),
    };
    let file = args.recording.display();
    let bytes = std::fs::read(&args.recording).with_context(|| format!("cannot read {file}"))?;
    let (_, lines) = read::open(&bytes).with_context(|| file.to_string())?;
    let history = History::read(lines, args.until).with_context(|| file.to_string())?;
    let object = name.object(&kind);
    let Some(explained) = text::explain(&history, &object) else {
        let known = history.names(&kind);
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!("{object} does not occur in {file}; objects of this kind in it: {known}");
    };
    Ok(std::io::stdout().lock().write_all(explained.as_bytes())?)
}

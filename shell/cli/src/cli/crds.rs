//! `lockstep crds`.

use std::io::Write as _;

use lockstep_cli::{controllers, definitions};

use super::choice::Choice;

/// Prints the resource definitions (CRDs) of the controllers as YAML
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    choice: Choice,
}

const EXAMPLES: &str = "\
Examples:
  lockstep crds --controllers namespaceclass | kubectl apply --server-side -f -
  lockstep crds > crds.yaml";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let sets = controllers::select(&args.choice.controllers)?;
    let documents = sets.iter().flat_map(|set| &set.crds).map(definitions::document).collect::<String>();
    Ok(std::io::stdout().write_all(documents.as_bytes())?)
}

//! The choice of controllers on the command line.

use clap::builder::PossibleValuesParser;

// The choice of controllers, which most commands take. A doc comment would become the help text of these commands.
#[derive(Debug, clap::Args)]
pub(super) struct Choice {
    /// The controllers that this is about [default: all; `run`: all but the Sentinel; `plan`: those with CRDs in the cluster, without the Sentinel]
    #[arg(
        long,
        alias = "controller",
        value_delimiter = ',',
        value_name = "NAMES",
        value_parser = controller_names(),
        overrides_with = "controllers",
        env = "LOCKSTEP_CONTROLLERS"
    )]
    pub(super) controllers: Vec<String>,
}

/// Parses the names of controllers, and offers them to shell completion.
fn controller_names() -> PossibleValuesParser {
    PossibleValuesParser::new(lockstep_crds::all().into_iter().map(|set| set.controller))
}

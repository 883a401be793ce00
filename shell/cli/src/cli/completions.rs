//! `lockstep completions`.

use std::io::Write as _;

use clap::CommandFactory as _;
use clap_complete::Shell;

/// Prints a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(lockstep completions bash)
  lockstep completions zsh > \"${fpath[1]}/_lockstep\"
  lockstep completions fish > ~/.config/fish/completions/lockstep.fish";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "lockstep", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

//! `lockstep completions`.

use std::io::Write as _;

use clap::Command;
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

/// Prints the script for the whole command line.
pub(crate) fn run(args: &Args, command: &mut Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "lockstep", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

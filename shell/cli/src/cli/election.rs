//! The flag for leader election.

use clap::ArgAction;

// The flag of every command that can run in several replicas. A doc comment would become the help text of these commands.
#[derive(Debug, clap::Args)]
pub(super) struct ElectionArgs {
    /// Enable leader election, so that several replicas can run: only the leader acts
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        action = ArgAction::Set,
        env = "LOCKSTEP_LEADER_ELECT"
    )]
    pub(super) leader_elect: bool,
}

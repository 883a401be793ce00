//! The planted bugs of the four controllers, alone and together.

use lockstep_sim::bugs::Bug;

mod answers;
mod bridge;
mod change;
mod clocks;
mod common;
mod dpuservice;
mod events;
mod repairs;
mod reported;
mod requests;
mod sentinel;
mod shards;
mod standbys;
mod together;
mod variables;

/// Returns all bugs.
pub fn all() -> Vec<&'static Bug> {
    [
        answers::BUGS,
        bridge::BUGS,
        change::BUGS,
        clocks::BUGS,
        dpuservice::BUGS,
        events::BUGS,
        repairs::BUGS,
        reported::BUGS,
        requests::BUGS,
        sentinel::BUGS,
        shards::BUGS,
        standbys::BUGS,
        together::BUGS,
        variables::BUGS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

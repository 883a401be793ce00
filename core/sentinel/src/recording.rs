//! The traits that the live page needs to hide secrets. The steps of a Sentinel are not recorded.

use lockstep_crds::sentinel::CONTROLLER;
use lockstep_engine::recording::Traits;

/// The traits of a Sentinel.
pub const TRAITS: Traits = Traits {
    words: &[
        include_str!("lib.rs"),
        include_str!("config.rs"),
        include_str!("cycle.rs"),
        include_str!("load.rs"),
        include_str!("loader.rs"),
        include_str!("pager.rs"),
        include_str!("publish.rs"),
        include_str!("report.rs"),
        include_str!("resource.rs"),
        include_str!("status.rs"),
        include_str!("visit.rs"),
    ],
    kinds: || lockstep_crds::of(CONTROLLER),
    ..Traits::NONE
};

//! The traits that the live page needs to hide secrets. The steps of a Sentinel are not recorded.

use lockstep_crds::sentinel::CONTROLLER;
use lockstep_engine::recording::Traits;

/// The traits of a Sentinel.
pub const TRAITS: Traits = Traits {
    words: include_str!(concat!(env!("OUT_DIR"), "/words.txt")),
    kinds: || lockstep_crds::of(CONTROLLER),
    ..Traits::NONE
};

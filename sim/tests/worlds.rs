//! The worlds around the DPF-HCP Bridge: what they do to objects that somebody wrote by hand, and what their definitions
//! admit.

#[path = "worlds/bench.rs"]
mod bench;
#[path = "worlds/definitions.rs"]
mod definitions;
#[path = "worlds/flows.rs"]
mod flows;
#[path = "worlds/foreign.rs"]
mod foreign;
#[path = "worlds/manifests.rs"]
mod manifests;
#[path = "worlds/storm.rs"]
mod storm;
#[path = "worlds/table.rs"]
mod table;

//! The worlds around our controllers: what they do to objects that somebody wrote by hand, and what their definitions
//! admit.

#[path = "worlds/applications.rs"]
mod applications;
#[path = "worlds/bench.rs"]
mod bench;
#[path = "worlds/definitions.rs"]
mod definitions;
#[path = "worlds/deletions.rs"]
mod deletions;
#[path = "worlds/dpu_clusters.rs"]
mod dpu_clusters;
#[path = "worlds/flows.rs"]
mod flows;
#[path = "worlds/foreign.rs"]
mod foreign;
#[path = "worlds/hypershift.rs"]
mod hypershift;
#[path = "worlds/manifests.rs"]
mod manifests;
#[path = "worlds/metallb.rs"]
mod metallb;
#[path = "worlds/storm.rs"]
mod storm;
#[path = "worlds/table.rs"]
mod table;

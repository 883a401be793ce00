//! Tests of the external systems around our controllers: their handling of manually written objects, and the validation by their
//! CRDs.

#[path = "external/applications.rs"]
mod applications;
#[path = "external/bench.rs"]
mod bench;
#[path = "external/definitions.rs"]
mod definitions;
#[path = "external/deletions.rs"]
mod deletions;
#[path = "external/deployed.rs"]
mod deployed;
#[path = "external/dpu_clusters.rs"]
mod dpu_clusters;
#[path = "external/flows.rs"]
mod flows;
#[path = "external/foreign.rs"]
mod foreign;
#[path = "external/hypershift.rs"]
mod hypershift;
#[path = "external/manifests.rs"]
mod manifests;
#[path = "external/metallb.rs"]
mod metallb;
#[path = "external/outages.rs"]
mod outages;
#[path = "external/storm.rs"]
mod planned_faults;
#[path = "external/table.rs"]
mod table;

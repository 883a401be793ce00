//! The reconciles of clusters, of the AppProject and of services.

pub mod cluster;
pub mod cluster_delete;
mod events;
pub mod orphans;
pub mod project;
pub mod service;
pub mod service_delete;
pub mod status_writer;
mod survey;
pub(crate) mod verdict;

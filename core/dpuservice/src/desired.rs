//! The manifests of the objects that the controller writes.

pub mod application;
pub mod cluster_secret;
pub mod project;
pub mod removal;
pub mod values;

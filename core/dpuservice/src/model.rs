//! The typed reading of objects: the fields of each kind that decisions depend on.

pub mod application;
pub mod cluster;
pub mod kubeconfig;
pub mod owner;
pub mod project;
pub mod report;
pub mod secret;
pub mod service;
pub mod version;

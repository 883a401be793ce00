//! Shared code of the tests across crates: a real Kubernetes control plane, the comparison of the API server model with it,
//! admission tests, permissions and requests of accounts, test backends, users of a cluster, the systems around the Bridge and
//! the DPUService controller, the Helm chart, the program, its image, Sentinels, a message broker with its queues, a collector of
//! spans, a container registry, a real Argo CD, a browser, the cost of processes, histories of concurrent clients,
//! and fuzz targets.

pub mod access;
pub mod admission;
pub mod argocd;
pub mod bridge;
pub mod browser;
pub mod chart;
pub mod collector;
pub mod conformance;
pub mod control_plane;
pub mod cost;
pub mod dev;
pub mod dpuservice;
pub mod fuzz;
pub mod ground;
pub mod histories;
pub mod image;
pub mod network;
pub mod program;
pub mod pubsub;
pub mod queue;
pub mod rabbitmq;
pub mod raw;
pub mod registry;
pub mod sentinel;
pub mod shard;
pub mod upstream;
pub mod user;
pub mod watched;

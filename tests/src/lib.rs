//! What the tests across crates share: a real Kubernetes control plane, the comparison of the API server model with
//! it, verdicts on objects, what accounts may do and did, grounds to act on, users of a cluster, what is around the Bridge
//! and the DPUService controller, the Helm chart, the program, Sentinels, a message broker with its queues, a collector of
//! spans, a container registry, a real Argo CD, a browser, what processes cost, and what fuzzers call.

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
pub mod dpuservice;
pub mod fuzz;
pub mod ground;
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

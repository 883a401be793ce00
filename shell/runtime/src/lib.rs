//! Runs pure controllers on a Kubernetes API. Everything that waits, sends or reads a clock belongs here; nothing here knows a
//! controller, apart from tests.
//!
//! [`run`] drives a machine. `watch` and [`execute`] execute its requests with the kube client, and [`failure`] maps errors to
//! the failure classes of the machines. [`fetch`], [`registry`] and [`publish`] access systems outside of Kubernetes.
//! [`manager`] runs several controllers, with leader election if required. [`record`] writes recordings, and [`live`] passes the
//! same steps to an observer in this process. [`metrics`], [`spans`], [`observe`] and [`serve`] export metrics, traces, logs and
//! probes.

pub mod address;
pub mod clock;
pub mod connect;
pub mod execute;
pub mod failure;
pub mod fetch;
pub mod health;
pub mod live;
pub mod manager;
pub mod metrics;
pub mod observe;
pub mod publish;
pub mod record;
pub mod registry;
pub mod run;
pub mod serve;
pub mod shutdown;
pub mod spans;
#[cfg(test)]
mod testing;
mod watch;
mod web;

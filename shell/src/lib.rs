//! The half of Lockstep that touches the world: it drives the machines of `lockstep-core` against a Kubernetes API.
//!
//! [`run`] owns a machine and its loop, `watch` and [`execute`] carry its requests out through the kube client, and
//! [`failure`] sorts what they meet into the classes that machines know. [`fetch`], [`registry`] and [`publish`] reach
//! what lies beyond Kubernetes. [`manager`] runs controllers together, under an
//! election if need be; [`record`] writes down what they do. [`metrics`], [`spans`], [`observe`] and [`serve`] tell the outside how it goes. The
//! `lockstep` binary is made of these.

pub mod address;
pub mod clock;
pub mod connect;
pub mod controllers;
pub mod definitions;
pub mod execute;
pub mod failure;
pub mod fetch;
pub mod health;
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

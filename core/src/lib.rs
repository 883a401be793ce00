//! The pure half of Lockstep: four Kubernetes controllers as state machines, `step(state, event, now) -> actions`.
//!
//! Nothing here waits, sleeps, reads a clock, draws a random number or talks to anyone; whatever a step knows came in as
//! an argument. The other half, `lockstep-shell`, carries the actions out. [`engine`] holds what all controllers share;
//! each controller has a folder of its own.

pub mod bridge;
pub mod digest;
pub mod dpuservice;
pub mod duration;
pub mod engine;
pub mod namespaceclass;
pub mod object;
pub mod random;
pub mod sentinel;
pub mod time;
pub mod yaml;

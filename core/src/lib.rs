//! The pure code of Lockstep: four Kubernetes controllers as state machines, `step(state, event, now) -> actions`.
//!
//! Nothing in this crate waits, sleeps, reads a clock, draws a random number or does I/O. All input of a step is in its
//! arguments. The crate `lockstep-shell` executes the actions. [`engine`] has the components that all controllers share; each
//! controller has a folder of its own.

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

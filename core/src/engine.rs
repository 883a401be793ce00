//! What every controller is made of.
//!
//! | module | holds |
//! | --- | --- |
//! | [`machine`] | the contract with whoever drives a machine: events in, requests and notes out, a deadline |
//! | [`action`] | what can be asked of the world, and the classes of answers |
//! | [`broker`] | message brokers and the events that are published to them |
//! | [`document`] | JSON documents that are read as they arrive |
//! | [`driver`] | which key is reconciled when, what its pass waits for, retries and resync |
//! | [`queue`], [`backoff`] | the work queue and the delays that the driver uses |
//! | [`cache`] | what watches have shown, with indexes |
//! | [`conditions`] | conditions of a status |
//! | [`finalizer`] | finalizers: entered and taken out without harm to others |
//! | [`image`] | container images and registries |
//! | [`operator`] | a machine that reconciles keys: driver, watches, events, recording |
//! | [`recorder`] | Kubernetes Events with aggregation |
//! | [`lease`] | leader election |
//! | [`recording`] | a run written down, replayed and compared |
//! | [`trace`] | traces and their spans |
//! | [`wire`] | how actions and answers look over HTTP |
//! | [`write`](mod@write) | writes that leave alone what belongs to others |

pub mod action;
pub mod backoff;
pub mod broker;
pub mod cache;
pub mod conditions;
pub mod document;
pub mod driver;
pub mod finalizer;
pub mod image;
pub mod lease;
pub mod machine;
pub mod operator;
pub(crate) mod pairs;
pub mod queue;
pub mod recorder;
pub mod recording;
pub mod trace;
pub mod wire;
pub mod write;

//! The components that all controllers share.
//!
//! | module | content |
//! | --- | --- |
//! | [`machine`] | the contract between a machine and its driver: events in, requests and notes out, a deadline |
//! | [`action`] | the actions that a machine can request, and the classes of answers |
//! | [`broker`] | message brokers and the events that are published to them |
//! | [`document`] | JSON documents that are parsed while they arrive |
//! | [`driver`] | schedules passes: which key is reconciled when, what its pass waits for, retries and resync |
//! | [`queue`], [`backoff`] | the work queue and the delays that the driver uses |
//! | [`cache`] | the objects that watches have shown, with indexes |
//! | [`conditions`] | conditions of a status |
//! | [`finalizer`] | finalizers: added and removed without changing those of other clients |
//! | [`image`] | container images and registries |
//! | [`operator`] | a machine that reconciles keys: driver, watches, events, recording |
//! | [`recorder`] | Kubernetes Events with aggregation |
//! | [`lease`] | leader election |
//! | [`recording`] | recordings of runs, and their replay |
//! | [`trace`] | traces and their spans |
//! | [`wire`] | the HTTP form of actions and answers |
//! | [`write`](mod@write) | writes that do not change the objects of other owners |

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

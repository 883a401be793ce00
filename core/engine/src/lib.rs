//! The components that pure controllers share. It belongs here if every controller could use it; nothing here knows one of
//! them.
//!
//! A controller is a state machine, `step(state, event, now) -> actions`. Nothing in this crate or in a controller waits, sleeps,
//! reads a clock, draws a random number or does I/O: all input of a step is in its arguments. A driver outside executes the
//! actions.
//!
//! | module | content |
//! | --- | --- |
//! | [`machine`] | the contract between a machine and its driver: events in, requests and notes out, a deadline |
//! | [`action`], [`outcome`] | the actions that a machine can request, and their outcomes |
//! | [`broker`] | message brokers and the events that are published to them |
//! | [`document`] | JSON documents that are parsed while they arrive |
//! | [`scheduler`] | schedules passes: which key is reconciled when, what its pass waits for, retries and resync |
//! | [`queue`], [`backoff`] | the work queue and the delays that the scheduler uses |
//! | [`cache`] | the objects that watches have shown, with indexes |
//! | [`informer`] | the watched objects of one kind, for controllers that keep them as they are |
//! | [`conditions`] | conditions of a status |
//! | [`unconfirmed`] | the conditions of status writes without an answer, until they are announced |
//! | [`finalizer`] | finalizers: added and removed without changing those of other clients |
//! | [`image`] | container images and registries |
//! | [`object`] | objects, their kinds, names and identifiers |
//! | [`operator`] | a machine that reconciles keys: scheduler, watches, events, recording |
//! | [`recorder`] | Kubernetes Events with aggregation |
//! | [`lease`] | leader election |
//! | [`recording`] | recordings of runs, and their replay |
//! | [`refusals`] | refused watches of the kinds without which a controller can decide nothing |
//! | [`repair_backoff`] | the delays between repairs of an object that another client keeps changing |
//! | [`time`], [`duration`], [`random`] | clocks and random numbers, as arguments; Go durations |
//! | [`trace`] | traces and their spans |
//! | [`wire`] | the HTTP form of actions and answers |
//! | [`pairs`] | maps whose keys are not texts, as lists of pairs in JSON |
//! | [`write`](mod@write) | writes that do not change the objects of other owners |
//! | [`yaml`], [`digest`] | YAML documents, digests of values |

pub mod action;
pub mod backoff;
pub mod broker;
pub mod cache;
pub mod conditions;
pub mod digest;
pub mod document;
pub mod doubts;
pub mod duration;
pub mod finalizer;
pub mod image;
pub mod informer;
pub mod lease;
pub mod machine;
pub mod object;
pub mod operator;
pub mod outcome;
pub mod pairs;
pub mod queue;
pub mod random;
pub mod recorder;
pub mod recording;
pub mod refusals;
pub mod repair_backoff;
pub mod scheduler;
pub mod time;
pub mod trace;
pub mod unconfirmed;
pub mod wire;
pub mod write;
pub mod yaml;

//! Simulated environments for Lockstep's controllers: models of the surrounding systems, each a pure state machine.
//!
//! [`apiserver`] is a Kubernetes API server with its garbage collector and namespace controller. [`schema`], [`managed`] and
//! [`patch`] implement its types, field ownership and patches. [`builtin`] describes the built-in kinds of Kubernetes. [`host`]
//! serves the model over HTTP on loopback. [`hyperfleet`] is the HyperFleet API, with [a host](hyperfleet::host) of its own.
//! [`external`] holds foreign controllers. Only the hosts read a clock, draw a random number or do I/O.

pub mod apiserver;
pub mod builtin;
pub mod cause;
pub mod cluster;
pub mod external;
pub mod host;
pub mod hyperfleet;
pub mod managed;
pub mod patch;
pub mod schema;
pub mod simulation;

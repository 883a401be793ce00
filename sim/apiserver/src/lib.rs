//! A model of kube-apiserver, with its garbage collector and namespace controller. What any client of a cluster can observe of
//! the API belongs here; nothing here knows a controller, ours or another.
//!
//! [`server`] is the API server, a pure state machine. [`schema`], [`managed`] and [`patch`] implement its types, field
//! ownership and patches. [`builtin`] describes the built-in kinds of Kubernetes. [`host`] serves the model over HTTP on
//! loopback; only the host reads a clock, draws a random number or does I/O.

pub mod builtin;
pub mod cause;
pub mod host;
pub mod managed;
pub mod patch;
pub mod schema;
pub mod server;

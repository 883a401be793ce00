//! Worlds to run Lockstep's controllers in: models of the systems around them, each a pure state machine.
//!
//! [`apiserver`] is a Kubernetes API server with its garbage collector and namespace controller; [`schema`],
//! [`managed`] and [`patch`] hold what it knows of types, field ownership and patches; [`builtin`] holds what it
//! knows of the kinds that Kubernetes brings along; [`host`] serves it over HTTP on loopback. [`hyperfleet`] is the
//! HyperFleet API, with [a host](hyperfleet::host) of its own. [`external`] holds foreign controllers.
//! Nothing outside of the hosts reads a clock, draws a random number or does I/O.

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

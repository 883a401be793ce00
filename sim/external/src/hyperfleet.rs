//! The HyperFleet API as a pure state machine.
//!
//! [`HyperFleet::handle`] takes a request and the time and answers it immediately. Models of users and adapters call
//! [`HyperFleet::create`], [`HyperFleet::report`] and similar functions, or post reports as adapters do. [`damage`] corrupts
//! answers, and [`host`] serves them over HTTP.
//!
//! ```text
//!   http::Request ─► request ─► filter (search, selector) ─► rows ─► order ─► respond ─► http::Response
//!                       │                                     ▲
//!                       └───────────► report ─────────────────┘
//! ```
//!
//! The model covers the known answers of release 0.3.1, and the known differences of 0.3.0 ([`Release`]). Not modelled:
//! authentication (but see the host), `fields`, and writes other than reports.

pub use self::dialect::{API, Dialect, Release};
pub use self::fleet::HyperFleet;
pub use self::report::ADAPTERS;
pub use self::resource::{Condition, Kind, Labels, Resource, State, Status};

pub mod damage;
mod dialect;
mod filter;
mod fleet;
pub mod host;
mod ids;
mod order;
mod report;
mod request;
mod resource;
mod respond;
mod rows;
mod search;
#[cfg(test)]
mod tests;

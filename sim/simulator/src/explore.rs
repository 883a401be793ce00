//! Explores every run of a controller in a small world: all orders in which requests are executed and messages are delivered, and
//! all placements of a few faults.
//!
//! ```text
//!   small world ─▶ depth-first search ─▶ states, transitions, final states
//!                     │ each transition: safety; each state at rest: desired state
//!                     └ violation ─▶ shorter runs ─▶ counterexample: plan, timeline
//! ```
//!
//! A state is the API server, the control plane, the systems outside Kubernetes, the machines, the messages in transit, the clock
//! and the permitted faults. The systems around the controller have no state but their objects (`surroundings`). States are
//! copied, not computed again, and compared by a hash of 64 bits (`print`). The order between independent parts of the world is
//! not explored (`reduce`).

mod act;
mod counterexample;
mod delivery;
mod depth_first;
mod fingerprint;
mod memo;
mod moves;
mod outcome;
mod print;
mod process;
mod reduce;
mod request;
mod scope;
mod server;
mod setup;
mod surroundings;
mod transition;
mod world;

pub use self::outcome::{Counterexample, Explored};
pub use self::scope::Exploration;

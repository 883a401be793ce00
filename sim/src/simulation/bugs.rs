//! Bugs to be planted: what the simulator must find, so that its silence means something.

use lockstep_core::engine::action::Action;
use lockstep_core::engine::machine::Machine;

/// A bug that sits between a machine and its world.
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// What is wrong, in one sentence.
    pub sentence: &'static str,
    /// The controller that it is planted in.
    pub controller: &'static str,
    /// Puts it around a machine.
    pub plant: fn(Box<dyn Machine>) -> Box<dyn Machine>,
    /// Garbles requests on their way to the server.
    pub garble: Option<fn(&Action, http::Request<Vec<u8>>) -> http::Request<Vec<u8>>>,
}

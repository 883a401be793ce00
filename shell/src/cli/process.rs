//! What runs in this process, and what tells it from all others.

use std::hash::{BuildHasher as _, RandomState};

use anyhow::Context as _;
use lockstep_core::engine::operator::Config;
use lockstep_core::engine::recording::Recordable;
use lockstep_shell::controllers;

/// The controller of that name.
pub(super) fn controller(name: &str, settings: &Config) -> anyhow::Result<Box<dyn Recordable + Send>> {
    controllers::machine(name, settings)
        .with_context(|| format!("this build of lockstep does not hold the controller {name:?}"))
}

/// Differs from process to process.
pub(super) fn seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A name that no other process has: the host's, which is the pod's in a cluster, and a random part.
pub(super) fn instance() -> String {
    let host = rustix::system::uname();
    format!("{}_{:016x}", host.nodename().to_string_lossy(), seed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_differ() {
        assert_ne!(instance(), instance());
    }
}

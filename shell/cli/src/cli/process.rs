//! The controllers of this process, and its unique identity.

use std::hash::{BuildHasher as _, RandomState};

use anyhow::Context as _;
use lockstep_cli::controllers;
use lockstep_engine::operator::Config;
use lockstep_engine::recording::Recordable;

/// Creates the controller with that name.
pub(super) fn controller(name: &str, settings: &Config) -> anyhow::Result<Box<dyn Recordable + Send>> {
    controllers::machine(name, settings)
        .with_context(|| format!("this build of lockstep does not hold the controller {name:?}"))
}

/// Returns a seed that differs from process to process.
pub(super) fn seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Returns a unique name of this process: the host's name, which is the pod's in a cluster, and a random suffix.
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

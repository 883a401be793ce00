//! What tells this process from all others.

use std::hash::{BuildHasher as _, RandomState};

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

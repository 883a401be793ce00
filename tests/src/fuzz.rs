//! What fuzzers call, so that their corpora are replayed in the ordinary test run as well.
//!
//! A target takes any bytes and panics if what it holds to be true is not.

mod apiserver;
mod namespaceclass;

pub use self::apiserver::apiserver;
pub use self::namespaceclass::namespaceclass;

/// A target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 2] = [("apiserver", apiserver), ("namespaceclass", namespaceclass)];

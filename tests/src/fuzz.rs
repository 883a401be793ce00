//! What fuzzers call, so that their corpora are replayed in the ordinary test run as well.
//!
//! A target takes any bytes and panics if what it holds to be true is not.

mod apiserver;
mod bridge;
mod bridge_input;
mod careless;
mod documents;
mod dpuservice;
mod namespaceclass;
mod sentinel;

pub use self::apiserver::apiserver;
pub use self::bridge::bridge;
pub use self::bridge_input::bridge_input;
pub use self::dpuservice::dpuservice;
pub use self::namespaceclass::namespaceclass;
pub use self::sentinel::sentinel;

/// A target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 6] = [
    ("apiserver", apiserver),
    ("bridge", bridge),
    ("bridge_input", bridge_input),
    ("dpuservice", dpuservice),
    ("namespaceclass", namespaceclass),
    ("sentinel", sentinel),
];

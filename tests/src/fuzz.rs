//! The fuzz targets. The ordinary test run replays their corpora.
//!
//! A target accepts any bytes and panics if a property does not hold.

mod always_ok;
mod apiserver;
mod bridge;
mod bridge_input;
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

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 6] = [
    ("apiserver", |data| {
        apiserver(data);
    }),
    ("bridge", bridge),
    ("bridge_input", bridge_input),
    ("dpuservice", dpuservice),
    ("namespaceclass", namespaceclass),
    ("sentinel", sentinel),
];

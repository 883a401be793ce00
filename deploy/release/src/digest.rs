//! SHA-256 in the forms of the files.

use sha2::{Digest as _, Sha256};

/// Returns the digest in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

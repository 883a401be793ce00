//! The values of Secrets in simulations.

use std::borrow::Cow;

use lockstep_engine::action::{Failure, KubeRequest};
use lockstep_engine::wire;

/// Every Secret value in a simulation contains this word, so that leaks are found by search.
pub const SECRET: &str = "tops3cret";

/// Returns a request with the values that have to be generated.
pub(crate) fn generated(request: &KubeRequest, revision: u64) -> Result<Cow<'_, KubeRequest>, Failure> {
    wire::generated(request, |value| {
        fill(revision, value);
        Ok(())
    })
}

/// Fills a generated value of a Secret. Another revision of the server gives another value, so a Secret that is created again
/// differs.
fn fill(revision: u64, value: &mut [u8]) {
    let text = format!("{SECRET}-{revision}-");
    for (byte, letter) in value.iter_mut().zip(text.bytes().cycle()) {
        *byte = letter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generated_value_is_another_secret() {
        let value = |revision| {
            let mut value = [0; 32];
            fill(revision, &mut value);
            value
        };
        assert!(str::from_utf8(&value(7)).unwrap().contains(SECRET));
        assert_ne!(value(7), value(8));
        assert_ne!(value(7), value(77));
    }
}

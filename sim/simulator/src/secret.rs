//! The values of Secrets in simulations.

/// Every Secret value in a simulation contains this word, so that leaks are found by search.
pub const SECRET: &str = "tops3cret";

/// Fills a generated value of a Secret. Another revision of the server gives another value, so a Secret that is created again
/// differs.
pub(crate) fn fill(revision: u64, value: &mut [u8]) {
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

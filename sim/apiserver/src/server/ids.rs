//! Unique ids and generated names: random in appearance, the same for the same seed.

use std::fmt::Write as _;

/// The letters of generated names: no vowels, so that no words are formed.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A seeded generator (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Ids(u64);

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random (version 4) UUID.
    pub(crate) fn uid(&mut self) -> String {
        let mut bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        bits = (bits & !(0xf << 76)) | (0x4 << 76);
        bits = (bits & !(0x3 << 62)) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let mut uid = String::with_capacity(36);
        for (index, part) in
            [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].iter().enumerate()
        {
            let dash = if index == 0 { "" } else { "-" };
            write!(uid, "{dash}{part}").expect("a string takes all writes");
        }
        uid
    }

    /// Returns a name from a prefix and five random letters; at most 63 bytes.
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        const PREFIX_MAX_BYTES: usize = 58;
        let mut end = prefix.len().min(PREFIX_MAX_BYTES);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let mut name = prefix[..end].to_owned();
        let mut bits = self.next();
        for _ in 0..5 {
            let count = ALPHABET.len() as u64;
            let letter = usize::try_from(bits % count).expect("below 27");
            name.push(char::from(ALPHABET[letter]));
            bits /= count;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_repeat_with_the_seed_and_never_within_it() {
        let draw = |seed| {
            let mut ids = Ids::new(seed);
            (0..100).map(|_| ids.uid()).collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_eq!(draw(1).len(), 100);
        assert!(draw(1).is_disjoint(&draw(2)));
        let uid = Ids::new(3).uid();
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
        assert_eq!(Ids::new(3).name("pre-").len(), 9);
    }
}

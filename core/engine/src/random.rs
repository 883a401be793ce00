//! Seeded randomness: the only source of random numbers in the core, stored in the state that uses it.

use serde::{Deserialize, Serialize};

/// A SplitMix64 generator (Steele, Lea, Flood 2014): one word of state, good enough for jitter and identifiers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random(u64);

impl Random {
    /// Returns a generator whose numbers depend on `seed` only.
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..bound`; `0` for a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(scaled >> 64).unwrap_or(u64::MAX)
    }

    /// Returns one of these; there must be at least one.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut one, mut two) = (Random::from_seed(7), Random::from_seed(7));
        let drawn: Vec<u64> = (0..100).map(|_| one.below(10)).collect();
        assert!(drawn.iter().all(|number| *number == two.below(10)));
        assert!((0..10).all(|number| drawn.contains(&number)));
        assert_eq!(one.below(0), 0);
    }
}

//! UUIDs of version 7 (RFC 9562): the ids of later resources sort after those of earlier ones.

use jiff::Timestamp;
use lockstep_engine::random::Random;

/// Number of bits of the counter that distinguishes ids within one millisecond.
const COUNTER_BITS: u32 = 12;

/// A seeded generator.
#[derive(Debug, Clone)]
pub(super) struct Ids {
    random: Random,
    /// The time of the last id in milliseconds, followed by the counter within it.
    last: u64,
}

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::from_seed(seed), last: 0 }
    }

    /// Returns the next id: greater than all before it, even if the clock went backwards.
    pub(super) fn next(&mut self, now: Timestamp) -> String {
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
        // A counter that overflows borrows from the next millisecond.
        self.last = (millis << COUNTER_BITS).max(self.last + 1);
        let (millis, counter) = (self.last >> COUNTER_BITS, self.last & ((1 << COUNTER_BITS) - 1));
        let random = self.random.bits();
        let (high, low) = ((random >> 48) & 0x3fff | 0x8000, random & 0xffff_ffff_ffff);
        format!("{:08x}-{:04x}-7{counter:03x}-{high:04x}-{low:012x}", millis >> 16, millis & 0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_whatever_the_clock_does() {
        let mut ids = Ids::new(7);
        let times = [5_000_000, 5_000_000, 4_000_000, 6_000_000];
        let drawn: Vec<String> = times
            .iter()
            .flat_map(|millis| {
                let now = Timestamp::from_millisecond(*millis).unwrap();
                (0..5000).map(|_| ids.next(now)).collect::<Vec<_>>()
            })
            .collect();
        assert!(drawn.is_sorted_by(|one, other| one < other));
        assert_eq!(drawn.first().map(String::len), Some(36));
        assert!(drawn.iter().all(|id| &id[14..15] == "7" && "89ab".contains(&id[19..20])));
    }

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let draw = |seed| Ids::new(seed).next(Timestamp::UNIX_EPOCH);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}

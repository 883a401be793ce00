//! Durations as kubectl shows them.

use jiff::SignedDuration;

/// Returns the largest unit of a duration, such as `5s`, `3m`, `7h` or `12d`.
pub(super) fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        for (seconds, shown) in
            [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d")]
        {
            assert_eq!(age(SignedDuration::from_secs(seconds)), shown);
        }
    }
}

//! Durations in the format of Go and Kubernetes: `500ms`, `10s`, `1h30m`.

use std::time::Duration;

/// Parses a duration. An error states what is wrong and how to fix it.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a duration: write a number and a unit, such as 500ms, 10s, 30m or 1h30m");
    let mut rest = text;
    let mut nanoseconds: u128 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let unit_ends = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_ends);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60 * 1_000_000_000,
            "h" => 3600 * 1_000_000_000,
            _ => return Err(wrong()),
        };
        nanoseconds = nanoseconds.saturating_add(scaled(number, unit).ok_or_else(wrong)?);
        rest = after;
    }
    let nanoseconds = u64::try_from(nanoseconds).map_err(|_| format!("{text:?} is too long a duration"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// A decimal number of units, in nanoseconds.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanoseconds = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        let digit = digit.is_ascii_digit().then(|| u128::from(digit - b'0'))?;
        place /= 10;
        nanoseconds = nanoseconds.checked_add(digit * place)?;
    }
    Some(nanoseconds)
}

/// Writes a duration in the same format, in its shortest form.
pub fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0 => "0s".to_owned(),
        _ if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        let table = [
            ("10s", 10_000),
            ("30m", 1_800_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1500),
            ("500ms", 500),
            (".5s", 500),
            ("2m0.25s", 120_250),
            ("0s", 0),
        ];
        for (text, millis) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "10 s", "-5s", "1d", ".s", "1..2s", "9999999999h", "10S"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(millis in 0u64..1_000_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn nothing_panics(text in ".{0,20}") {
            let _ = parse(&text);
        }
    }
}

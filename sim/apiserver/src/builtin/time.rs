//! Times as the server decodes and encodes them.

use jiff::{Timestamp, Unit};

/// Parses an RFC 3339 time and formats it in UTC and whole seconds, as `metav1.Time` does.
pub(super) fn seconds(text: &str) -> Result<String, String> {
    read(text, "2006-01-02T15:04:05Z07:00", false)?
        .round(jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor))
        .map(|time| time.to_string())
        .map_err(|error| error.to_string())
}

/// Parses a time with six decimal places and formats it in UTC, as `metav1.MicroTime` does.
pub(super) fn micros(text: &str) -> Result<String, String> {
    let time = read(text, "2006-01-02T15:04:05.000000Z07:00", true)?;
    Ok(format!("{time:.6}"))
}

/// Returns the seconds since the epoch of a time in an object.
pub(super) fn epoch_seconds(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

fn read(text: &str, layout: &str, fraction: bool) -> Result<Timestamp, String> {
    if let Err((rest, element)) = scan(text, fraction) {
        return Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"));
    }
    text.parse().map_err(|_| format!("parsing time {text:?}: {}", out_of_range(text)))
}

/// Matches the text with the layout; the error is the rest of the text and the element of the layout that does not match.
fn scan(text: &str, fraction: bool) -> Result<(), (&str, &'static str)> {
    let elements = [
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ];
    let mut rest = text;
    for (element, digits) in elements {
        let taken = if digits == 0 {
            rest.strip_prefix(element)
        } else {
            rest.split_at_checked(digits)
                .filter(|(head, _)| head.bytes().all(|b| b.is_ascii_digit()))
                .map(|(_, rest)| rest)
        };
        rest = taken.ok_or((rest, element))?;
    }
    let decimals =
        rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if fraction && decimals != 6 {
        return Err((rest, ".000000"));
    }
    let zone = if decimals == 0 { rest } else { &rest[decimals + 1..] };
    let offset = zone.as_bytes();
    let is_offset = offset.len() == 6 && matches!(offset[0], b'+' | b'-') && offset[3] == b':';
    if zone == "Z" || is_offset { Ok(()) } else { Err((zone, "Z07:00")) }
}

fn out_of_range(text: &str) -> &'static str {
    let number = |range: std::ops::Range<usize>| {
        text.get(range).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(0)
    };
    match (number(5..7), number(11..13), number(14..16), number(17..19)) {
        (0 | 13.., _, _, _) => "month out of range",
        (_, 24.., _, _) => "hour out of range",
        (_, _, 60.., _) => "minute out of range",
        (_, _, _, 60..) => "second out of range",
        _ => "day out of range",
    }
}

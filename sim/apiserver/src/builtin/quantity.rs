//! Resource quantities such as `500m` and `1Gi`: parsing, comparison and the server's stored form.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const MAX_NANOS: i128 = (i64::MAX as i128) * NANOS_PER_UNIT;
/// Maximum number of decimal digits that the real server keeps in a 64-bit integer; longer numbers take its slow path.
const FAST_PATH_DIGITS: usize = 18;
/// The same for binary suffixes, including the digits of the factor.
const BINARY_FAST_PATH_DIGITS: usize = 14;

/// Describes why a text is not a quantity; the texts are the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number followed by a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number can't be parsed.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    Binary,
    Decimal,
    Exponent,
}

/// A fixed-point number with nine decimal places and its original notation.
#[derive(Debug, Clone)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
    /// The original text, if the server treats it as canonical.
    written: Option<String>,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Quantity {
    /// Parses a quantity as the server does.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::split(text)?;
        let (base, exponent, notation) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let magnitude = magnitude(&digits, parts.fraction.len(), base, exponent)?;
        let capped = if notation == Notation::Binary { magnitude.min(MAX_NANOS) } else { magnitude };
        let notation = if notation == Notation::Binary && capped > 0 && capped < NANOS_PER_UNIT {
            Notation::Decimal
        } else {
            notation
        };
        let written = kept_as_written(&parts, notation, exponent).then(|| text.to_owned());
        Ok(Self { nanos: if parts.negative { -capped } else { capped }, notation, written })
    }

    /// Parses a quantity of a decoded object.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text.trim()).ok(),
            Value::Number(number) => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// Rounds away from zero to thousandths, as the server does for resource lists.
    #[must_use]
    pub fn rounded_to_milli(mut self) -> Self {
        let milli = NANOS_PER_UNIT / 1000;
        let rest = self.nanos % milli;
        if rest != 0 {
            self.nanos += milli * self.nanos.signum() - rest;
            self.written = None;
        }
        self
    }

    /// Returns the nearest floating-point number.
    #[expect(
        clippy::cast_precision_loss,
        reason = "for ratios, which the real server computes in floating point too"
    )]
    pub fn as_f64(&self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }

    /// Returns whether it is less than zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Returns whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Returns whether it is a whole number.
    pub fn is_integer(&self) -> bool {
        self.nanos % NANOS_PER_UNIT == 0
    }

    /// Returns the value in whole units, rounded away from zero.
    pub fn units(&self) -> i128 {
        let rest = self.nanos % NANOS_PER_UNIT;
        self.nanos / NANOS_PER_UNIT + if rest == 0 { 0 } else { self.nanos.signum() }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return f.write_str(written);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let binary = self.notation == Notation::Binary
            && self.nanos.abs() >= 1024 * NANOS_PER_UNIT
            && self.is_integer();
        if binary {
            return write_binary(self.nanos / NANOS_PER_UNIT, f);
        }
        write_decimal(self.nanos, self.notation == Notation::Exponent, f)
    }
}

fn write_binary(units: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut mantissa = units;
    let mut power = 0;
    while mantissa % 1024 == 0 && power + 1 < suffixes.len() {
        mantissa /= 1024;
        power += 1;
    }
    write!(f, "{mantissa}{}", suffixes[power])
}

fn write_decimal(nanos: i128, exponent_form: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let mut mantissa = nanos;
    let mut power = 0;
    while mantissa % 1000 == 0 && (exponent_form || power + 1 < suffixes.len()) {
        mantissa /= 1000;
        power += 1;
    }
    let exponent = i64::try_from(power).unwrap_or(0) * 3 - 9;
    match (exponent_form, exponent) {
        (_, 0) => write!(f, "{mantissa}"),
        (true, _) => write!(f, "{mantissa}e{exponent}"),
        (false, _) => write!(f, "{mantissa}{}", suffixes[power]),
    }
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end_of = |s: &str, digit: fn(char) -> bool| s.find(|c| !digit(c)).unwrap_or(s.len());
        let is_digit = |c: char| c.is_ascii_digit();
        let (whole, rest) = unsigned.split_at(end_of(unsigned, is_digit));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(end_of(rest, is_digit)),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !exponent.chars().all(is_digit) {
            return Err(QuantityError::Format);
        }
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            trimmed => trimmed,
        };
        Ok(Self { negative, whole, fraction, suffix })
    }
}

fn suffix(text: &str) -> Option<(u32, i32, Notation)> {
    let decimal = |exponent| Some((10, exponent, Notation::Decimal));
    let binary = |exponent| Some((2, exponent, Notation::Binary));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?;
            Some((10, exponent.parse().ok()?, Notation::Exponent))
        }
    }
}

/// Returns `digits` with `decimals` decimal places times `base` to the `exponent`, in nano units, rounded up.
fn magnitude(digits: &str, decimals: usize, base: u32, exponent: i32) -> Result<i128, QuantityError> {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    let number: i128 = match significant.parse() {
        Ok(number) => number,
        Err(_) => return Ok(MAX_NANOS),
    };
    let decimals = i32::try_from(decimals).map_err(|_| QuantityError::Numeric)?;
    let (number, power) = if base == 2 {
        (number.saturating_mul(1 << exponent), 9 - decimals)
    } else {
        (number, 9 - decimals + exponent)
    };
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    Ok(match (power >= 0, factor) {
        (true, Some(factor)) => number.checked_mul(factor).unwrap_or(MAX_NANOS),
        (true, None) => MAX_NANOS,
        (false, Some(factor)) => number / factor + i128::from(number % factor != 0),
        (false, None) => 1,
    })
}

/// Returns whether the text is kept: the server's fast path treats some texts as canonical by their form, and so keeps `1.500`.
fn kept_as_written(parts: &Parts<'_>, notation: Notation, exponent: i32) -> bool {
    let digits = format!("{}{}", parts.whole, parts.fraction);
    match notation {
        Notation::Binary => {
            let factor_digits = usize::try_from(exponent * 3 / 10).unwrap_or(0);
            parts.fraction.is_empty()
                && parts.whole.len() + factor_digits <= BINARY_FAST_PATH_DIGITS
                && digits.parse::<i64>().is_ok_and(|value| value & 7 != 0)
        }
        Notation::Decimal | Notation::Exponent => {
            let scale = exponent - i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
            digits.len() <= FAST_PATH_DIGITS
                && scale >= -9
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("100Mi", "100Mi"),
            ("1000Mi", "1000Mi"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("0.1Ki", "102400m"),
            ("1.500", "1.500"),
            ("-2", "-2"),
            ("512Ki", "512Ki"),
            ("2048", "2048"),
            ("0.0000000001", "1n"),
            ("12E", "12E"),
            ("8Gi", "8Gi"),
        ] {
            assert_eq!(Quantity::parse(text).map(|q| q.to_string()), Ok(canonical.to_owned()), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        assert_eq!(Quantity::parse("").unwrap_err(), QuantityError::Format);
        assert_eq!(Quantity::parse("abc").unwrap_err(), QuantityError::Format);
        assert_eq!(Quantity::parse("10Mib").unwrap_err(), QuantityError::Format);
        assert_eq!(Quantity::parse("10mi").unwrap_err(), QuantityError::Suffix);
    }
}

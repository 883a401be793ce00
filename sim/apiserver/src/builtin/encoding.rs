//! Base64 as the server decodes it: line breaks are skipped, padding is required, errors contain the position.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Decodes and encodes again; the error is the position of the invalid byte.
pub(super) fn check(text: &str) -> Result<String, usize> {
    decode(text).map(|bytes| STANDARD.encode(bytes))
}

/// Encodes bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes; the error is the position of the invalid byte.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let significant: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n')).collect();
    if let Some(position) = first_error(&significant, text.len()) {
        return Err(position);
    }
    let bytes: Vec<u8> = significant.iter().map(|(_, byte)| *byte).collect();
    lenient().decode(bytes).map_err(|_| text.len())
}

/// Returns an engine that ignores extra bits after the end of the data, as Go does.
fn lenient() -> base64::engine::GeneralPurpose {
    let config = base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    base64::engine::GeneralPurpose::new(&base64::alphabet::STANDARD, config)
}

fn first_error(significant: &[(usize, u8)], length: usize) -> Option<usize> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    for quantum in significant.chunks(4) {
        let digits = quantum.iter().take_while(|(_, byte)| is_digit(*byte)).count();
        if digits == 4 {
            continue;
        }
        let Some(&(position, byte)) = quantum.get(digits) else {
            // Go reports the start of the incomplete group, counted from the end of the input.
            return Some(length - quantum.len());
        };
        let padding = &quantum[digits..];
        if byte != b'=' || digits < 2 {
            return Some(position);
        }
        if padding.len() + digits < 4 {
            return Some(length);
        }
        if let Some((position, _)) = padding.iter().find(|(_, byte)| *byte != b'=') {
            return Some(*position - usize::from(digits == 2));
        }
        let end = quantum.last().map_or(length, |(position, _)| position + 1);
        return significant.iter().find(|(position, _)| *position >= end).map(|(position, _)| *position);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_position_of_an_invalid_byte() {
        assert_eq!(check("aGVsbG8="), Ok("aGVsbG8=".to_owned()));
        assert_eq!(check("aGVs\nbG8=\n"), Ok("aGVsbG8=".to_owned()));
        assert_eq!(check(""), Ok(String::new()));
        assert_eq!(check("not base64!"), Err(3));
        assert_eq!(check("abc"), Err(0));
        assert_eq!(check("hello"), Err(4));
        assert_eq!(check("aGVsbG8=x"), Err(8));
    }
}

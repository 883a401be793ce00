//! Continue tokens: the position of the next page of a list, and its revision.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde_json::{Value, json};

use crate::builtin::json_syntax;

const VERSION: &str = "meta.k8s.io/v1";
const INVALID: &str = "continue key is not valid";
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The content of a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The revision of the list; none for the newest, so that pages may be inconsistent with each other.
    pub(super) revision: Option<u64>,
    /// The key of the last returned item, relative to that of the list.
    pub(super) after: String,
}

impl Token {
    pub(super) fn encode(&self) -> String {
        let revision = self.revision.map_or(json!(-1), Value::from);
        let start = json!(format!("{}\u{0}", self.after));
        BASE64.encode(format!(r#"{{"v":"{VERSION}","rv":{revision},"start":{start}}}"#))
    }

    /// Parses a token; the error is the server's message.
    pub(super) fn decode(text: &str) -> Result<Self, String> {
        let bytes = BASE64
            .decode(text)
            .map_err(|_| format!("{INVALID}: illegal base64 data at input byte {}", illegal(text)))?;
        let token: Value = serde_json::from_slice(&bytes)
            .map_err(|_| format!("{INVALID}: {}", json_syntax::error(&bytes)))?;
        let version = token["v"].as_str().unwrap_or_default();
        if version != VERSION {
            return Err(format!("{INVALID}: server does not recognize this encoded version {version}"));
        }
        let revision = token["rv"].as_i64().unwrap_or_default();
        if revision == 0 {
            return Err(format!("{INVALID}: incorrect encoded start resourceVersion (version {VERSION})"));
        }
        let start = token["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(format!("{INVALID}: encoded start key empty (version {VERSION})"));
        }
        // A key outside of the resource.
        if start
            .split('/')
            .skip(usize::from(start.starts_with('/')))
            .any(|part| ["", ".", ".."].contains(&part))
        {
            return Err(format!("{INVALID}: {start}"));
        }
        let after = start.trim_start_matches('/').trim_end_matches('\u{0}').to_owned();
        Ok(Self { revision: u64::try_from(revision).ok(), after })
    }
}

/// Returns the position at which a text is no longer base64.
fn illegal(text: &str) -> usize {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    // The remainder is a single digit at the end, which encodes less than a byte.
    text.bytes().position(|byte| !known(byte)).unwrap_or(text.len().saturating_sub(1))
}

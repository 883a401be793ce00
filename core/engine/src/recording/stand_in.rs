//! Placeholders for secrets in a recording. Equal secrets have equal placeholders. Without the key, a placeholder gives no
//! information for guessing the secret.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::Number;
use sha2::{Digest as _, Sha256};

use super::Form;

/// Creates placeholders with a key of random bytes, which must not be stored with the recording.
#[derive(Clone)]
pub(super) struct Placeholders {
    key: [u8; 32],
    /// By secret: a placeholder in the format that the machine parses.
    formed: BTreeMap<Vec<u8>, String>,
}

impl Placeholders {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key, formed: BTreeMap::new() }
    }

    /// Gives a secret a placeholder in its own format.
    pub(super) fn form(&mut self, secret: &[u8], form: &Form) {
        if !self.formed.contains_key(secret) {
            let formed = self.formed(secret, form);
            self.formed.insert(secret.to_vec(), formed);
        }
    }

    /// Returns the placeholder of a secret in its own format.
    pub(super) fn formed(&self, secret: &[u8], form: &Form) -> String {
        (form.stand_in)(secret, &|part| self.hidden(part))
    }

    fn bits(&self, purpose: u8, secret: &[u8]) -> u64 {
        let inner =
            Sha256::new().chain_update(self.key).chain_update([purpose]).chain_update(secret).finalize();
        let outer =
            Sha256::new().chain_update(self.key).chain_update([!purpose]).chain_update(inner).finalize();
        outer.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
    }

    /// Returns the placeholder of a text.
    pub(super) fn text(&self, secret: &[u8]) -> String {
        self.formed.get(secret).cloned().unwrap_or_else(|| self.hidden(secret))
    }

    fn hidden(&self, secret: &[u8]) -> String {
        format!("hidden-{:016x}", self.bits(0, secret))
    }

    /// Returns the placeholder of a number: a whole number of up to fifteen digits, which every JSON parser reads exactly.
    pub(super) fn number(&self, secret: &Number) -> Number {
        Number::from(self.bits(1, secret.to_string().as_bytes()) % 1_000_000_000_000_000)
    }

    /// Returns the placeholder of a mark whose content is not known.
    pub(super) fn mark(&self, mark: &str) -> String {
        format!("{:016x}", self.bits(2, mark.as_bytes()))
    }

    /// Returns the texts in which a secret can occur, each with its placeholder.
    pub(super) fn forms(&self, secret: &[u8]) -> Vec<(String, String)> {
        let hidden = self.text(secret);
        let mut forms = Vec::new();
        if let Ok(raw) = str::from_utf8(secret) {
            forms.push((raw.to_owned(), hidden.clone()));
            // The JSON-escaped forms within a text, as we write them and as Go does.
            let json = serde_json::Value::from(raw).to_string();
            let json = json[1..json.len() - 1].to_owned();
            let go = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            forms.extend([json, go].map(|text| (text, hidden.clone())));
        }
        forms.push((STANDARD.encode(secret), STANDARD.encode(&hidden)));
        forms.push((STANDARD_NO_PAD.encode(secret), STANDARD_NO_PAD.encode(&hidden)));
        forms
    }

    /// Returns the value that a text in the `data` of a Secret encodes, and its placeholder there. Two texts that differ get
    /// different placeholders, although base64 can encode the same bytes in two ways.
    pub(super) fn data(&self, text: &str) -> (Vec<u8>, String) {
        let bytes = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect::<Vec<_>>();
        match STANDARD.decode(&bytes) {
            Ok(secret) if STANDARD.encode(&secret) == text => {
                let hidden = STANDARD.encode(self.text(&secret));
                (secret, hidden)
            }
            Ok(secret) => (secret, STANDARD.encode(self.text(text.as_bytes()))),
            Err(_) => (text.as_bytes().to_owned(), self.text(text.as_bytes())),
        }
    }
}

// Debug output must not show the key.
impl fmt::Debug for Placeholders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Placeholders")
    }
}

#[cfg(test)]
mod tests;

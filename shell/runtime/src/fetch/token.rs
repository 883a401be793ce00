//! The bearer token.

use std::path::Path;

use http::HeaderValue;
use lockstep_engine::action::{ErrorKind, Failure};

/// A bearer token. It can't be printed.
pub(super) struct Token {
    text: String,
    header: HeaderValue,
}

impl Token {
    /// Reads the file. It is read for each request: it is short, and Kubernetes may replace projected tokens at any time.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        // Without credentials nothing is sent.
        let unusable = |why: &dyn std::fmt::Display| {
            Failure::new(ErrorKind::Unavailable, format!("no token in {}: {why}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(unusable(&"the file is empty"));
        }
        let header = HeaderValue::from_str(&format!("Bearer {text}"));
        let mut header = header.map_err(|_| unusable(&"it has characters that no token has"))?;
        header.set_sensitive(true);
        Ok(Self { text: text.to_owned(), header })
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Removes the token from a message, because a server may have repeated it.
    pub(super) fn mask(&self, message: &str) -> String {
        message.replace(&self.text, "***")
    }
}

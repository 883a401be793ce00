//! What processes keep of the answers of the API. Most answers of a poll are the same as in the one before.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lockstep_engine::document::{Condenser, Document, Fields};

/// The last answer for each URL, with the fields that were kept and the document that resulted.
#[derive(Clone, Default)]
pub(super) struct Condensed(BTreeMap<String, (Bytes, Arc<Fields>, Document)>);

impl Condensed {
    /// Condenses an answer that arrives in chunks of this size, in bytes. None if it is too long or not UTF-8.
    ///
    /// An answer that is the same as the last one for its URL is not condensed again.
    pub(super) fn document(
        &mut self,
        url: &str,
        answer: &Bytes,
        keep: &Arc<Fields>,
        chunk: usize,
    ) -> Option<Document> {
        if let Some((last, kept, document)) = self.0.get(url)
            && last == answer
            && kept == keep
        {
            return Some(document.clone());
        }
        // Lists are short here: parts of a real size would never occur.
        let mut condenser = Condenser::with_parts(keep, 20 * chunk);
        let is_read = answer.chunks(chunk).all(|chunk| condenser.push(chunk).is_ok());
        let document = condenser.finish().filter(|_| is_read)?;
        self.0.insert(url.to_owned(), (answer.clone(), Arc::clone(keep), document.clone()));
        Some(document)
    }
}

/// It is not a part of the state of the systems: they behave in the same way without it.
impl fmt::Debug for Condensed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condensed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_condensed_again_only_if_something_differs() {
        let mut condensed = Condensed::default();
        let [id, name] = ["id", "name"].map(|field| Arc::new(Fields::at([format!("items.{field}")])));
        let answers = [r#"{"items":[{"id":1,"name":2}]}"#, r#"{"items":[{"id":3,"name":4}]}"#];
        let [first, second] = answers.map(|text| Bytes::from_static(text.as_bytes()));
        let mut text = |url, answer, keep, chunk| {
            let document = condensed.document(url, answer, keep, chunk)?;
            Some((document.text().into_owned(), document.parts()))
        };
        let read = text("a", &first, &id, 1000).unwrap();
        assert_eq!(read, (r#"{"items":[{"id":1}]}"#.to_owned(), 1));
        assert_eq!(text("a", &first, &id, 1), Some(read.clone()));
        assert_eq!(text("b", &first, &id, 1000), Some(read));
        assert_eq!(text("a", &second, &id, 1000).unwrap().0, r#"{"items":[{"id":3}]}"#);
        assert_eq!(text("a", &second, &name, 1000).unwrap().0, r#"{"items":[{"name":4}]}"#);
        assert_eq!(text("a", &Bytes::from_static(b"\xff"), &Arc::default(), 1000), None);
    }
}

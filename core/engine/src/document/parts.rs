//! Kept documents. A long list is held in compressed parts that can be read one at a time.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The fastest level of compression. A list repeats the same names and prefixes, so better ones gain little.
const LEVEL: u8 = 1;
/// Shorter texts, in bytes, are not compressed: the compressor needs far more time and memory than they have.
const COMPRESSED_MIN_BYTES: usize = 16 << 10;

/// A document. If it contains a long list, all of it but the end is compressed.
///
/// Each part is a document by itself: it has the same containers around some of the list's items. All parts together have all
/// items.
#[derive(Clone, Default)]
pub struct Document {
    beginning: Option<Arc<Beginning>>,
    end: Arc<str>,
}

/// The compressed pieces of a document, and what makes documents of them.
#[derive(Debug)]
pub(super) struct Beginning {
    /// The first one begins with the document, the others with an item. They end with an item.
    pub(super) pieces: Vec<Packed>,
    /// The text before the first item, without other members of the enclosing objects.
    pub(super) opening: String,
    /// The text that closes these containers.
    pub(super) closing: String,
}

/// A text, compressed if it is long.
#[derive(Debug)]
pub(super) enum Packed {
    Plain(Box<str>),
    Compressed(Box<[u8]>),
}

impl Packed {
    pub(super) fn new(text: &str) -> Self {
        if text.len() < COMPRESSED_MIN_BYTES {
            return Self::Plain(text.into());
        }
        Self::Compressed(compress_to_vec(text.as_bytes(), LEVEL).into())
    }

    fn unpack(&self) -> Cow<'_, str> {
        match self {
            Self::Plain(text) => Cow::Borrowed(text),
            Self::Compressed(bytes) => {
                let text = decompress_to_vec(bytes).expect("it was compressed here");
                String::from_utf8(text).expect("it was a text").into()
            }
        }
    }
}

impl Document {
    pub(super) fn new(beginning: Option<Beginning>, end: String) -> Self {
        Self { beginning: beginning.map(Arc::new), end: end.into() }
    }

    /// Returns the whole text.
    pub fn text(&self) -> Cow<'_, str> {
        let Some(beginning) = &self.beginning else { return Cow::Borrowed(&self.end) };
        let mut text = String::new();
        for piece in &beginning.pieces {
            text.push_str(&piece.unpack());
            text.push(',');
        }
        text.push_str(&self.end);
        Cow::Owned(text)
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        self.beginning.as_ref().map_or(0, |beginning| beginning.pieces.len()) + 1
    }

    /// Returns a part, from 0.
    pub fn part(&self, index: usize) -> Cow<'_, str> {
        let Some(beginning) = &self.beginning else { return Cow::Borrowed(&self.end) };
        let Beginning { pieces, opening, closing } = &**beginning;
        match (index, pieces.get(index)) {
            (0, Some(piece)) => Cow::Owned(piece.unpack().into_owned() + closing),
            (_, Some(piece)) => Cow::Owned(format!("{opening}{}{closing}", piece.unpack())),
            (_, None) => Cow::Owned(format!("{opening}{}", self.end)),
        }
    }
}

impl From<String> for Document {
    fn from(text: String) -> Self {
        Self::new(None, text)
    }
}

impl From<&str> for Document {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Compares the texts, however they are divided.
impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text(), f)
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Document, Packed};
    use crate::document::{Condenser, Fields};
    use crate::random::Random;

    /// A resource of a list needs about 60 bytes. As a value of its own it needs more than 300.
    #[test]
    fn a_long_list_is_held_compressed() {
        let (mut random, count) = (Random::from_seed(1), 10_000);
        let mut condenser = Condenser::new(&Arc::new(Fields::at([
            "items.id",
            "items.kind",
            "items.href",
            "items.status.phase",
        ])));
        condenser.push(b"{\"items\":[").unwrap();
        for number in 0..count {
            let id = format!("0199a4c1-{:04x}-7000-8000-{:012x}", number, random.bits() >> 16);
            let item = format!(
                r#"{{"id":"{id}","kind":"Cluster","href":"/api/hyperfleet/v1/clusters/{id}","status":{{"phase":"Ready"}}}},"#
            );
            condenser.push(item.as_bytes()).unwrap();
        }
        condenser.push(b"{\"id\":\"last\"}]}").unwrap();
        let document: Document = condenser.finish().unwrap();
        let beginning = document.beginning.as_ref().unwrap();
        let size = |piece: &Packed| match piece {
            Packed::Plain(text) => text.len(),
            Packed::Compressed(bytes) => bytes.len(),
        };
        let held = beginning.pieces.iter().map(size).sum::<usize>() + document.end.len();
        assert!(held / count < 64 && document.text().len() / count > 140, "{held} bytes");
    }
}

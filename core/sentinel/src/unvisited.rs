//! The resources of a page until they are visited. A page may be as long as the whole list: of its later parts, only the compressed
//! text is held.

use std::collections::{BTreeSet, VecDeque};

use lockstep_engine::document::Document;

use super::fleet::{Page, Parser};
use super::resource::Resource;

/// Resources of a page that were not visited yet, in their order.
#[derive(Debug, Clone, Default)]
pub struct Unvisited {
    parsed: VecDeque<Resource>,
    /// The number of resources that are left, parsed or not.
    left: usize,
    document: Document,
    /// The part of the document that is parsed next.
    next: usize,
    /// The number of resources in the later parts that were parsed.
    passed: usize,
    /// The positions among them of resources to skip.
    repeated: BTreeSet<usize>,
}

impl Unvisited {
    /// Returns the resources of a page that was parsed from this document.
    pub fn new(page: Page, document: Document) -> Self {
        let left = page.new_count();
        Self { parsed: page.resources.into(), left, document, next: 1, passed: 0, repeated: page.repeated }
    }

    /// Returns whether all were visited.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Returns the next resources, up to this number. The parser is the one that parsed the page.
    pub fn take(&mut self, count: usize, parser: Parser<'_>) -> Vec<Resource> {
        while self.parsed.len() < count.min(self.left) {
            self.parse(parser);
        }
        let taken: Vec<Resource> = self.parsed.drain(..count.min(self.left)).collect();
        self.left -= taken.len();
        if self.is_empty() {
            *self = Self::default();
        }
        taken
    }

    fn parse(&mut self, parser: Parser<'_>) {
        let mut page = Page::default();
        parser.part(&self.document.part(self.next), &mut page).expect("it was parsed before");
        self.next += 1;
        for resource in page.resources {
            if !self.repeated.contains(&self.passed) {
                self.parsed.push_back(resource);
            }
            self.passed += 1;
        }
    }
}

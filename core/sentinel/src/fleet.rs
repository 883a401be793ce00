//! The requests to the HyperFleet API, and the meaning of its answers, in both of its dialects.
//!
//! Source: HyperFleet Sentinel, "Resource Watcher", "Status Tracking". The dialect `search` is that of the released API
//! (0.3): paging, a search language, and conditions instead of a phase.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use lockstep_engine::conditions::cut;
use lockstep_engine::document::{Document, Fields};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::resource::{Dialect, Resource, ResourceType};
use super::selector::{Selector, quoted_id};

mod item;

/// The number of resources in a page: the maximum of the released API.
pub const PAGE_SIZE: usize = 100;
/// The sizes of pages, from the largest to the smallest, for pages that are too large to be read. Each divides the previous
/// one, so that pages of different sizes begin at the same positions.
const PAGE_SIZES: [usize; 4] = [PAGE_SIZE, 20, 4, 1];
/// The maximum number of a page's mistakes that are reported, and the maximum size of each report in bytes.
const PROBLEMS_MAX: usize = 20;
const PROBLEM_MAX_BYTES: usize = 256;

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The resources that could be parsed. If the document has several parts, these are those of the first.
    pub resources: Vec<Resource>,
    /// The hashes of the ids of the resources in later parts. They are parsed again when they are visited.
    pub later: Vec<u64>,
    /// The positions in `later` of resources that were read before.
    pub repeated: BTreeSet<usize>,
    /// The first id in later parts that a search can contain.
    pub leading: Option<String>,
    /// The number of resources that could not be parsed.
    pub spoiled: usize,
    /// The first of these, up to a limit.
    pub malformed: Vec<Malformed>,
    /// The id of the last item, if that is not one of `resources` and has one.
    pub trailing: Option<String>,
    /// The number of items in it.
    pub items: usize,
    /// The number of all items, if the API returns it.
    pub total: Option<u64>,
}

/// An item that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Its index in its page.
    pub index: usize,
    /// Its identity, and what is wrong.
    pub flaw: Flaw,
    /// The description.
    pub problem: String,
}

/// Identifies a malformed item independently of its position and message: the id, if there is one, and the wrong field, if it
/// is only one.
pub type Flaw = (Option<String>, Option<&'static str>);

impl fmt::Display for Malformed {
    /// Writes `item 3 (id cls-1): …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}", self.index)?;
        if let (Some(id), _) = &self.flaw {
            write!(f, " (id {id})")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// The position in a list at which a page begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Only items after this id. Unlike page numbers, it does not depend on rows that move.
    pub after: Option<String>,
    /// Only items before this id.
    pub before: Option<String>,
    /// The page within that range, from 1.
    pub page: u64,
    /// The maximum number of resources in the page.
    pub size: usize,
}

impl Default for Place {
    /// Returns the beginning of a whole list.
    fn default() -> Self {
        Self { after: None, before: None, page: 1, size: PAGE_SIZE }
    }
}

impl Place {
    /// Returns whether a whole list begins here.
    pub(super) fn is_beginning(&self) -> bool {
        self.after.is_none() && self.before.is_none() && self.page == 1
    }

    /// Returns the next smaller size of a page, if there is one.
    pub(super) fn smaller(&self) -> Option<usize> {
        PAGE_SIZES.into_iter().find(|size| *size < self.size)
    }

    /// Returns the next larger one.
    pub(super) fn larger(&self) -> Option<usize> {
        PAGE_SIZES.into_iter().rev().find(|size| *size > self.size)
    }
}

/// The fields of an item that are read.
const ITEM_FIELDS: [&str; 14] = [
    "id",
    "kind",
    "href",
    "generation",
    "labels",
    "owner_references.id",
    "owner_references.kind",
    "owner_references.href",
    "created_time",
    "status.phase",
    "status.lastTransitionTime",
    "status.conditions.type",
    "status.conditions.status",
    "status.conditions.last_updated_time",
];

/// Returns the fields of a page to keep, whether it is an object or only a list: specs may be large.
pub fn fields() -> Arc<Fields> {
    let of_items = ITEM_FIELDS.iter().flat_map(|path| [(*path).to_owned(), format!("items.{path}")]);
    Arc::new(Fields::at(of_items.chain(["total".to_owned()])))
}

/// The fields that expressions may read without naming them: conditions.
const CONDITIONS: &str = "status.conditions";

/// Returns the fields of a page to keep if expressions read these fields of each item.
pub fn fields_for<'p>(paths: impl Iterator<Item = &'p str>) -> Arc<Fields> {
    let of_items = outermost(ITEM_FIELDS.into_iter().chain([CONDITIONS]).chain(paths)).into_iter();
    let of_items = of_items.flat_map(|path| [path.to_owned(), format!("items.{path}")]);
    Arc::new(Fields::at(of_items.chain(["total".to_owned()])))
}

/// Returns the paths without those below another one, which is kept whole.
fn outermost<'p>(paths: impl Iterator<Item = &'p str>) -> BTreeSet<&'p str> {
    let paths = paths.collect::<BTreeSet<_>>();
    let is_below = |path: &str| path.match_indices('.').any(|(end, _)| paths.contains(&path[..end]));
    paths.iter().copied().filter(|path| !is_below(path)).collect()
}

/// Returns the URL of a page.
pub fn url(
    base: &str,
    dialect: Dialect,
    resources: &ResourceType,
    selector: &Selector,
    place: &Place,
) -> String {
    let mut url = format!("{}/api/hyperfleet/v1/{}?", base.trim_end_matches('/'), resources.name());
    match dialect {
        Dialect::Labels => {
            if !selector.is_empty() {
                url.push_str("labels=");
                encode(&selector.to_string(), &mut url);
                url.push('&');
            }
        }
        Dialect::Search => {
            let after = place.after.as_deref().and_then(quoted_id).map(|id| format!("id > {id}"));
            let before = place.before.as_deref().and_then(quoted_id).map(|id| format!("id < {id}"));
            let selected = Some(selector.search()).filter(|search| !search.is_empty());
            let search = [after, before, selected].into_iter().flatten().collect::<Vec<_>>().join(" and ");
            if !search.is_empty() {
                url.push_str("search=");
                encode(&search, &mut url);
                url.push('&');
            }
        }
    }
    // With this order new rows are last. Release 0.3.0 supports it as `orderBy`, later ones as `order`; each ignores the
    // other.
    let order_by = if dialect == Dialect::Search { "&orderBy=id%20asc" } else { "" };
    // Writing to a string can't fail.
    let _ = write!(url, "order=id%20asc{order_by}&page={}&size={}", place.page, place.size);
    url
}

fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                into.push(char::from(byte));
            }
            _ => {
                let _ = write!(into, "%{byte:02X}");
            }
        }
    }
}

/// Parses a page without documents for expressions.
pub fn read(document: &Document, dialect: Dialect, selector: &Selector) -> Result<Page, String> {
    Parser { dialect, selector, keeps_documents: false }.page(document)
}

/// Parses pages.
#[derive(Debug, Clone, Copy)]
pub struct Parser<'c> {
    /// The dialect of the API.
    pub dialect: Dialect,
    /// Selects the resources.
    pub selector: &'c Selector,
    /// Whether the document of each item is kept for expressions.
    pub keeps_documents: bool,
}

impl Parser<'_> {
    /// Parses a page. Items that can't be parsed are reported one by one and do not affect the others. An error means that
    /// there is no page at all.
    pub fn page(self, document: &Document) -> Result<Page, String> {
        let (mut page, mut last) = (Page::default(), None);
        self.part(&document.part(0), &mut page)?;
        let first = page.resources.len();
        for part in 1..document.parts() {
            self.part(&document.part(part), &mut page)?;
            for resource in page.resources.drain(first..) {
                page.later.push(resource.key());
                if page.leading.is_none() && quoted_id(&resource.id).is_some() {
                    page.leading = Some(resource.id.clone());
                }
                last = Some(resource.id);
            }
        }
        page.trailing = page.trailing.or(last);
        Ok(page)
    }

    /// Parses a part of a page.
    pub(super) fn part(self, text: &str, page: &mut Page) -> Result<(), String> {
        let trimmed = text.trim_start_matches([' ', '\t', '\r', '\n']);
        let begins = || trimmed.chars().take(40).collect::<String>();
        let is_item_list = match trimmed.as_bytes().first() {
            None => return Err("the answer is empty, where a list of resources was asked for".to_owned()),
            Some(b'{') => false,
            Some(b'[') => true,
            Some(_) => return Err(format!("the answer is not JSON; it begins with {:?}", begins())),
        };
        let reading = Reading { page, parser: self, is_item_list };
        let mut text = serde_json::Deserializer::from_str(trimmed);
        let read = reading.deserialize(&mut text).and_then(|()| text.end());
        read.map_err(|error| {
            format!("the answer is no list of resources ({error}); it begins with {:?}", begins())
        })
    }
}

/// Parses a page item by item: an answer may have millions of items.
struct Reading<'p> {
    page: &'p mut Page,
    parser: Parser<'p>,
    /// Whether it is at the items, or at the object that contains them.
    is_item_list: bool,
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.is_item_list { from.deserialize_option(self) } else { from.deserialize_map(self) }
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_item_list { "a list of resources" } else { "an object with items" })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut has_items = false;
        while let Some(field) = fields.next_key::<Cow<'de, str>>()? {
            match &*field {
                "total" => self.page.total = fields.next_value()?,
                "items" if has_items => return Err(A::Error::duplicate_field("items")),
                "items" => {
                    has_items = true;
                    let items = Reading { page: &mut *self.page, is_item_list: true, ..self };
                    fields.next_value_seed(items)?;
                }
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        if has_items { Ok(()) } else { Err(A::Error::missing_field("items")) }
    }

    /// A null list, as servers in Go may write an empty one.
    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            let Parser { dialect, selector, keeps_documents } = self.parser;
            let read = item::resource(item, dialect, selector, keeps_documents);
            self.page.take(item, read);
        }
        Ok(())
    }
}

impl Page {
    /// Returns the number of resources that were not read before.
    pub(super) fn new_count(&self) -> usize {
        self.resources.len() + self.later.len() - self.repeated.len()
    }

    fn take(&mut self, item: &RawValue, read: Result<Resource, (Option<&'static str>, String)>) {
        let index = self.items;
        self.items += 1;
        match read {
            Ok(resource) => {
                self.resources.push(resource);
                self.trailing = None;
            }
            Err((field, problem)) => {
                self.spoiled += 1;
                self.trailing = item::id(item).filter(|id| !id.is_empty());
                if self.malformed.len() < PROBLEMS_MAX {
                    let id = self.trailing.clone().map(|id| cut(id, PROBLEM_MAX_BYTES / 2));
                    let problem = cut(problem, PROBLEM_MAX_BYTES);
                    self.malformed.push(Malformed { index, flaw: (id, field), problem });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The progress of a process through one list, and its expected order.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_engine::action::{ErrorKind, Outcome, Success};
use lockstep_sim::subject::Testimony;

use super::oracle::{Page, size_of};

/// After this many consecutive failed pages, the cause is not the pages.
const FAILED_MAX: usize = 6;

/// After this many polls in a row that read nothing, and each time after as many more, a poll looks for what was added.
const LOOKS_AHEAD_AFTER: u32 = 6;

/// The results for the pages of a list.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Listing {
    /// The pages that failed since the last successful page.
    failed: BTreeSet<String>,
    /// The pages that failed and were not read later.
    gaps: BTreeSet<String>,
    /// The ids that were read.
    ids: BTreeSet<String>,
    /// Whether the last page read is the last of the list, or had no new items: requesting more would loop.
    is_at_its_end: bool,
    /// Whether the last failed page is the last of the list, by the length that the API gave.
    ends_in_failure: bool,
    /// Whether the API refuses to serve the list.
    is_refused: bool,
    /// Whether any page was requested, and whether any was read.
    was_asked: bool,
    has_come: bool,
    /// How many polls in a row, up to the previous one, read no page.
    nothings: u32,
    /// The length of each range of ids, and how many items follow the last page read.
    totals: BTreeMap<String, u64>,
    rest: Option<u64>,
    /// Maximum number of items on a page so far.
    widest: u64,
    /// The size of the last page, if it was too large to be read and can be requested as smaller pages.
    oversized: Option<u64>,
}

/// Returns the number of a page and its range.
fn page_of(url: &str) -> (u64, String) {
    let is_page = |parameter: &&str| parameter.starts_with("page=");
    let number = url.split(['?', '&']).find(is_page).and_then(|it| it["page=".len()..].parse().ok());
    let is_part = |parameter: &&str| is_page(parameter) || parameter.starts_with("size=");
    let range = url.split('&').filter(|parameter| !is_part(parameter)).collect::<Vec<_>>().join("&");
    (number.unwrap_or(1), range)
}

/// Returns whether a range begins after an id (`>`), and whether it ends before one (`<`).
fn bounds(range: &str) -> (bool, bool) {
    (range.contains("%3E"), range.contains("%3C"))
}

impl Listing {
    /// Returns the next list of the same shard, with what the process has learned from this one.
    pub(super) fn next(&self) -> Self {
        let whole = self.totals.iter().filter(|(range, _)| bounds(range) == (false, false));
        Self {
            nothings: if self.was_asked && !self.has_come { self.nothings + 1 } else { 0 },
            totals: whole.map(|(range, total)| (range.clone(), *total)).collect(),
            widest: self.widest,
            ..Self::default()
        }
    }

    /// Returns the number of items on the page with this URL, as far as is known. If the API sent more items than were ever
    /// requested, it always does.
    fn size(&self, url: &str) -> u64 {
        if self.widest > 100 { self.widest } else { self.widest.min(size_of(url)) }
    }

    /// Returns whether it requests one page more than is known, because all known pages may fail.
    fn looks_ahead(&self) -> bool {
        self.nothings > 0 && self.nothings.is_multiple_of(LOOKS_AHEAD_AFTER) && !self.has_come
    }

    /// Returns the known number of items in a range, from its first page on.
    fn known(&self, range: &str) -> Option<u64> {
        let (follows, _) = bounds(range);
        self.totals.get(range).copied().or_else(|| self.rest.filter(|_| follows))
    }

    /// Checks the request of a page.
    pub(super) fn asked(&mut self, url: &str) -> Result<(), Testimony> {
        let (number, range) = page_of(url);
        let is_first = !std::mem::replace(&mut self.was_asked, true);
        if is_first && self.nothings > 0 && (number > 1 || bounds(&range) != (false, false)) {
            return Err(Testimony {
                invariant: "after_nothing_it_begins_at_page_1",
                sentence: "After a poll that read nothing the next one begins at page 1.",
                seen: format!("it began at {url}"),
            });
        }
        if self.oversized.take().is_some_and(|size| size_of(url) >= size) {
            return Err(Testimony {
                invariant: "large_pages_are_read_in_parts",
                sentence: "A page that is too large to be read is requested again with fewer items, down to one.",
                seen: format!("after a page that was too large {url} was requested"),
            });
        }
        let ahead = u64::from(self.looks_ahead());
        let is_beyond = |total: u64| number.saturating_sub(1 + ahead) * self.size(url) >= total;
        if number > 1 + ahead && self.known(&range).is_some_and(is_beyond) {
            return Err(Testimony {
                invariant: "no_page_beyond_the_end",
                sentence: "A page beyond the total that the API gave is not requested, except the next one in every sixth poll after polls that read nothing.",
                seen: format!("{url} was requested, of {:?} items", self.known(&range)),
            });
        }
        Ok(())
    }

    /// Adds the outcome of a page request; `page` is none if the answer is not a page.
    pub(super) fn answered(&mut self, url: &str, page: Option<&Page>, outcome: &Outcome) {
        let (number, range) = page_of(url);
        let is_oversized = matches!(outcome, Ok(Success::Oversized { .. }));
        self.oversized = Some(size_of(url)).filter(|size| is_oversized && *size > 1);
        // Whatever else is wrong with it, the API answers.
        self.has_come |= is_oversized;
        if self.oversized.is_some() {
            // Smaller pages replace it.
            self.failed.remove(url);
            self.gaps.remove(url);
        } else if let Some(page) = page {
            self.failed.clear();
            self.gaps.remove(url);
            self.has_come = true;
            let items = page.len();
            self.widest = self.widest.max(items);
            let added = page.ids().filter(|id| self.ids.insert((*id).to_owned())).count();
            // If the items after an id are requested and the answer contains that id, the API does not understand the request.
            let is_misunderstood = page.ids().any(|id| url.contains(id));
            self.is_at_its_end = page.is_last(url) || added == 0 || is_misunderstood;
            self.ends_in_failure = false;
            self.rest = page.total().map(|total| total.saturating_sub((number - 1) * self.size(url) + items));
            match page.total() {
                Some(total) => self.totals.insert(range, total),
                None => self.totals.remove(&range),
            };
        } else {
            self.failed.insert(url.to_owned());
            self.gaps.insert(url.to_owned());
            let size = self.size(url).max(1);
            let ahead = u64::from(self.looks_ahead());
            self.ends_in_failure = self.known(&range).is_some_and(|total| (number - ahead) * size >= total);
        }
        let refusals = [ErrorKind::Forbidden, ErrorKind::NotFound, ErrorKind::Gone];
        self.is_refused = outcome.as_ref().is_err_and(|failure| refusals.contains(&failure.class));
    }

    /// Returns whether some page was not read.
    pub(super) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Checks a list that the process has finished.
    pub(super) fn ended(&self) -> Result<(), Testimony> {
        let is_whole = self.failed.is_empty() && self.oversized.is_none();
        let is_read = (self.is_at_its_end && is_whole) || self.ends_in_failure;
        // If an API is down, a poll does not try all of its pages.
        let is_down = self.nothings > 0 && !self.has_come && self.was_asked && !self.looks_ahead();
        if is_read || self.is_refused || is_down || self.failed.len() >= FAILED_MAX {
            return Ok(());
        }
        Err(Testimony {
            invariant: "a_failing_page_delays_no_other",
            sentence: "A cycle asks for every page of the list, whichever of them fail, unless the API refuses, six fail in a row, or nothing was read by this poll and the one before; every sixth of those polls asks as well.",
            seen: format!(
                "the cycle ended before the end of the list; the pages that failed last: {:?}",
                self.failed
            ),
        })
    }
}

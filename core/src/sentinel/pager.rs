//! The way through a list, page by page: what comes next, what was there before, and when to give up.
//!
//! Rows come and go while a list is read. In the dialect `search` each page is asked for by the last id of the one before,
//! so that nothing can shift. In the dialect `labels` pages have numbers: rows that are seen twice are told apart by their
//! ids, and where rows have gone, the pages that they may have shifted are read again.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use super::fleet::{Dialect, PAGE_SIZE, Page, Place};
use super::selector::quoted;
use crate::engine::action::{Class, Failure};
use crate::engine::backoff::Backoff;
use crate::random::Random;
use crate::time::Monotonic;

/// A page that fails so often is passed over. Those that follow one that was passed over are tried once.
const ATTEMPTS: u32 = 3;
/// After so many pages in a row that were passed over, one more that fails tells that it is not the pages.
const PASSED_OVER_MAX: u32 = 5;

/// How long a page that failed is left alone.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(250), max: Duration::from_secs(2) };
/// The longest that the API is left alone because it asks for that: who waits for a day looks dead.
const WISH_MAX: Duration = Duration::from_mins(5);

/// Where one cycle is in its list.
#[derive(Debug)]
pub struct Pager {
    dialect: Dialect,
    place: Place,
    /// When the page may be asked for (again).
    not_before: Monotonic,
    failures: u32,
    /// How many pages before this one were passed over in a row.
    passed_over: u32,
    /// Whether any page is missing.
    has_gaps: bool,
    is_done: bool,
    /// The ids that have come (as hashes): all of them where pages have numbers, else those of the last page.
    seen: BTreeSet<u64>,
    /// Whether any page but the first has brought something that had not come before.
    is_moving: bool,
    /// How many items a page holds: the most that one had. An API may give fewer than it is asked for.
    size: u64,
    /// How many items have come, those that came twice included.
    items: u64,
    /// How many pages were passed over in all.
    missed: u64,
    total: Option<u64>,
}

/// What follows from a page that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// It is asked for again, a little later.
    Again,
    /// It is passed over, so that it does not hold back the rest.
    PassedOver,
    /// The whole list is out of reach.
    GivenUp,
}

impl Pager {
    /// At the beginning of a list.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            place: Place { after: None, page: 1 },
            not_before: Monotonic::START,
            failures: 0,
            passed_over: 0,
            has_gaps: false,
            is_done: false,
            seen: BTreeSet::new(),
            is_moving: false,
            size: 1,
            items: 0,
            missed: 0,
            total: None,
        }
    }

    /// Whether the list has come to its end, or was given up.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the list has come to its end, and every page of it.
    pub fn is_complete(&self) -> bool {
        self.is_done && !self.has_gaps
    }

    /// The page to ask for, and from when on.
    pub fn next(&self) -> Option<(&Place, Monotonic)> {
        (!self.is_done).then_some((&self.place, self.not_before))
    }

    /// The API is to be left alone until then.
    pub fn not_before(&self) -> Monotonic {
        self.not_before
    }

    /// Takes a page in: resources that came before are taken out of it. An error says that the list leads nowhere.
    pub fn took(&mut self, page: &mut Page) -> Result<(), String> {
        (self.failures, self.passed_over) = (0, 0);
        let before = page.resources.len();
        let last = page.trailing.take().or_else(|| page.resources.last().map(|resource| resource.id.clone()));
        let mut came = BTreeSet::new();
        page.resources.retain(|resource| {
            let id = hash(&resource.id);
            came.insert(id) && !self.seen.contains(&id)
        });
        let is_stale = before > 0 && page.resources.is_empty();
        self.size = self.size.max(page.items as u64);
        let misunderstood = match self.dialect {
            Dialect::Search => {
                self.seen = came;
                self.go_on_by_id(page, last);
                is_stale.then_some("search")
            }
            Dialect::Labels => {
                let is_first = self.place.page == 1;
                self.is_moving |= !is_first && !is_stale;
                self.seen.append(&mut came);
                self.go_on_by_number(page, is_stale);
                (self.is_done && page.total.is_some() && !is_first && !self.is_moving).then_some("page")
            }
        };
        let Some(parameter) = misunderstood else { return Ok(()) };
        (self.is_done, self.has_gaps) = (true, true);
        Err(format!("the API gave the same page twice: it seems not to understand {parameter}="))
    }

    fn go_on_by_id(&mut self, page: &Page, last: Option<String>) {
        let items = page.items as u64;
        let passed = (self.place.page - 1) * self.size;
        self.is_done = match page.total {
            Some(total) => items == 0 || passed + items >= total,
            None => page.items < PAGE_SIZE,
        };
        match last.filter(|last| quoted(last).is_some()) {
            Some(last) => self.place = Place { after: Some(last), page: 1 },
            // Nothing on it could be understood, so that its last id is not known.
            None => self.place.page += 1,
        }
    }

    fn go_on_by_number(&mut self, page: &Page, is_stale: bool) {
        self.items += page.items as u64;
        let gone = match (self.total, page.total) {
            (Some(before), Some(now)) => before.saturating_sub(now),
            _ => 0,
        };
        self.total = page.total;
        self.is_done = match page.total {
            // Without numbers of pages everything came at once, as it does when they are ignored.
            None => page.items != PAGE_SIZE || is_stale,
            // What came twice must not count for what has not come, and short pages not for whole ones.
            Some(total) => {
                let came = self.items + self.missed * self.size;
                page.items == 0 || came.min(self.place.page * self.size) >= total
            }
        };
        let back = gone.div_ceil(self.size).min(self.place.page - 1);
        if back > 0 {
            // What stood at the head of this page may now stand at the end of the one before.
            self.place.page -= back;
            self.is_done = false;
        } else {
            self.place.page += 1;
        }
    }

    /// Takes in that a page failed.
    pub fn failed(&mut self, failure: &Failure, now: Monotonic, random: &mut Random) -> Setback {
        self.failures += 1;
        let wish = failure.retry_after.unwrap_or_default().min(WISH_MAX);
        self.not_before = now + BACKOFF.delay(self.failures, random).max(wish);
        if matches!(failure.class, Class::Forbidden | Class::NotFound | Class::Gone)
            || self.passed_over == PASSED_OVER_MAX
        {
            (self.is_done, self.has_gaps) = (true, true);
            return Setback::GivenUp;
        }
        if self.failures < ATTEMPTS && self.passed_over == 0 {
            return Setback::Again;
        }
        self.failures = 0;
        self.passed_over += 1;
        self.has_gaps = true;
        self.place.page += 1;
        self.missed += 1;
        Setback::PassedOver
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "pager/tests.rs"]
mod tests;

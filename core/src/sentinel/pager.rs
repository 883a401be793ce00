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

/// A page that fails so often is passed over.
const ATTEMPTS: u32 = 3;

/// How long a page that failed is left alone.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(250), max: Duration::from_secs(2) };

/// Where one cycle is in its list.
#[derive(Debug)]
pub struct Pager {
    dialect: Dialect,
    place: Place,
    /// When the page may be asked for (again).
    not_before: Monotonic,
    failures: u32,
    /// Whether the page before this one was passed over.
    passed_over: bool,
    /// Whether any page is missing.
    has_gaps: bool,
    is_done: bool,
    /// The ids that have come (as hashes): all of them where pages have numbers, else those of the last page.
    seen: BTreeSet<u64>,
    /// How many items have come, those that came twice included.
    items: u64,
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
            passed_over: false,
            has_gaps: false,
            is_done: false,
            seen: BTreeSet::new(),
            items: 0,
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

    /// Takes a page in: resources that came before are taken out of it. An error says that the list leads nowhere.
    pub fn took(&mut self, page: &mut Page) -> Result<(), String> {
        (self.failures, self.passed_over) = (0, false);
        let before = page.resources.len();
        let last = page.resources.last().map(|resource| resource.id.clone());
        let mut came = BTreeSet::new();
        page.resources.retain(|resource| {
            let id = hash(&resource.id);
            came.insert(id) && !self.seen.contains(&id)
        });
        let is_stale = before > 0 && page.resources.is_empty();
        match self.dialect {
            Dialect::Search => {
                self.seen = came;
                if is_stale {
                    (self.is_done, self.has_gaps) = (true, true);
                    return Err(
                        "the API gave the same page twice: it seems not to understand search=".to_owned()
                    );
                }
                self.go_on_by_id(page, last);
            }
            Dialect::Labels => {
                self.seen.append(&mut came);
                self.go_on_by_number(page, is_stale);
            }
        }
        Ok(())
    }

    fn go_on_by_id(&mut self, page: &Page, last: Option<String>) {
        let items = page.items as u64;
        let passed = (self.place.page - 1) * PAGE_SIZE as u64;
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
            Some(total) => page.items == 0 || self.items >= total,
        };
        let size = page.items.max(1) as u64;
        let back = gone.div_ceil(size).min(self.place.page - 1);
        if gone > 0 && back > 0 {
            // What stood at the head of this page may now stand at the end of the one before.
            self.place.page -= back;
            self.items = self.items.saturating_sub((back + 1) * size);
            self.is_done = false;
        } else {
            self.place.page += 1;
        }
    }

    /// Takes in that a page failed.
    pub fn failed(&mut self, failure: &Failure, now: Monotonic, random: &mut Random) -> Setback {
        self.failures += 1;
        let is_hopeless = match failure.class {
            Class::Forbidden | Class::NotFound | Class::Gone => true,
            // After a page that was passed over, one more that fails tells that it is not the page.
            _ => self.passed_over,
        };
        if is_hopeless {
            (self.is_done, self.has_gaps) = (true, true);
            return Setback::GivenUp;
        }
        let wish = failure.retry_after.unwrap_or_default();
        self.not_before = now + BACKOFF.delay(self.failures, random).max(wish);
        if self.failures < ATTEMPTS {
            return Setback::Again;
        }
        (self.failures, self.passed_over) = (0, true);
        self.has_gaps = true;
        self.place.page += 1;
        self.items += PAGE_SIZE as u64;
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

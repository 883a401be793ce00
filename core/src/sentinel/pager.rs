//! The way through a list, page by page: what comes next, what was there before, and when to give up.
//!
//! Rows come and go while a list is read. In the dialect `search` each page is asked for by the last id of the one before,
//! so that nothing can shift. In the dialect `labels` pages have numbers: rows that are seen twice are told apart by their
//! ids, and where rows have gone, the pages that they may have shifted are read again.
//!
//! A list that is given up after some of its pages were read continues at that page in the next cycle, which then reads what
//! lies before: no page waits for another. After a cycle that read nothing the next one begins at page 1. A page beyond the
//! total that the API gave is not requested.
//!
//! A page that is too large to be read is requested again with fewer items, down to one. Pages grow again once as many items were
//! read as a larger page holds: by numbers only where a larger one begins, and to sizes that the API is known to give.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use super::fleet::{Dialect, PAGE_SIZE, Page, Place};
use super::selector::quoted_id;
use crate::engine::action::{Class, Failure};
use crate::engine::backoff::{Backoff, RETRY_AFTER_MAX};
use crate::random::Random;
use crate::time::Monotonic;

/// A page that fails so often is passed over. Those that follow one that was passed over are tried once.
const ATTEMPTS: u32 = 3;
/// After so many pages in a row that were passed over, one more that fails tells that it is not the pages.
const PASSED_OVER_MAX: u32 = 5;
/// After a poll that read nothing, only every such poll looks at the pages after the first: a dead API gets three requests a
/// poll, and a list whose first pages alone fail is still found.
const LOOK_AHEAD_EVERY: u32 = 6;

/// How long a page that failed is left alone.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(250), max: Duration::from_secs(2) };
/// The same where the API asks to be left alone, and does not say for how long.
const PATIENCE: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };

/// Where one cycle is in its list.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Pager {
    dialect: Dialect,
    /// Where it was begun.
    from: Place,
    /// The first id that came.
    first: Option<String>,
    /// Once the end has come: the page up to which it is read anew, which is that where it was begun.
    end: Option<u64>,
    /// Where it was given up.
    given_up: Option<Place>,
    place: Place,
    /// When the page may be asked for (again).
    not_before: Monotonic,
    failures: u32,
    /// How often in a row the API asked to be left alone.
    pleas: u32,
    /// How many pages before this one were passed over in a row.
    passed_over: u32,
    /// Whether any page is missing.
    has_gaps: bool,
    is_done: bool,
    /// The ids that have come (as hashes): all of them where pages have numbers, else those of the last page.
    seen: BTreeSet<u64>,
    /// By how many pages it may go back: each page that brings something new allows for one. Else it might go to and fro for ever
    /// where totals go up and down, as those of replicas do of which one lies behind.
    back_max: u64,
    /// Whether any page but the first has brought something that had not come before.
    is_moving: bool,
    /// The most items that a page had. An API may give fewer than it is asked for.
    widest: u64,
    /// How many items have come since the size of pages changed.
    narrow: u64,
    /// How many items have come, those that came twice included.
    items: u64,
    /// How many pages of the present size were passed over in all, or lie before the place where it was begun.
    missed: u64,
    /// The items of those that had another size.
    missed_items: u64,
    total: Option<u64>,
    /// The number of items in the range of the place, as the API gave it last: a page beyond it is not requested.
    remaining: Option<u64>,
    /// The number of items in the whole list, as the API gave it last.
    whole: Option<u64>,
    /// Whether any page was read.
    has_read: bool,
    /// How many polls before this one read nothing.
    empty_polls: u32,
}

/// What one poll leaves for the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The page that the next poll begins with.
    pub from: Place,
    /// The number of items in the range of `from`, where it is known.
    remaining: Option<u64>,
    /// The number of items in the whole list, where it is known.
    total: Option<u64>,
    /// The number of items on a page, where it is known.
    size: u64,
    /// How many polls in a row read nothing.
    empty_polls: u32,
}

/// What follows from a page that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// It is asked for again, a little later.
    Again,
    /// It is asked for again with fewer items.
    Smaller,
    /// It is passed over, so that it does not hold back the rest.
    PassedOver,
    /// The whole list is out of reach.
    GivenUp,
}

impl Pager {
    /// At the beginning of a list.
    pub fn new(dialect: Dialect) -> Self {
        Self::begun(dialect, Place::default())
    }

    /// In the midst of a list, the beginning of which comes last.
    pub fn begun(dialect: Dialect, from: Place) -> Self {
        Self::resumed(dialect, Progress { from, ..Progress::default() })
    }

    /// Where the poll before has left it.
    pub fn resumed(dialect: Dialect, progress: Progress) -> Self {
        let Progress { from, remaining, total: whole, size, empty_polls } = progress;
        Self {
            dialect,
            items: 0,
            missed: from.page - 1,
            missed_items: 0,
            place: from.clone(),
            from,
            first: None,
            end: None,
            given_up: None,
            not_before: Monotonic::START,
            failures: 0,
            pleas: 0,
            passed_over: 0,
            has_gaps: false,
            is_done: false,
            seen: BTreeSet::new(),
            back_max: 0,
            is_moving: false,
            widest: size.max(1),
            narrow: 0,
            total: None,
            remaining,
            whole,
            has_read: false,
            empty_polls,
        }
    }

    /// What the next poll begins with.
    pub fn progress(&self) -> Progress {
        let from = self.given_up.clone().filter(|place| !place.is_beginning()).unwrap_or_default();
        let remaining = match &from.after {
            None => self.whole,
            Some(_) => self.remaining.filter(|_| self.place.before.is_none()),
        };
        let empty_polls = if self.has_read { 0 } else { self.empty_polls.saturating_add(1) };
        Progress { from, remaining, total: self.whole, size: self.widest, empty_polls }
    }

    /// Where the list was given up, if it is worth while to go on from there.
    pub fn given_up(&self) -> Option<&Place> {
        self.given_up.as_ref()
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

    /// How many items a page of the size that is requested holds.
    fn size(&self) -> u64 {
        // One that gives more than the most that it is asked for gives what it likes.
        if self.widest > PAGE_SIZE as u64 { self.widest } else { self.widest.min(self.place.size as u64) }
    }

    /// Takes a page in: resources that came before are taken out of it. An error says that the list leads nowhere.
    pub fn took(&mut self, page: &mut Page) -> Result<(), String> {
        (self.failures, self.passed_over, self.pleas) = (0, 0, 0);
        self.has_read = true;
        if self.dialect == Dialect::Labels || (self.place.after.is_none() && self.place.before.is_none()) {
            self.whole = page.total;
        }
        if self.first.is_none() {
            let mut ids = page.resources.iter().map(|resource| &resource.id);
            self.first = ids.find(|id| quoted_id(id).is_some()).cloned();
        }
        let before = page.resources.len();
        let last = page.trailing.take().or_else(|| page.resources.last().map(|resource| resource.id.clone()));
        let mut came = BTreeSet::new();
        page.resources.retain(|resource| {
            let id = hash(&resource.id);
            came.insert(id) && !self.seen.contains(&id)
        });
        let is_stale = before > 0 && page.resources.is_empty();
        let is_number_of_another = self.place.page > 1 && self.place.size < PAGE_SIZE;
        let ignores_size = is_number_of_another && page.items > self.place.size;
        self.widest = self.widest.max(page.items as u64);
        let misunderstood = if ignores_size {
            Some("size")
        } else {
            match self.dialect {
                Dialect::Search => {
                    // Where nothing is understood, the last id alone tells that nothing has moved.
                    let is_stale = is_stale || (last.is_some() && last == self.place.after);
                    self.seen = came;
                    self.go_on_by_id(page, last);
                    is_stale.then_some("search")
                }
                Dialect::Labels => {
                    let is_first = self.place.page == 1;
                    self.is_moving |= !is_first && !is_stale;
                    self.back_max += u64::from(!page.resources.is_empty());
                    self.seen.append(&mut came);
                    self.go_on_by_number(page, is_stale);
                    (self.is_done && page.total.is_some() && !is_first && !self.is_moving).then_some("page")
                }
            }
        };
        let Some(parameter) = misunderstood else {
            if self.is_done {
                self.end_of_list();
            }
            return Ok(());
        };
        (self.is_done, self.has_gaps) = (true, true);
        let seen = if ignores_size { "more than was requested" } else { "the same page twice" };
        Err(format!("the API gave {seen}: it seems not to understand {parameter}="))
    }

    /// The last page is done with: what lies before the page where the list was begun is left, unless that was read as well.
    fn end_of_list(&mut self) {
        self.is_done = true;
        if self.end.is_none() && !self.from.is_beginning() {
            self.go_round();
        }
    }

    fn go_round(&mut self) {
        let before = self.first.clone().filter(|_| self.dialect == Dialect::Search);
        self.place = Place { before, size: self.place.size, ..Place::default() };
        (self.end, self.is_done) = (Some(self.from.page), false);
        (self.items, self.missed, self.missed_items, self.total) = (0, 0, 0, None);
        (self.failures, self.passed_over) = (0, 0);
        // How many items come before the first that was read is not known.
        self.remaining = self.whole.filter(|_| self.place.before.is_none());
    }

    fn go_on_by_id(&mut self, page: &Page, last: Option<String>) {
        let items = page.items as u64;
        let passed = (self.place.page - 1) * self.size();
        self.is_done = match page.total {
            Some(total) => items == 0 || passed + items >= total,
            None => page.items < self.place.size,
        };
        if let Some(last) = last.filter(|last| quoted_id(last).is_some()) {
            (self.place.after, self.place.page) = (Some(last), 1);
            self.remaining = page.total.map(|total| total.saturating_sub(passed + items));
            self.narrow += items;
            if let Some(larger) = self.place.larger().filter(|larger| self.narrow >= *larger as u64) {
                self.resize(larger);
            }
        } else {
            // Nothing on it could be understood, so that its last id is not known.
            (self.place.page, self.remaining) = (self.place.page + 1, page.total);
        }
    }

    fn go_on_by_number(&mut self, page: &Page, is_stale: bool) {
        self.items += page.items as u64;
        self.narrow += page.items as u64;
        let gone = match (self.total, page.total) {
            (Some(before), Some(now)) => before.saturating_sub(now),
            _ => 0,
        };
        (self.total, self.remaining) = (page.total, page.total);
        self.is_done = match page.total {
            // Without numbers of pages everything came at once, as it does when they are ignored.
            None => page.items != self.place.size || is_stale,
            // What came twice must not count for what has not come, and short pages not for whole ones.
            Some(total) => {
                let came = self.items + self.missed_items + self.missed * self.size();
                page.items == 0 || came.min(self.place.page * self.size()) >= total
            }
        } || self.end.is_some_and(|end| is_stale && self.place.page >= end);
        let back = gone.div_ceil(self.size()).min(self.place.page - 1).min(self.back_max);
        if back > 0 {
            // What stood at the head of this page may now stand at the end of the one before.
            (self.place.page, self.back_max) = (self.place.page - back, self.back_max - back);
            self.is_done = false;
        } else {
            self.place.page += 1;
            let begins = (self.place.page - 1) * self.size();
            let larger = self.place.larger().map(|larger| (larger, larger as u64));
            let grown = larger.filter(|(_, larger)| {
                self.narrow >= *larger && self.widest >= *larger && begins.is_multiple_of(*larger)
            });
            if let Some((larger, _)) = grown {
                self.resize(larger);
            }
        }
    }

    /// Requests pages of another size from now on. If the API gives fewer than it is asked for, the next perhaps begins a little before
    /// this place.
    fn resize(&mut self, size: usize) {
        let before = self.size();
        let begins = |page: u64| (page - 1) * before / size as u64 + 1;
        (self.place.page, self.from.page) = (begins(self.place.page), begins(self.from.page));
        self.end = self.end.map(begins);
        self.missed_items += std::mem::take(&mut self.missed) * before;
        (self.place.size, self.from.size, self.narrow) = (size, size, 0);
    }

    /// Takes in that a page failed.
    pub fn failed(&mut self, failure: &Failure, now: Monotonic, random: &mut Random) -> Setback {
        let wish = failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        if failure.class == Class::Throttled {
            // Nothing is wrong with the page.
            self.pleas = self.pleas.saturating_add(1);
            let pause = if wish.is_zero() { PATIENCE.delay(self.pleas, random) } else { wish };
            self.not_before = now + pause;
            return Setback::Again;
        }
        self.failures += 1;
        self.not_before = now + BACKOFF.delay(self.failures, random).max(wish);
        let is_whole_list = matches!(failure.class, Class::Forbidden | Class::NotFound | Class::Gone);
        if !is_whole_list && self.failures < ATTEMPTS && self.passed_over == 0 {
            return Setback::Again;
        }
        self.pass_over(is_whole_list)
    }

    /// Takes in that a page is too large to be read, or to come in time. A single item that is late is a failure like any other; one that is
    /// too large is skipped.
    pub fn oversized(&mut self, failure: &Failure, now: Monotonic, random: &mut Random) -> Setback {
        // Whatever else is wrong with it, the API answers.
        self.has_read = true;
        let is_divisible = self.widest <= PAGE_SIZE as u64;
        match self.place.smaller().filter(|_| is_divisible) {
            Some(smaller) => {
                self.resize(smaller);
                Setback::Smaller
            }
            None if failure.class == Class::Unknown => self.failed(failure, now, random),
            None => self.pass_over(false),
        }
    }

    /// Goes on without a page, or gives the list up.
    fn pass_over(&mut self, is_whole_list: bool) -> Setback {
        let looks_ahead = self.has_read || self.empty_polls.is_multiple_of(LOOK_AHEAD_EVERY);
        let is_last = self.remaining.is_some_and(|remaining| self.place.page * self.size() >= remaining);
        if is_whole_list || self.passed_over == PASSED_OVER_MAX || !(looks_ahead || is_last) {
            (self.is_done, self.has_gaps) = (true, true);
            // A poll that read nothing says nothing about where the list can be read: the next one begins at page 1.
            if !is_whole_list && self.has_read {
                self.given_up = Some(Place { before: None, ..self.place.clone() });
            }
            return Setback::GivenUp;
        }
        self.failures = 0;
        self.passed_over += 1;
        self.has_gaps = true;
        if is_last {
            self.end_of_list();
        } else {
            self.place.page += 1;
            self.missed += 1;
        }
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

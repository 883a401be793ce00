//! Reads a list page by page: it decides which page is next, which items came before, and when to give up.
//!
//! Rows are added and removed while a list is read. In the dialect `search` each page is requested by the last id of the
//! previous one, so nothing can shift. In the dialect `labels` pages have numbers. Rows that are seen twice are recognised by
//! their ids. If rows have been removed, the pages that may have shifted are read again.
//!
//! If a list is given up after some of its pages were read, the next cycle continues at that page, and then reads the pages
//! before it. So no page has to wait for another. After a cycle that read nothing, the next one begins at page 1. A page
//! beyond the total from the API is not requested.
//!
//! A page that is too large to be read is requested again with fewer items, down to one. The size of pages grows again once
//! as many items were read as a larger page has. If pages have numbers, it grows only where a larger page begins, and only to
//! sizes that the API is known to return.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::backoff::{Backoff, RETRY_AFTER_MAX};
use lockstep_engine::random::Random;
use lockstep_engine::time::Monotonic;

use super::fleet::{PAGE_SIZE, Page, Place};
use super::resource::Dialect;
use super::selector::quoted_id;

/// A page that fails this often is skipped. The pages after a skipped one are tried once.
const ATTEMPTS: u32 = 3;
/// After this many skipped pages in a row, another failure means that the pages are not the cause.
const PASSED_OVER_MAX: u32 = 5;
/// After polls that read nothing, only every sixth one tries the pages after the first. So a dead API gets three requests in
/// a poll, and a list whose first pages alone fail is still found.
const LOOK_AHEAD_EVERY: u32 = 6;

/// The backoff of a page that failed.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(250), max: Duration::from_secs(2) };
/// The same if the API asks for a pause without a `Retry-After`.
const PATIENCE: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };

/// The position of one cycle in its list.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Pager {
    dialect: Dialect,
    /// The position at which it began.
    from: Place,
    /// The first id that was read.
    first: Option<String>,
    /// After the end of the list: the page up to which it is read again, which is the one at which it began.
    end: Option<u64>,
    /// The position at which it was given up.
    given_up: Option<Place>,
    place: Place,
    /// The earliest time of the next request for the page.
    not_before: Monotonic,
    /// The end of the pause that the API has asked for.
    pause: Monotonic,
    failures: u32,
    /// How often in a row the API asked for a pause.
    pleas: u32,
    /// The number of pages before this one that were skipped in a row.
    passed_over: u32,
    /// Whether any page is missing.
    has_gaps: bool,
    is_done: bool,
    /// The hashes of the ids that were read: all of them if pages have numbers, else those of the last page.
    seen: BTreeSet<u64>,
    /// The number of pages that it may go back: each page with new items permits one. Otherwise it might go back and forth
    /// without end if totals go up and down, as with two replicas of which one is stale.
    back_max: u64,
    /// Whether any page but the first had new items.
    is_moving: bool,
    /// The largest number of items in a page. An API may return fewer than requested.
    widest: u64,
    /// The number of items since the size of pages changed.
    narrow: u64,
    /// The number of items, including those that were read twice.
    items: u64,
    /// The number of pages of the present size that were skipped, or are before the position at which it began.
    missed: u64,
    /// The items in those of another size.
    missed_items: u64,
    total: Option<u64>,
    /// The number of items in the range of the position, from the API's last answer: a page beyond it is not requested.
    remaining: Option<u64>,
    /// The number of items in the whole list, from the API's last answer.
    whole: Option<u64>,
    /// Whether any page was read.
    has_read: bool,
    /// The number of polls before this one that read nothing.
    empty_polls: u32,
}

/// The state that one poll passes to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The page with which the next poll begins.
    pub from: Place,
    /// The number of items in the range of `from`, if it is known.
    remaining: Option<u64>,
    /// The number of items in the whole list, if it is known.
    total: Option<u64>,
    /// The number of items in a page, if it is known.
    size: u64,
    /// The number of polls in a row that read nothing.
    empty_polls: u32,
}

/// The consequence of a page that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageVerdict {
    /// It is requested again, after a short delay.
    Retry,
    /// It is requested again with fewer items.
    RetrySmaller,
    /// It is skipped, so that it does not delay the rest.
    Skip,
    /// The list is given up.
    GiveUp,
}

impl Pager {
    /// Returns a pager at the beginning of a list.
    pub fn new(dialect: Dialect) -> Self {
        Self::begun(dialect, Place::default())
    }

    /// Returns a pager in the middle of a list. The beginning of the list is read last.
    pub fn begun(dialect: Dialect, from: Place) -> Self {
        Self::resumed(dialect, Progress { from, ..Progress::default() })
    }

    /// Returns a pager at the position where the previous poll stopped.
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
            pause: Monotonic::START,
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

    /// Returns the state for the next poll.
    pub fn progress(&self) -> Progress {
        let from = self.given_up.clone().filter(|place| !place.is_beginning()).unwrap_or_default();
        let remaining = match &from.after {
            None => self.whole,
            Some(_) => self.remaining.filter(|_| self.place.before.is_none()),
        };
        let empty_polls = if self.has_read { 0 } else { self.empty_polls.saturating_add(1) };
        Progress { from, remaining, total: self.whole, size: self.widest, empty_polls }
    }

    /// Returns the position at which the list was given up, if the next poll can continue there.
    pub fn given_up(&self) -> Option<&Place> {
        self.given_up.as_ref()
    }

    /// Returns whether the end of the list was reached, or the list was given up.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns whether the API has answered, with a page or one that is too large.
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// Returns whether the end of the list was reached, with every page.
    pub fn is_complete(&self) -> bool {
        self.is_done && !self.has_gaps
    }

    /// Returns the page to request, and the earliest time of the request.
    pub fn next(&self) -> Option<(&Place, Monotonic)> {
        (!self.is_done).then_some((&self.place, self.not_before))
    }

    /// Returns the earliest time of the next request.
    pub fn not_before(&self) -> Monotonic {
        self.not_before
    }

    /// Returns the end of the pause that the API has asked for.
    pub fn pause(&self) -> Monotonic {
        self.pause
    }

    /// Returns the number of items in a page of the requested size.
    fn size(&self) -> u64 {
        // An API that returns more than the maximum page size ignores the requested size.
        if self.widest > PAGE_SIZE as u64 { self.widest } else { self.widest.min(self.place.size as u64) }
    }

    /// Processes a page: resources that were read before are removed from it. An error means that the API ignores a parameter.
    pub fn took(&mut self, page: &mut Page) -> Result<(), String> {
        (self.failures, self.passed_over, self.pleas) = (0, 0, 0);
        self.has_read = true;
        if self.dialect == Dialect::Labels || (self.place.after.is_none() && self.place.before.is_none()) {
            self.whole = page.total;
        }
        if self.first.is_none() {
            let mut ids = page.resources.iter().map(|resource| &resource.id);
            self.first = ids.find(|id| quoted_id(id).is_some()).cloned().or_else(|| page.leading.take());
        }
        let before = page.new_count();
        let last = page.trailing.take().or_else(|| page.resources.last().map(|resource| resource.id.clone()));
        let mut came = BTreeSet::new();
        let mut is_new = |id| came.insert(id) && !self.seen.contains(&id);
        page.resources.retain(|resource| is_new(resource.key()));
        let later = page.later.iter().enumerate();
        page.repeated = later.filter(|(_, id)| !is_new(**id)).map(|(index, _)| index).collect();
        let is_stale = before > 0 && page.new_count() == 0;
        let is_number_of_another = self.place.page > 1 && self.place.size < PAGE_SIZE;
        let ignores_size = is_number_of_another && page.items > self.place.size;
        self.widest = self.widest.max(page.items as u64);
        let misunderstood = if ignores_size {
            Some("size")
        } else {
            match self.dialect {
                Dialect::Search => {
                    // If no item can be parsed, only the last id shows that the position has not moved.
                    let is_stale = is_stale || (last.is_some() && last == self.place.after);
                    self.seen = came;
                    self.go_on_by_id(page, last);
                    is_stale.then_some("search")
                }
                Dialect::Labels => {
                    let is_first = self.place.page == 1;
                    self.is_moving |= !is_first && !is_stale;
                    self.back_max += u64::from(page.new_count() > 0);
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

    /// Handles the end of the list: the pages before the position at which it began are read next, unless they were read as
    /// well.
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
        // The number of items before the first one that was read is unknown.
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
            // Its last item could not be parsed, so its id is not known.
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
            // An API without page numbers returns everything at once; so does one that ignores them.
            None => page.items != self.place.size || is_stale,
            // Items that were read twice must not replace missing ones, and short pages must not count as whole ones.
            Some(total) => {
                let came = self.items + self.missed_items + self.missed * self.size();
                page.items == 0 || came.min(self.place.page * self.size()) >= total
            }
        } || self.end.is_some_and(|end| is_stale && self.place.page >= end);
        let back = gone.div_ceil(self.size()).min(self.place.page - 1).min(self.back_max);
        if back > 0 {
            // The first items of this page may now be the last ones of the previous page.
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

    /// Changes the size of the requested pages. If the API returns fewer items than requested, the next page may begin a
    /// little before this position.
    fn resize(&mut self, size: usize) {
        let before = self.size();
        let begins = |page: u64| (page - 1) * before / size as u64 + 1;
        (self.place.page, self.from.page) = (begins(self.place.page), begins(self.from.page));
        self.end = self.end.map(begins);
        self.missed_items += std::mem::take(&mut self.missed) * before;
        (self.place.size, self.from.size, self.narrow) = (size, size, 0);
    }

    /// Processes the failure of a page.
    pub fn failed(&mut self, failure: &Failure, now: Monotonic, random: &mut Random) -> PageVerdict {
        let retry_after = failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        if failure.class == ErrorKind::Throttled {
            // The page itself is not the problem.
            self.pleas = self.pleas.saturating_add(1);
            let pause = if retry_after.is_zero() { PATIENCE.delay(self.pleas, random) } else { retry_after };
            self.not_before = now + pause;
            self.pause = self.not_before;
            return PageVerdict::Retry;
        }
        self.failures += 1;
        self.not_before = now + BACKOFF.delay(self.failures, random).max(retry_after);
        self.pause = now + retry_after;
        let is_whole_list =
            matches!(failure.class, ErrorKind::Forbidden | ErrorKind::NotFound | ErrorKind::Gone);
        if !is_whole_list && self.failures < ATTEMPTS && self.passed_over == 0 {
            return PageVerdict::Retry;
        }
        self.pass_over(is_whole_list)
    }

    /// Processes a page that is too large to be read, or to arrive in time. A single item that is late is a failure like any
    /// other; one that is too large is skipped.
    pub fn oversized(&mut self, failure: &Failure, now: Monotonic, random: &mut Random) -> PageVerdict {
        // In any case the API has answered.
        self.has_read = true;
        let is_divisible = self.widest <= PAGE_SIZE as u64;
        match self.place.smaller().filter(|_| is_divisible) {
            Some(smaller) => {
                self.resize(smaller);
                PageVerdict::RetrySmaller
            }
            None if failure.class == ErrorKind::Unknown => self.failed(failure, now, random),
            None => self.pass_over(false),
        }
    }

    /// Skips a page, or gives the list up.
    fn pass_over(&mut self, is_whole_list: bool) -> PageVerdict {
        let looks_ahead = self.has_read || self.empty_polls.is_multiple_of(LOOK_AHEAD_EVERY);
        // While the only known pages can't be read, the next one shows whether resources were added after them.
        let ahead = u64::from(looks_ahead && !self.has_read && self.empty_polls > 0);
        let pages = self.place.page.saturating_sub(ahead);
        let is_last = self.remaining.is_some_and(|remaining| pages * self.size() >= remaining);
        if is_whole_list || self.passed_over == PASSED_OVER_MAX || !(looks_ahead || is_last) {
            (self.is_done, self.has_gaps) = (true, true);
            // A poll that read nothing does not show where the list can be read: the next one begins at page 1.
            if !is_whole_list && self.has_read {
                self.given_up = Some(Place { before: None, ..self.place.clone() });
            }
            return PageVerdict::GiveUp;
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
        PageVerdict::Skip
    }
}

#[cfg(test)]
mod tests;

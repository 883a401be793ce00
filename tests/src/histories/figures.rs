//! How much was recorded.

use std::fmt;

use super::history::{Answer, Call, Data, History, Request, Watch, WatchEvent};

/// The size of histories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of histories.
    pub histories: usize,
    /// The requests of all clients.
    pub requests: usize,
    /// The requests that were sent before an earlier one was answered.
    pub overlapping: usize,
    /// The writes that succeeded.
    pub written: usize,
    /// The requests that were answered with 409.
    pub conflicts: usize,
    /// The requests that were answered with 404.
    pub not_found: usize,
    /// The consistent lists.
    pub lists: usize,
    /// The requests that the client gave up.
    pub lost: usize,
    /// Those of them, without deletions, that a watch has shown to have taken effect.
    pub lost_with_effect: usize,
    /// The watches.
    pub watches: usize,
    /// Their events without bookmarks.
    pub events: usize,
    /// Their bookmarks.
    pub bookmarks: usize,
}

impl Figures {
    /// Counts a history.
    pub fn add(&mut self, history: &History) {
        let calls = &history.calls;
        let answered = |is: fn(&Answer) -> bool| {
            calls.iter().filter_map(Call::answer).filter(|answer| is(answer)).count()
        };
        self.histories += 1;
        self.requests += calls.len();
        self.overlapping += overlapping(calls);
        self.written += calls
            .iter()
            .filter(|call| call.request.is_write())
            .filter_map(Call::answer)
            .filter(|answer| matches!(answer, Answer::Object(_) | Answer::Deleted { .. }))
            .count();
        self.conflicts += answered(|answer| matches!(answer, Answer::Conflict | Answer::AlreadyExists));
        self.not_found += answered(|answer| matches!(answer, Answer::NotFound));
        self.lists += answered(|answer| matches!(answer, Answer::List { .. }));
        let lost = calls.iter().filter(|call| call.completed.is_none());
        self.lost += lost.clone().count();
        self.lost_with_effect += lost.filter(|call| has_effect(&call.request, &history.watches)).count();
        self.watches += history.watches.len();
        let events = || history.watches.iter().flat_map(|watch| &watch.events);
        self.events += events().filter(|event| event.object().is_some()).count();
        self.bookmarks += events().filter(|event| event.object().is_none()).count();
    }
}

/// Returns the number of calls that were invoked before an earlier one was completed.
fn overlapping(calls: &[Call]) -> usize {
    let mut latest = 0;
    let mut number = 0;
    for call in calls {
        number += usize::from(call.invoked < latest);
        latest = latest.max(call.completed.as_ref().map_or(0, |(moment, _)| *moment));
    }
    number
}

/// Returns whether a watch has an event with the value of a write.
fn has_effect(request: &Request, watches: &[Watch]) -> bool {
    let has = |data: &Data| match request {
        Request::Create { data: own, .. } | Request::Update { data: own, .. } => data == own,
        Request::Patch { key, value, .. } => data.get(key) == Some(value),
        Request::Delete { .. } | Request::Get { .. } | Request::List => false,
    };
    let mut events = watches.iter().flat_map(|watch| &watch.events).filter_map(WatchEvent::object);
    events.any(|(name, stored)| request.name() == Some(name) && has(&stored.data))
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, requests, overlapping, written, conflicts, not_found, lists, lost, .. } = self;
        let Self { lost_with_effect, watches, events, bookmarks, .. } = self;
        write!(
            f,
            "{histories} histories: {requests} requests, {overlapping} of them overlap an earlier one; {written} writes, {conflicts} \
             answers 409, {not_found} answers 404, {lists} lists, {lost} lost answers, of which at least {lost_with_effect} took effect; \
             {watches} watches with {events} events and {bookmarks} bookmarks"
        )
    }
}

//! The combinations of request and fault, and of request and view, that a search has not reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lockstep_engine::action::ErrorKind;
use serde::Serialize;

use super::combination::{Reached, View};
use crate::plan::What;
use crate::subject::SystemUnderTest;

/// A request below this number is rare.
const RARE: u64 = 100;

/// A combination that was not reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The controller.
    pub controller: &'static str,
    /// The request, as in [`Combination`](super::combination::Combination).
    pub request: String,
    /// The fault, operation or view that it did not meet; `-` if the request itself did not occur.
    pub never: String,
    /// Why.
    pub reason: Reason,
}

/// Why a combination was not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Nothing prevents it.
    Chance,
    /// The request is rare.
    Rare,
    /// The controller declares the action, but never requested it.
    NeverRequested,
    /// Faults are aimed only at the actions that the controller declares, and this is none of them.
    NotAimed,
    /// No watch of the controller delivers the objects of that kind.
    NotWatched,
    /// The search does not draw this fault.
    NotDrawn,
    /// A read that falsely finds nothing: no API server answers like that.
    FalseAnswer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Chance => "by chance: nothing prevents it",
            Self::Rare => "the request is rare",
            Self::NeverRequested => "the controller did not make this request",
            Self::NotAimed => "no fault is aimed at this request",
            Self::NotWatched => "the kind is not watched",
            Self::NotDrawn => "the search does not draw this fault",
            Self::FalseAnswer => "no API server answers a read like this",
        })
    }
}

/// Returns the combinations that a search has not reached. `faults` are the faults that it draws, by name; empty for all.
pub fn gaps(subject: &dyn SystemUnderTest, reached: &Reached, faults: &[String]) -> Vec<Gap> {
    let controllers: Vec<(&'static str, &[&str])> = match subject.members() {
        [] => vec![(subject.name(), subject.actions())],
        members => members.iter().map(|member| (member.name(), member.actions())).collect(),
    };
    let operations = subject.operations().iter().map(|operation| operation.name);
    let met: Vec<&str> = What::NAMES.into_iter().chain(operations).collect();
    let mut gaps = Vec::new();
    for (controller, actions) in controllers {
        let requests = requests(reached, controller);
        for (request, seen) in &requests {
            let action = request.split(' ').next().unwrap_or_default();
            let mut gap = |never: &str, reason| {
                let (never, request) = (never.to_owned(), (*request).to_owned());
                gaps.push(Gap { controller, request, never, reason });
            };
            let by_chance = if seen.times < RARE {
                Reason::Rare
            } else if actions.contains(&action) {
                Reason::Chance
            } else {
                Reason::NotAimed
            };
            for never in met.iter().filter(|met| !seen.met.contains(**met)) {
                let is_fault = What::NAMES.contains(never);
                if is_false_answer(never, action) {
                    gap(never, Reason::FalseAnswer);
                } else if is_fault && !faults.is_empty() && !faults.iter().any(|fault| fault == never) {
                    gap(never, Reason::NotDrawn);
                } else {
                    gap(never, by_chance);
                }
            }
            if seen.views.contains(&View::None) {
                continue;
            }
            let is_watched = seen.views.contains(&View::Current) || seen.views.contains(&View::Behind);
            for never in View::ALL.into_iter().filter(|view| !seen.views.contains(view)) {
                let needs_watch = matches!(never, View::Current | View::Behind);
                let reason = if needs_watch && !is_watched { Reason::NotWatched } else { by_chance };
                gap(&never.to_string(), reason);
            }
        }
        let occurred = |action: &str| {
            requests.keys().any(|request| request.split(' ').next() == Some(action))
                // The process itself answers these.
                || matches!(action, "watch" | "unwatch")
        };
        for action in actions.iter().filter(|action| !occurred(action)) {
            let (request, never) = ((*action).to_owned(), "-".to_owned());
            gaps.push(Gap { controller, request, never, reason: Reason::NeverRequested });
        }
    }
    gaps
}

/// What the requests of one name met.
#[derive(Default)]
struct Seen<'a> {
    times: u64,
    met: BTreeSet<&'a str>,
    views: BTreeSet<View>,
}

fn requests<'a>(reached: &'a Reached, controller: &str) -> BTreeMap<&'a str, Seen<'a>> {
    let mut requests: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    for (it, times) in reached.iter().filter(|(it, _)| it.controller == controller) {
        let seen = requests.entry(&it.request).or_default();
        seen.times += times;
        seen.met.insert(it.met);
        seen.views.insert(it.view);
    }
    requests
}

/// Returns whether a fault would make a read falsely find nothing. No API server does that, so it is never injected.
pub fn is_false_answer(fault: &str, action: &str) -> bool {
    fault == ErrorKind::NotFound.name() && matches!(action, "get" | "list" | "discover")
}

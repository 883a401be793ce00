//! Linearizability, object by object: the search of Wing and Gong with the memoisation of Lowe.
//!
//! A history of several objects is linearizable if the history of each object is (Herlihy and Wing), so each object is searched
//! alone. The search takes one of the calls that may be next, which are those invoked before any other remaining call has ended,
//! and goes back if its answer does not fit. It does not continue from the same state with the same remaining calls twice.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Answer, Call, History, Request};
use super::model::{Effect, State};
use super::violation::{Check, Violation};

/// A call as far as it concerns one object.
struct Operation<'h> {
    effect: Effect<'h>,
    invoked: u64,
    /// `None` if the answer was lost: it may be the next one at any time, and need not occur.
    completed: Option<u64>,
    call: &'h Call,
}

/// Checks the calls about each object.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let names: BTreeSet<&str> = history.calls.iter().filter_map(|call| call.request.name()).collect();
    let mut violations = Vec::new();
    for name in names {
        let mut operations: Vec<Operation<'_>> =
            history.calls.iter().filter_map(|call| operation(call, name)).collect();
        operations.sort_by_key(|operation| operation.invoked);
        if let Err(stuck) = linearize(&operations, State::Absent { above: history.start }) {
            let what = describe(name, &operations, &stuck);
            violations.push(Violation::new(Check::Linearizability, what));
        }
    }
    violations
}

/// Returns what a call does to an object; `None` if it does not concern it, or is a read without an answer.
fn operation<'h>(call: &'h Call, name: &str) -> Option<Operation<'h>> {
    let answer = call.answer();
    let effect = match (&call.request, answer) {
        (Request::List, Some(Answer::List { items, .. })) => Effect::Read(items.get(name)),
        (Request::Get { name: of }, Some(Answer::Object(stored))) if of == name => Effect::Read(Some(stored)),
        (Request::Get { name: of }, Some(Answer::NotFound)) if of == name => Effect::Read(None),
        (Request::Get { .. } | Request::List, None) => return None,
        (request, answer) if request.name() == Some(name) => Effect::Write(request, answer),
        _ => return None,
    };
    let completed = call.completed.as_ref().map(|(moment, _)| *moment);
    Some(Operation { effect, invoked: call.invoked, completed, call })
}

/// The longest order that the search has found, without the operations that remain.
struct Stuck {
    done: Vec<bool>,
    state: State,
}

/// Searches an order of the operations in which each answer is right.
fn linearize(operations: &[Operation<'_>], initial: State) -> Result<(), Stuck> {
    let mut done = vec![false; operations.len()];
    let mut left = operations.iter().filter(|operation| operation.completed.is_some()).count();
    let mut state = initial.clone();
    let mut seen = BTreeSet::new();
    // The operations so far, each with the state before it.
    let mut path: Vec<(usize, State)> = Vec::new();
    let mut next = 0;
    let mut stuck = (left, Stuck { done: done.clone(), state: initial });
    while left > 0 {
        let Some(index) = candidate(operations, &done, next) else {
            let Some((index, before)) = path.pop() else { return Err(stuck.1) };
            done[index] = false;
            left += usize::from(operations[index].completed.is_some());
            state = before;
            next = index + 1;
            continue;
        };
        next = index + 1;
        let Some(after) = state.after(operations[index].effect) else { continue };
        done[index] = true;
        if !seen.insert((done.clone(), after.clone())) {
            done[index] = false;
            continue;
        }
        left -= usize::from(operations[index].completed.is_some());
        path.push((index, std::mem::replace(&mut state, after)));
        next = 0;
        if left < stuck.0 {
            stuck = (left, Stuck { done: done.clone(), state: state.clone() });
        }
    }
    Ok(())
}

/// Returns the first operation from an index on that may be next.
fn candidate(operations: &[Operation<'_>], done: &[bool], from: usize) -> Option<usize> {
    let mut first_completed = u64::MAX;
    for (index, operation) in operations.iter().enumerate().filter(|(index, _)| !done[*index]) {
        if operation.invoked > first_completed {
            return None;
        }
        if index >= from {
            return Some(index);
        }
        first_completed = first_completed.min(operation.completed.unwrap_or(u64::MAX));
    }
    None
}

fn describe(name: &str, operations: &[Operation<'_>], stuck: &Stuck) -> String {
    let mut remaining: BTreeMap<u64, &Call> = BTreeMap::new();
    let mut next = 0;
    while let Some(index) = candidate(operations, &stuck.done, next) {
        remaining.insert(operations[index].invoked, operations[index].call);
        next = index + 1;
    }
    let calls: Vec<String> = remaining.values().map(|call| format!("{call:?}")).collect();
    format!(
        "no order of the {} calls about {name:?} explains their answers. The longest one has {} of them and ends in {:?}, where none \
         of these may be next:\n    {}",
        operations.len(),
        stuck.done.iter().filter(|is_done| **is_done).count(),
        stuck.state,
        calls.join("\n    ")
    )
}

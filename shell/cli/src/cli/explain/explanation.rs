//! The explanation, as data and as text.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lockstep_engine::action::ActionId;
use lockstep_engine::duration;
use lockstep_engine::machine::{Event, ReconcileResult};
use lockstep_engine::object::ObjectRef;
use serde::{Deserialize, Serialize};

use super::super::brief;
use super::super::count::count;
use super::decision::{Decision, decisions};
use super::history::{History, Sighting};
use super::pass::Pass;

/// The maximum number of earlier changes that are shown for a decision: the last ones.
const CHANGES_MAX: usize = 5;
/// The maximum number of answers that are shown for a decision: beyond it, the last one and the last failures before it.
const ANSWERS_MAX: usize = 20;

/// Where a SentinelConfig has the time between two cycles.
pub(in crate::cli) const POLL_INTERVAL: &str = "/spec/pollInterval";

/// The explanation of an object.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Explanation {
    object: String,
    /// The number of steps that it is made from.
    steps: u64,
    conditions: Vec<Explained>,
    /// When the object is reconciled again.
    next: String,
}

/// The explanation of one condition.
#[derive(Debug, Serialize, Deserialize)]
struct Explained {
    condition: String,
    status: String,
    reason: String,
    message: String,
    facts: Vec<Fact>,
}

/// What the steps show about a decision.
#[derive(Debug, Serialize, Deserialize)]
struct Fact {
    label: String,
    text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, steps, conditions, next } = self;
        let mut lines = vec![format!("{object}, {}", count(*steps, "step"))];
        for Explained { condition, status, reason, message, facts } in conditions {
            lines.push(String::new());
            lines.push(format!("{condition}={status} {reason}: {message}"));
            lines.extend(facts.iter().map(|Fact { label, text }| format!("  {label:<8} {text}")));
        }
        lines.push(String::new());
        lines.push(format!("next: {next}"));
        for line in lines {
            // Control characters in the steps must not break the line.
            writeln!(f, "{}", line.replace(char::is_control, " ").trim_end())?;
        }
        Ok(())
    }
}

/// Returns the explanation of an object; `None` if it does not occur.
pub(in crate::cli) fn explain(history: &History, object: &ObjectRef) -> Option<Explanation> {
    let decisions = decisions(history, object);
    let last = history.ends().rfind(|(ended, _)| *ended == object);
    if decisions.is_empty() && last.is_none() && history.last_state(object).is_none() {
        return None;
    }
    let conditions = decisions.into_iter().map(|(condition, decision)| {
        let facts = match decision.step {
            Some(step) => decided(history, object, &decision, step),
            None => {
                vec![("decided", format!("before the recorded steps; the status says {}", decision.since))]
            }
        };
        let facts = facts.into_iter().map(|(label, text)| Fact { label: label.to_owned(), text });
        let facts = facts.collect();
        let Decision { status, reason, message, .. } = decision;
        Explained { condition, status, reason, message, facts }
    });
    Some(Explanation {
        object: object.to_string(),
        steps: history.steps.len() as u64,
        conditions: conditions.collect(),
        next: match (last, poll_interval(history, object)) {
            (Some((_, end)), _) => next(history, end.step, end.result),
            (None, Some(interval)) => format!(
                "the Sentinel begins a cycle {interval} after the end of the last one, or at once after a change of this object"
            ),
            (None, None) => "no reconcile of this object has ended in the recorded steps".to_owned(),
        },
    })
}

/// Returns the time between two cycles, if the object configures a Sentinel: a Sentinel does not reconcile.
fn poll_interval<'a>(history: &'a History, object: &ObjectRef) -> Option<&'a str> {
    history.last_state(object)?.pointer(POLL_INTERVAL)?.as_str()
}

/// Returns the answers that are shown. A cycle of a Sentinel may have thousands.
fn shown(history: &History, answers: &[(usize, ActionId)]) -> Vec<(usize, ActionId)> {
    let Some((last, earlier)) = answers.split_last().filter(|_| answers.len() > ANSWERS_MAX) else {
        return answers.to_vec();
    };
    let failed = |(step, _): &&(usize, ActionId)| match &history.steps[*step].event {
        Event::Finished { outcome, .. } => brief::failure(outcome).is_some(),
        _ => false,
    };
    let failures: Vec<_> = earlier.iter().rev().filter(failed).take(ANSWERS_MAX - 1).copied().collect();
    failures.into_iter().rev().chain([*last]).collect()
}

/// Returns what is known about a decision.
fn decided(
    history: &History,
    object: &ObjectRef,
    decision: &Decision,
    step: usize,
) -> Vec<(&'static str, String)> {
    let pass = Pass::of(history, object, step);
    let mut lines = vec![("decided", at(history, step))];
    lines.push((
        "began",
        pass.begin
            .map_or_else(|| "before the recorded steps".to_owned(), |begin| began(history, object, begin)),
    ));
    let answers = shown(history, &pass.answers);
    let others = pass.answers.len() - answers.len();
    if others > 0 {
        lines.push(("answer", count(others as u64, "other answer")));
    }
    for (answered, id) in answers {
        lines.push(("answer", answer(history, answered, id)));
    }
    let shown = pass.changes.len().saturating_sub(CHANGES_MAX);
    if shown > 0 {
        let earlier = count(shown as u64, "other change");
        lines.push(("change", format!("{earlier}, since the previous reconcile began")));
    }
    for change in &pass.changes[shown..] {
        lines.push((
            "change",
            format!("{}: {}", number(history, *change), brief::described(&history.steps[*change].event)),
        ));
    }
    for sighting in history.sightings(step).iter().filter(|seen| is_named(&decision.message, &seen.object)) {
        let Sighting { object, step, is_deleted } = sighting;
        let what = if *is_deleted { "deleted" } else { "last seen" };
        lines.push(("named", format!("{object}: {what} at {}", at(history, *step))));
    }
    lines
}

fn number(history: &History, step: usize) -> String {
    format!("step {}", history.steps[step].number)
}

fn at(history: &History, step: usize) -> String {
    let time = history.steps[step].now.wall.timestamp();
    format!("{}, {time:.3}", number(history, step))
}

/// Describes the first step of a reconcile, or of the part of a cycle that led to a decision.
fn began(history: &History, object: &ObjectRef, begin: usize) -> String {
    let event = &history.steps[begin].event;
    let what = match event {
        Event::TimerFired if poll_interval(history, object).is_some() => {
            "a poll or a retry was due".to_owned()
        }
        Event::TimerFired => "a retry or a resync was due".to_owned(),
        Event::Finished { id, .. } => {
            let answer = answer_text(history, *id, begin);
            format!("once another reconcile had its answer ({answer})")
        }
        other => brief::described(other),
    };
    format!("{}: {what}", number(history, begin))
}

fn answer(history: &History, step: usize, id: ActionId) -> String {
    format!("{}: {}", number(history, step), answer_text(history, id, step))
}

fn answer_text(history: &History, id: ActionId, step: usize) -> String {
    match (&history.steps[step].event, history.action(id)) {
        (Event::Finished { outcome, .. }, Some(action)) => brief::answer(&brief::action(action), outcome),
        (event, _) => brief::described(event),
    }
}

/// Returns when the object is reconciled again.
fn next(history: &History, ended: usize, result: &ReconcileResult) -> String {
    let end: Timestamp = history.steps[ended].now.wall.timestamp();
    let due = |after: Duration| {
        let time = SignedDuration::try_from(after).ok().and_then(|after| end.checked_add(after).ok());
        let time = time.map_or_else(|| "later".to_owned(), |time| format!("at {time:.3}"));
        format!(
            "reconciled again {time} ({} after step {})",
            duration::show(after),
            history.steps[ended].number
        )
    };
    let event = "an event about it or about an object that it needs";
    match result {
        ReconcileResult::Converged => {
            format!("its last reconcile had nothing left to do; {event} starts the next one")
        }
        ReconcileResult::Requeued { after } => format!("{}, or after {event}", due(*after)),
        ReconcileResult::Failed { reason, retry_after, .. } => {
            format!("{}, or after {event}: the last reconcile failed: {reason}", due(*retry_after))
        }
        ReconcileResult::Abandoned => {
            "this process stopped leading; the next leader reconciles it".to_owned()
        }
    }
}

/// The kind that messages name by its name alone: a DPUService lists the clusters by their names.
const NAMED_ALONE: &str = "DPUCluster";

/// Returns whether a message names an object: by its namespace and name, or by its kind directly before its name.
fn is_named(message: &str, object: &ObjectRef) -> bool {
    let (kind, name) = (&object.kind.kind, &object.name);
    let full = object.namespace.as_ref().map(|namespace| format!("{namespace}/{name}"));
    let with_kind = [format!("{kind} {name}"), format!("{kind} \"{name}\"")];
    let alone = (kind == NAMED_ALONE).then_some(name);
    full.iter().chain(&with_kind).chain(alone).any(|phrase| has_word(message, phrase))
}

/// Returns whether a text has a word that is not a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '/';
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let mut after = text[start + word.len()..].chars();
        let is_longer = match after.next() {
            Some('.') => after.next().is_some_and(is_part),
            other => other.is_some_and(is_part),
        };
        !before.is_some_and(|letter| is_part(letter) || letter == '.') && !is_longer
    })
}

#[cfg(test)]
mod tests {
    use lockstep_engine::object::Kind;

    use super::*;

    #[test]
    fn only_whole_names_count_as_named() {
        let kind = Kind::known("", "v1", "Secret", "secrets", true);
        let secret = ObjectRef::namespaced(&kind, "dpf", "pull");
        for message in ["Secret dpf/pull is missing", "waits for Secret \"pull\".", "dpf/pull"] {
            assert!(is_named(message, &secret), "{message}");
        }
        for message in
            ["pull", "Secret pull-secret", "Secret dpf/pull.old", "xdpf/pull", "Secret a/dpf/pull2"]
        {
            assert!(!is_named(message, &secret), "{message}");
        }
        let kind = Kind::known("provisioning.dpu.nvidia.com", "v1alpha1", "DPUCluster", "dpuclusters", true);
        let cluster = ObjectRef::namespaced(&kind, "dpf", "east");
        assert!(is_named("1 of 2 DPUClusters are not ready: east (NotReady)", &cluster));
        assert!(!is_named("1 of 2 DPUClusters are not ready: east-01 (NotReady)", &cluster));
    }
}

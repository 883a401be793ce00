//! The invariants of every controller, checked at every step.
//!
//! An invariant is a function of the history and the current entry; it returns a description of the violation. The table defines
//! the order of the checks: if one step violates two invariants, the first is reported.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::{Event, Note, ReconcileResult};
use lockstep_engine::object::{generation, is_deleting, metadata};
use serde_json::Value;

use super::conditions;
use super::history::History;
use crate::cluster::{Author, Change, Entry, What};
pub use crate::secret::SECRET;

mod text;

/// The input of an invariant.
pub struct Moment<'a> {
    /// Whether the controller may make the change of the entry. The error is the reason why it may not.
    pub permitted: Result<(), String>,
    /// The backoffs that the controller's failed keys may use.
    pub backoffs: &'a [Backoff],
    /// The server, just after the entry.
    pub server: &'a ApiServer,
    /// The history before the entry.
    pub history: &'a History,
    /// The current entry.
    pub entry: &'a Entry,
}

/// An invariant.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Its name.
    pub name: &'static str,
    /// What it requires, in one sentence.
    pub sentence: &'static str,
    /// Checks it; the error describes the violation.
    pub holds: fn(&Moment<'_>) -> Result<(), String>,
}

/// The invariants of all controllers.
pub const SAFETY: &[Invariant] = &[
    Invariant {
        name: "only_own_objects_are_changed",
        sentence: "The controller creates, changes and deletes only objects that its specification permits.",
        holds: only_own_objects_are_changed,
    },
    Invariant {
        name: "deletes_only_the_intended_object",
        sentence: "A delete removes the object that was read, never another object of the same name.",
        holds: deletes_only_the_intended_object,
    },
    Invariant {
        name: "only_the_leader_writes",
        sentence: "A process that does not lead requests no write.",
        holds: only_the_leader_writes,
    },
    Invariant {
        name: "only_the_leader_converges",
        sentence: "A pass that ends in a process that does not lead counts as abandoned.",
        holds: only_the_leader_converges,
    },
    Invariant {
        name: "one_reconcile_a_key",
        sentence: "A process reconciles a key in one pass at a time.",
        holds: one_reconcile_a_key,
    },
    Invariant {
        name: "backoff_within_its_table",
        sentence: "A key that failed is retried within the bounds of the controller's backoff, later only if the server requested that.",
        holds: backoff_within_its_table,
    },
    Invariant {
        name: "failures_are_retried",
        sentence: "A key that failed is retried at the announced time, apart from delays by slow requests and pauses.",
        holds: failures_are_retried,
    },
    Invariant {
        name: "write_rate_is_bounded",
        sentence: "No object is written repeatedly while nothing else changes.",
        holds: write_rate_is_bounded,
    },
    Invariant {
        name: "repeated_writes_slow_down",
        sentence: "A process does not write the same content to an object more than twenty times in a minute, even if another client keeps changing the object.",
        holds: repeated_writes_slow_down,
    },
    Invariant {
        name: "transition_times_move_with_the_status",
        sentence: "A condition's lastTransitionTime changes only with its status.",
        holds: transition_times_move_with_the_status,
    },
    Invariant {
        name: "observed_generation_exists",
        sentence: "No status has an observedGeneration that its object has not reached.",
        holds: observed_generation_exists,
    },
    Invariant {
        name: "logs_and_events_agree",
        sentence: "A changed condition is logged as a warning exactly if its Event is one.",
        holds: logs_and_events_agree,
    },
    Invariant {
        name: "secrets_stay_secret",
        sentence: "No log, event or condition contains a value of a Secret.",
        holds: secrets_stay_secret,
    },
    Invariant {
        name: "messages_are_complete",
        sentence: "No log, event or condition has a message with a gap, such as empty quotation marks.",
        holds: messages_are_complete,
    },
];

/// Maximum number of writes to one object in a minute without other activity. A key that starts to back off makes six attempts in a
/// minute, each with two writes, and a late watch event makes it start again.
const WRITES_MAX: usize = 24;
/// Additional writes allowed for each operation or fault in that minute.
const WRITES_FOR_EACH_DISTURBANCE: usize = 3;

fn only_own_objects_are_changed(moment: &Moment<'_>) -> Result<(), String> {
    moment.permitted.clone()
}

fn deletes_only_the_intended_object(moment: &Moment<'_>) -> Result<(), String> {
    let What::Carried(carried) = &moment.entry.what else { return Ok(()) };
    let Action::Kube(KubeRequest::Delete { uid, .. }) = &carried.action else { return Ok(()) };
    for change in &moment.history.changes_of_request {
        let found = change.old.as_ref().map_or("", |old| metadata(old, "uid"));
        if found != uid.as_str() {
            return Err(format!("{} was deleted with the uid {found}, but {uid} was meant", change.object));
        }
    }
    Ok(())
}

fn logs_and_events_agree(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { step, .. } = &moment.entry.what else { return Ok(()) };
    for note in &step.notes {
        let Note::ConditionChanged { object, condition, reason, message, warning, .. } = note else {
            continue;
        };
        let is_logged = *warning
            || step
                .notes
                .iter()
                .any(|note| matches!(note, Note::Warning { message: text } if text.contains(message)));
        let is_its = |of: &str| {
            of == reason
                || of.strip_prefix(&**condition).is_some_and(|rest| rest.is_empty() || rest == reason)
        };
        for event in &step.notes {
            let Note::EventAnnounced { object: of, warning: is_warning, reason: event, note, .. } = event
            else {
                continue;
            };
            if of == object && note == message && is_its(event) && is_logged != *is_warning {
                return Err(format!(
                    "{condition} {reason} of {object} is {} in the log, and {} as the Event {event}: {message}",
                    level(is_logged),
                    level(*is_warning),
                ));
            }
        }
    }
    Ok(())
}

fn level(is_warning: bool) -> &'static str {
    if is_warning { "a warning" } else { "no warning" }
}

fn only_the_leader_writes(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, event, step, .. } = &moment.entry.what else { return Ok(()) };
    let leads = match event {
        Event::LeadershipChanged { leading } => *leading,
        _ => moment.history.process(*process).is_some_and(|state| state.leading),
    };
    match step.requests.iter().find(|request| !leads && request.action.is_write()) {
        Some(request) => Err(format!(
            "process {process} does not lead and asks for {} of {}",
            request.action.name(),
            request.action.target().map(ToString::to_string).unwrap_or_default()
        )),
        None => Ok(()),
    }
}

fn only_the_leader_converges(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, event, .. } = &moment.entry.what else { return Ok(()) };
    let leads = moment.history.process(*process).is_some_and(|state| state.leading);
    if leads || matches!(event, Event::LeadershipChanged { .. }) {
        return Ok(());
    }
    match passes(moment.entry).find(|(_, _, result, _)| **result != ReconcileResult::Abandoned) {
        Some((_, key, result, _)) => {
            Err(format!("process {process} does not lead, and {} {} ended with {result:?}", key.0, key.1))
        }
        None => Ok(()),
    }
}

/// Returns the passes that ended in a step, each with its result and duration.
fn passes(entry: &Entry) -> impl Iterator<Item = (usize, super::history::Key, &ReconcileResult, Duration)> {
    let (process, notes) = match &entry.what {
        What::Stepped { process, step, .. } => (*process, step.notes.as_slice()),
        _ => (0, &[][..]),
    };
    notes.iter().filter_map(move |note| match note {
        Note::Reconciled { reconciler, object, result, took, .. } => {
            Some((process, (reconciler.clone(), object.clone()), result, *took))
        }
        _ => None,
    })
}

fn one_reconcile_a_key(moment: &Moment<'_>) -> Result<(), String> {
    for (process, key, _, took) in passes(moment.entry) {
        let Some(state) = moment.history.process(process) else { continue };
        let began = moment.entry.at.saturating_sub(took);
        // The machine's clock counts milliseconds.
        if state.ended.get(&key).is_some_and(|ended| began + Duration::from_millis(1) < *ended) {
            return Err(format!("{} {}: a pass began before the last one had ended", key.0, key.1));
        }
    }
    Ok(())
}

/// Longer than any pause and slow request of a plan combined, and shorter than a resync.
const TRIED_WITHIN: Duration = Duration::from_mins(4);

fn failures_are_retried(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    let again: Vec<_> = passes(moment.entry).map(|(_, key, ..)| key).collect();
    let late =
        state.due.iter().find(|(key, due)| **due + TRIED_WITHIN < moment.entry.at && !again.contains(key));
    match late {
        Some((key, due)) => Err(format!("{} {} was to be tried again at {due:?} and was not", key.0, key.1)),
        None => Ok(()),
    }
}

fn backoff_within_its_table(moment: &Moment<'_>) -> Result<(), String> {
    let mut in_this_step = BTreeMap::new();
    for (process, key, result, _) in passes(moment.entry) {
        let Some(state) = moment.history.process(process) else { continue };
        let failures =
            in_this_step.entry(key.clone()).or_insert_with(|| state.failures.get(&key).copied().unwrap_or(0));
        let retry_after = match result {
            ReconcileResult::Failed { retry_after, .. } => retry_after,
            ReconcileResult::Abandoned => continue,
            ReconcileResult::Converged | ReconcileResult::Requeued { .. } => {
                *failures = 0;
                continue;
            }
        };
        *failures += 1;
        let failures = *failures;
        let now = match &moment.entry.what {
            What::Stepped { event: Event::Finished { outcome: Err(failure), .. }, .. } => failure.retry_after,
            _ => None,
        };
        let requested = state.retry_after.iter().map(|(_, delay)| *delay).chain(now);
        let longest = requested.max().unwrap_or_default();
        let mut ceilings = moment.backoffs.iter().map(|table| table.ceiling(failures));
        let is_within =
            |ceiling: Duration| *retry_after >= ceiling * 3 / 4 && *retry_after <= ceiling.max(longest);
        if !ceilings.any(is_within) {
            return Err(format!(
                "{} {}: after {failures} failures it is tried again in {retry_after:?}, the tables are {:?}",
                key.0, key.1, moment.backoffs
            ));
        }
    }
    Ok(())
}

fn write_rate_is_bounded(moment: &Moment<'_>) -> Result<(), String> {
    let What::Carried(carried) = &moment.entry.what else { return Ok(()) };
    let Some(target) = carried.action.target().filter(|_| carried.action.is_write()) else { return Ok(()) };
    let history = moment.history;
    let writes = history.writes.get(target).map_or(0, |writes| {
        writes.iter().filter(|at| **at + super::history::MINUTE >= moment.entry.at).count()
    });
    let disturbances = history.disturbances.len();
    // Two leaders may overwrite each other's status until one of them stops.
    let is_by_two = history.two_led.is_some_and(|at| at + super::history::MINUTE >= moment.entry.at);
    if !is_by_two && writes > WRITES_MAX + WRITES_FOR_EACH_DISTURBANCE * disturbances {
        return Err(format!(
            "{target} was written {writes} times within a minute with {disturbances} other changes"
        ));
    }
    Ok(())
}

/// Repairs that follow one another closely wait for 0.5 s, 1 s, 2 s and so on (decision 12). A change of what is wanted starts the count again.
const REPAIRS_MAX: usize = 20;

fn repeated_writes_slow_down(moment: &Moment<'_>) -> Result<(), String> {
    let What::Carried(carried) = &moment.entry.what else { return Ok(()) };
    let written = super::history::content(&carried.action).filter(|_| carried.failed.is_none());
    let Some((target, content)) = written else { return Ok(()) };
    let before = moment.history.process(carried.process).and_then(|state| state.written.get(target));
    let is_same = |at: &Duration, before: &Arc<Value>| {
        *at + super::history::MINUTE >= moment.entry.at && before == content
    };
    let repeated = before.into_iter().flatten().filter(|(at, before)| is_same(at, before)).count() + 1;
    if repeated > REPAIRS_MAX {
        return Err(format!("the same was written to {target} {repeated} times within a minute"));
    }
    Ok(())
}

fn transition_times_move_with_the_status(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    if old["status"]["conditions"] == new["status"]["conditions"] {
        return Ok(());
    }
    for after in conditions::all(new) {
        let Some(before) = conditions::find(old, after["type"].as_str().unwrap_or_default()) else {
            continue;
        };
        let (same, moved) = (
            before["status"] == after["status"],
            before["lastTransitionTime"] != after["lastTransitionTime"],
        );
        if same && moved {
            return Err(format!(
                "{object}: the condition {} stayed {} and its lastTransitionTime moved from {} to {}",
                after["type"], after["status"], before["lastTransitionTime"], after["lastTransitionTime"]
            ));
        }
    }
    Ok(())
}

fn observed_generation_exists(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    if old.as_ref().is_some_and(|old| old["status"] == new["status"]) {
        return Ok(());
    }
    let generation = generation(new);
    let claims = std::iter::once(&new["status"]).chain(conditions::all(new));
    for observed in claims.filter_map(|claim| claim["observedGeneration"].as_i64()) {
        if observed > generation {
            return Err(format!("{object}: its status is of generation {observed}, but it has {generation}"));
        }
    }
    Ok(())
}

fn secrets_stay_secret(moment: &Moment<'_>) -> Result<(), String> {
    match &moment.entry.what {
        What::Stepped { step, .. } => {
            match step.notes.iter().find(|note| shows_secret(&format!("{note:?}"))) {
                Some(note) => Err(format!("a note contains the value of a Secret: {note:?}")),
                None => Ok(()),
            }
        }
        What::Changed(Change { by: Author::Process(_), object, new: Some(new), .. }) => {
            let reported = if object.kind.kind == "Event" { &**new } else { &new["status"] };
            if contains_secret(reported) {
                return Err(format!("{object} contains the value of a Secret: {reported}"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn messages_are_complete(moment: &Moment<'_>) -> Result<(), String> {
    let flawed = |message: &str| text::flaw(message).map(|flaw| (message.to_owned(), flaw));
    let found = match &moment.entry.what {
        What::Stepped { step, .. } => step.notes.iter().filter_map(text::message).find_map(flawed),
        What::Changed(Change { by: Author::Process(_), old, new: Some(new), .. }) => {
            let is_written = |condition: &&Value| {
                let before =
                    old.as_deref().and_then(|old| conditions::find(old, condition["type"].as_str()?));
                before.is_none_or(|before| before["message"] != condition["message"])
            };
            let written = conditions::all(new).filter(is_written);
            written.filter_map(|condition| condition["message"].as_str()).find_map(flawed)
        }
        _ => None,
    };
    found.map_or(Ok(()), |(message, flaw)| Err(format!("{flaw}: {message}")))
}

fn contains_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => shows_secret(text),
        Value::Array(items) => items.iter().any(contains_secret),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| shows_secret(key) || contains_secret(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a text contains a secret, in plain text or in base64 at any offset of the encoded data.
fn shows_secret(text: &str) -> bool {
    static FORMS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let encoded = (0..3).map(|before| {
            let bytes = [&[0; 3][..before], SECRET.as_bytes()].concat();
            // The digits at both ends depend on the bytes around the secret.
            let (from, until) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
            STANDARD_NO_PAD.encode(bytes)[from..until].to_owned()
        });
        encoded.chain([SECRET.to_owned()]).collect()
    });
    FORMS.iter().any(|form| text.contains(form))
}

/// Returns whether a change marks an object for deletion or removes it.
pub fn is_deletion(change: &Change) -> bool {
    let was_deleting = change.old.as_deref().is_some_and(is_deleting);
    let old = change.old.is_some();
    old && !was_deleting && change.new.as_ref().is_none_or(|new: &Arc<Value>| is_deleting(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_recognized_in_base64_at_any_offset() {
        for before in ["", "a", "ab", "abc", "abcd"] {
            for after in ["", "a", "ab", "-2"] {
                let encoded = STANDARD_NO_PAD.encode(format!("{before}{SECRET}{after}"));
                assert!(shows_secret(&format!("message: {encoded}")), "{before} {after}");
            }
        }
        assert!(shows_secret(SECRET) && !shows_secret("message: nothing"));
    }
}

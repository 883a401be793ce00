//! The status of classes and bindings.
//!
//! Source: NamespaceClass operator, "Status Tracking", "Generation Tracking"; the conditions are ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::namespaceclass::{NamespaceClassBindingStatus, NamespaceClassStatus};
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object::{ResourceVersion, Uid};
use lockstep_engine::time::Now;
use serde::Serialize;
use serde_json::{Value, json};

use super::model::{Binding, Class, Resolved};
use super::names::{CONFIRM_REMOVAL_ANNOTATION, OBJECTS_ADOPTED, PAUSED, READY, ROLLED_OUT, VALID, reason};
use super::plan::{SEPARATOR, Work, existed_before, taken_over};
use super::resolved_class::Content;
use super::store::Store;

/// Returns the status of a class, and the conditions that changed. A class that is not paused has no condition `Paused`, and one
/// that does not limit its rollout has no condition `RolledOut`.
pub(super) fn of_class(
    class: &Class,
    content: &Content,
    unwatchable: Option<String>,
    rollout: Option<Finding>,
    now: Now,
) -> (NamespaceClassStatus, Vec<Condition>) {
    let valid = content.entries.len();
    let (status, reason, mut message) = if !content.problems.is_empty() {
        let problems = content
            .problems
            .iter()
            .map(|problem| format!("spec.resources[{}]: {}", problem.index, problem.message));
        (Status::False, reason::INVALID_RESOURCES, problems.collect::<Vec<_>>().join("; "))
    } else if let Some(message) = unwatchable {
        (Status::Unknown, reason::WATCH_FAILED, message)
    } else {
        (Status::True, reason::ALL_RESOURCES_VALID, format!("{} can be applied", count(valid, "resource")))
    };
    // Otherwise the guard would be off for good, and no status would say so.
    if class.is_guard_confirmed() {
        message = format!(
            "{message}; spec.removalGuard holds nothing until the annotation {CONFIRM_REMOVAL_ANNOTATION} is removed from the class"
        );
    }
    let mut wanted = class.status.clone();
    wanted.observed_generation = class.generation;
    wanted.resource_count = i64::try_from(valid).unwrap_or(i64::MAX);
    let valid = Finding { condition: VALID, status, reason, message };
    let message =
        "nothing is applied, repaired or removed in the namespaces of the class until spec.paused is false";
    let paused = class.is_paused().then(|| Finding::valid(PAUSED, reason::PAUSED, message));
    if paused.is_none() {
        wanted.conditions.retain(|condition| condition.type_ != PAUSED);
        // A rollout neither begins nor ends while the class is paused.
        if rollout.is_none() {
            wanted.conditions.retain(|condition| condition.type_ != ROLLED_OUT);
        }
    }
    let rollout = rollout.filter(|_| paused.is_none());
    let findings = [Some(valid), paused, rollout].into_iter().flatten();
    let changed = findings
        .filter_map(|finding| conditions::set(&mut wanted.conditions, finding, class.generation, now));
    let changed = changed.collect();
    (wanted, changed)
}

/// Returns the message that kinds can't be watched any more, if that is so.
pub(super) fn unwatchable(store: &Store) -> Option<String> {
    let kinds = store
        .unwatchable()
        .map(|(kind, failure)| format!("{} can't be watched ({})", kind.plural, failure.message));
    let kinds = kinds.collect::<Vec<_>>().join("; ");
    (!kinds.is_empty()).then(|| {
        format!("{kinds}, so changes are not noticed; grant the operator list and watch, or restore the CRD")
    })
}

/// Returns the status of a binding whose class is paused, if a pass was interrupted or has never ended; `None` if the status is
/// the result of the last pass.
pub(super) fn of_paused(
    binding: &Binding,
    class: &Class,
    now: Now,
) -> Option<(NamespaceClassBindingStatus, Vec<Condition>)> {
    let status = &binding.status;
    let is_result = binding.ready().is_some_and(|ready| ready.reason != reason::APPLYING);
    if is_result
        && (&status.observed_class_name, status.observed_class_uid.as_str())
            == (&binding.class, class.uid.as_str())
    {
        return None;
    }
    let mut wanted = status.clone();
    wanted.observed_generation = binding.generation;
    let message = format!(
        "class {} is paused, so the namespace is not brought to it; set spec.paused of the class to false",
        binding.class
    );
    let finding = Finding { condition: READY, status: Status::False, reason: reason::PAUSED, message };
    let changed = conditions::set(&mut wanted.conditions, finding, binding.generation, now);
    Some((wanted, changed.into_iter().collect()))
}

/// Returns the status of a binding whose class excludes its namespace; `None` if that is reported. One that will be removed keeps
/// the result of its last pass, if that has ended: nothing reads what would be written just before.
pub(super) fn of_excluded(
    binding: &Binding,
    is_removed: bool,
    now: Now,
) -> Option<(NamespaceClassBindingStatus, Vec<Condition>)> {
    let is_result = binding.ready().is_some_and(|ready| ready.reason != reason::APPLYING);
    if is_removed && is_result {
        return None;
    }
    let mut wanted = binding.status.clone();
    wanted.observed_generation = binding.generation;
    let message = format!(
        "class {} excludes this namespace, so nothing is applied or removed here; remove this binding, or correct \
         spec.excludedNamespaces of the class",
        binding.class
    );
    let finding = Finding::broken(READY, reason::NAMESPACE_EXCLUDED, message);
    let changed = conditions::set(&mut wanted.conditions, finding, binding.generation, now);
    (wanted != binding.status).then(|| (wanted, changed.into_iter().collect()))
}

/// Returns the status of a binding whose class has lost all its resources and holds their removal; `None` if that is reported.
pub(super) fn of_held_pruning(
    binding: &Binding,
    now: Now,
) -> Option<(NamespaceClassBindingStatus, Vec<Condition>)> {
    let mut wanted = binding.status.clone();
    wanted.observed_generation = binding.generation;
    let message = format!(
        "class {} has no resources any more; those that were applied stay until it has some, or has the annotation \
         {CONFIRM_REMOVAL_ANNOTATION}=true, which is to be removed afterwards",
        binding.class
    );
    let finding = Finding::broken(READY, reason::REMOVAL_HELD, message);
    let changed = conditions::set(&mut wanted.conditions, finding, binding.generation, now);
    (wanted != binding.status).then(|| (wanted, changed.into_iter().collect()))
}

/// Returns the status of a binding before its resources are changed. It lists every object before the object exists, so that
/// after a crash no object is unlisted.
pub(super) fn before_writing(work: &Work, now: Now) -> (NamespaceClassBindingStatus, Option<Condition>) {
    let Work { binding, resolved, .. } = work;
    let mut wanted = binding.status.clone();
    wanted.observed_generation = binding.generation;
    wanted.pending_resources = work.pending_ahead().into_iter().collect();
    forget_created(&mut wanted.conditions, work);
    // A further attempt at the same goal changes no condition until it has ended. The repair of applied resources changes
    // none either.
    let is_reported =
        wanted.conditions.iter().any(|c| c.type_ == READY && c.status == Status::False.as_str());
    let only_repairs = wanted.pending_resources == binding.status.pending_resources;
    if binding.has_applied(resolved) && (is_reported || only_repairs) {
        return (wanted, None);
    }
    let message = format!("bringing the namespace to {}", class_title(&binding.class, resolved));
    let finding = Finding { condition: READY, status: Status::False, reason: reason::APPLYING, message };
    let changed = conditions::set(&mut wanted.conditions, finding, binding.generation, now);
    (wanted, changed)
}

/// Returns the status of a binding after a pass over its resources.
pub(super) fn after_pass(work: &Work, now: Now) -> (NamespaceClassBindingStatus, Vec<Condition>) {
    let Work { binding, resolved, listed, pending, causes, .. } = work;
    let mut wanted = binding.status.clone();
    wanted.observed_generation = binding.generation;
    wanted.observed_class_name.clone_from(&binding.class);
    resolved.uid.as_str().clone_into(&mut wanted.observed_class_uid);
    wanted.observed_class_generation = resolved.generation;
    let applied = listed.len();
    wanted.applied_resources = listed.iter().cloned().collect();
    wanted.pending_resources = pending.difference(listed).cloned().collect();
    let finding = match causes.iter().min_by_key(|problem| problem.rank()) {
        None => Finding {
            condition: READY,
            status: Status::True,
            reason: reason::RESOURCES_APPLIED,
            message: format!(
                "{} of {} applied",
                count(applied, "resource"),
                class_title(&binding.class, resolved)
            ),
        },
        Some(worst) => Finding {
            condition: READY,
            status: Status::False,
            reason: worst.reason,
            message: causes.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; "),
        },
    };
    let changed = conditions::set(&mut wanted.conditions, finding, binding.generation, now);
    let taken = of_adopted(&mut wanted.conditions, work, now);
    (wanted, changed.into_iter().chain(taken).collect())
}

/// Removes objects that are created now from the condition that names those that existed before.
fn forget_created(conditions: &mut Vec<Condition>, work: &Work) {
    let is_created = |object: &str| {
        let created = work.applies.iter().filter(|apply| apply.uid.is_none()).map(|apply| &apply.entry);
        created.into_iter().any(|entry| existed_before(&entry.kind.kind, &entry.name) == object)
    };
    let (gone, left): (Vec<_>, Vec<_>) = taken_over(conditions).partition(|(object, _)| is_created(object));
    if gone.is_empty() {
        return;
    }
    let message = joined(left.into_iter());
    conditions.retain(|condition| condition.type_ != OBJECTS_ADOPTED || !message.is_empty());
    if let Some(condition) = conditions.iter_mut().find(|condition| condition.type_ == OBJECTS_ADOPTED) {
        condition.message = message;
    }
}

/// Sets the condition that names the objects that existed before, if there are any. What it said of an object of which nothing is
/// known now stays. Returns it, with a message that says only what it did not say before.
fn of_adopted(conditions: &mut Vec<Condition>, work: &Work, now: Now) -> Option<Condition> {
    // A sentence that was cut is said again.
    let before: BTreeMap<&str, &str> = taken_over(&work.binding.status.conditions).collect();
    let found = || work.adopted.iter().map(|(object, what)| (object.as_str(), what.as_str()));
    let kept = before.iter().filter(|(object, _)| work.unknown.contains(**object));
    let adopted: BTreeMap<&str, &str> = kept.map(|(object, what)| (*object, *what)).chain(found()).collect();
    if adopted.is_empty() {
        conditions.retain(|condition| condition.type_ != OBJECTS_ADOPTED);
        return None;
    }
    let finding = Finding {
        condition: OBJECTS_ADOPTED,
        status: Status::True,
        reason: reason::ADOPTED,
        message: joined(adopted.into_iter()),
    };
    conditions::set(conditions, finding, work.binding.generation, now);
    let newly_adopted = joined(found().filter(|(object, what)| before.get(object) != Some(what)));
    let condition = conditions.iter().find(|condition| condition.type_ == OBJECTS_ADOPTED);
    condition
        .filter(|_| !newly_adopted.is_empty())
        .map(|condition| Condition { message: newly_adopted, ..condition.clone() })
}

fn joined<'a>(sentences: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let sentences: Vec<String> = sentences.map(|(object, what)| format!("{object}: {what}")).collect();
    sentences.join(SEPARATOR)
}

/// Returns the status of a binding that this operator did not create and that names a class that doesn't exist.
pub(super) fn class_not_found(binding: &Binding, now: Now) -> (NamespaceClassBindingStatus, Vec<Condition>) {
    let mut wanted = binding.status.clone();
    wanted.observed_generation = binding.generation;
    let message = format!("there is no NamespaceClass {}; create it, or remove this binding", binding.class);
    let finding =
        Finding { condition: READY, status: Status::False, reason: reason::CLASS_NOT_FOUND, message };
    let changed = conditions::set(&mut wanted.conditions, finding, binding.generation, now);
    (wanted, changed.into_iter().collect())
}

fn class_title(class: &str, resolved: &Resolved) -> String {
    format!("class {class}, generation {}", resolved.generation)
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns a merge patch of a status that is refused unless the object still is the one that was read.
pub(super) fn patch(uid: &Uid, resource_version: ResourceVersion, status: &impl Serialize) -> Arc<Value> {
    Arc::new(json!({ "metadata": { "uid": uid, "resourceVersion": resource_version }, "status": status }))
}

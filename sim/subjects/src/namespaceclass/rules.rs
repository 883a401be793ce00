//! What the operator may and may not do, checked at every step.

use std::collections::BTreeSet;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{ObjectRef, annotation, controller_uid, metadata};
use lockstep_namespaceclass::names;
use lockstep_sim::cluster::{Author, Change, What};
use lockstep_sim::conditions;
use lockstep_sim::history::{History, MINUTE, Version};
use lockstep_sim::invariant::{Invariant, Moment, is_deletion};
use serde_json::Value;

use self::change::change_of_process;
use super::classes::{CLASSES, is_content, pool_kinds};
use super::content::{is_from_entry, keeps_adopted};
use super::desired::{requested_class, wanted};
use crate::{announced, passes};

mod change;
mod drift;
mod judged;
mod missing;
mod removals;
mod rollout;
mod values;

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "pruning_keeps_what_is_desired",
        sentence: "A resource that the class lists is not pruned, unless the pass has read the class and it did not list the resource then.",
        holds: pruning_keeps_what_is_desired,
    },
    Invariant {
        name: "bindings_of_labelled_namespaces_stay",
        sentence: "The binding of a namespace that has been in an existing class for a minute is not removed.",
        holds: bindings_of_labelled_namespaces_stay,
    },
    Invariant {
        name: "adopted_objects_are_kept",
        sentence: "An object that another client created is not deleted, and gets no owner that would delete it, unless its class requests that, or it appeared during the apply.",
        holds: adopted_objects_are_kept,
    },
    Invariant {
        name: "created_resources_are_listed_first",
        sentence: "A resource is listed in the status of the binding before it is created, unless another leader has changed that status since, so that no crash leaves an orphan.",
        holds: created_resources_are_listed_first,
    },
    Invariant {
        name: "applied_means_existed",
        sentence: "The status of a binding lists as applied only resources that have existed.",
        holds: applied_means_existed,
    },
    Invariant {
        name: "ready_means_applied",
        sentence: "Ready is True only if, according to everything that the process received, all resources of the observed class were applied.",
        holds: ready_means_applied,
    },
    Invariant {
        name: "no_requests_in_terminating_namespaces",
        sentence: "The controller makes no request in a namespace that it knows to be terminating.",
        holds: no_requests_in_terminating_namespaces,
    },
    Invariant {
        name: "a_paused_class_changes_nothing",
        sentence: "No resource is applied or removed in a namespace if the process knows that its class is paused.",
        holds: rollout::a_paused_class_changes_nothing,
    },
    Invariant {
        name: "a_rollout_is_announced",
        sentence: "Before a ready namespace is brought to a new generation of a class that limits its rollout, its binding says that it is not ready.",
        holds: rollout::a_rollout_is_announced,
    },
    Invariant {
        name: "a_rollout_keeps_its_limit",
        sentence: "No ready namespace is brought to a new generation of its class while the process knows as many others to be unready as the class permits.",
        holds: rollout::a_rollout_keeps_its_limit,
    },
    Invariant {
        name: "canaries_are_changed_first",
        sentence: "No other ready namespace is brought to a new generation of its class before each canary that had the class then has been ready with that generation.",
        holds: rollout::canaries_are_changed_first,
    },
    Invariant {
        name: "drift_is_only_reported",
        sentence: "Nothing is applied in a ready namespace that has the generation of its class, if the process has known for a minute that the class has drift reported only.",
        holds: rollout::drift_is_only_reported,
    },
    Invariant {
        name: "an_excluded_namespace_gets_no_class",
        sentence: "No binding is written for a namespace, and no resource is applied in it, if the process knows that the class excludes it.",
        holds: rollout::an_excluded_namespace_gets_no_class,
    },
    Invariant {
        name: "a_class_with_mistakes_removes_nothing",
        sentence: "What has left a class is not removed while the process knows that an entry of the class can't be applied.",
        holds: removals::a_class_with_mistakes_removes_nothing,
    },
    Invariant {
        name: "a_guard_holds_removals",
        sentence: "No binding is removed while the process knows that more namespaces have lost the class than it permits, unless the class confirms that.",
        holds: removals::a_guard_holds_removals,
    },
    Invariant {
        name: "values_are_of_the_namespace",
        sentence: "A resource with variables is applied with values that they have had in its namespace.",
        holds: values::values_are_of_the_namespace,
    },
    Invariant {
        name: "no_binding_freezes",
        sentence: "A pass over a binding that succeeds while some kind of its class can't be watched leaves a status of the class's generation.",
        holds: judged::no_binding_freezes,
    },
    Invariant {
        name: "an_unwatchable_kind_is_reported",
        sentence: "A binding is not Ready after a pass that began when a kind of its class could not be watched for minutes.",
        holds: judged::an_unwatchable_kind_is_reported,
    },
    Invariant {
        name: "known_drift_is_repaired",
        sentence: "A pass over a binding repairs each resource that is known to differ from its class, unless a problem with it is reported, or it was repaired so recently that the next repair has to wait.",
        holds: drift::known_drift_is_repaired,
    },
    Invariant {
        name: "a_missing_class_was_missing",
        sentence: "A class is reported as missing only if it was missing at some time since the label of the namespace first named it.",
        holds: missing::a_missing_class_was_missing,
    },
    announced::invariant(announced::of_namespaceclass),
    announced::warnings(announced::warnings_of_namespaceclass),
    passes::pauses(|moment| passes::are_paused_as_said(moment, &names::class())),
];

/// Checks that the operator changes only its permitted objects: its bindings, the resources that they own, its Events, and the
/// status of its kinds.
pub(super) fn may_change(change: &Change, _server: &ApiServer, history: &History) -> Result<(), String> {
    let Change { object, old, new, .. } = change;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let only_status = |old: &Value, new: &Value| {
        old["spec"] == new["spec"]
            && old["metadata"]["labels"] == new["metadata"]["labels"]
            && old["data"] == new["data"]
    };
    let refuse = |why: &str| Err(format!("{object}: {why}"));
    match (&*object.kind.kind, old.as_deref(), new.as_deref()) {
        ("Event", None, _) => Ok(()),
        ("Event", Some(old), Some(_))
            if old["reportingComponent"] == lockstep_crds::namespaceclass::CONTROLLER =>
        {
            Ok(())
        }
        ("Event", ..) => refuse("an event of another client was changed"),
        ("NamespaceClass", Some(old), Some(new)) if only_status(old, new) => Ok(()),
        ("Namespace", Some(old), Some(new)) if without_problem(old) == without_problem(new) => Ok(()),
        ("NamespaceClassBinding", old, new) => match (old, new) {
            (Some(old), Some(new)) if only_status(old, new) && !is_deletion(change) => Ok(()),
            // It takes over a binding that a tenant created once the label requests a class.
            (_, Some(new)) if names_namespace(new, namespace) => Ok(()),
            (Some(old), _) if names_namespace(old, namespace) => Ok(()),
            _ => refuse("a binding that is not its own was changed"),
        },
        (kind, old, new) if is_content(kind) => {
            let Some(new) = new.filter(|_| !is_deletion(change)) else {
                let owned = old.is_some_and(|old| is_owned(old, namespace, history));
                return if owned { Ok(()) } else { refuse("it was deleted and no binding owned it") };
            };
            let is_ours = |object: &Value| {
                is_owned(object, namespace, history) || is_adopted(object, namespace, history)
            };
            // An adopted object is released without other changes.
            let is_released = || old.is_some_and(|old| is_ours(old) && old["data"] == new["data"]);
            if !is_ours(new) && !is_released() {
                return refuse("it was written and no binding owns it");
            }
            match old {
                Some(old) if controller_uid(old).is_some() && !is_owned(old, namespace, history) => {
                    refuse("it was taken from another owner")
                }
                _ => Ok(()),
            }
        }
        _ => refuse("the operator has no business with it"),
    }
}

/// Returns a namespace without the description of its problem and without the fields that every write changes.
fn without_problem(namespace: &Value) -> Value {
    let mut rest = namespace.clone();
    let Some(metadata) = rest["metadata"].as_object_mut() else { return rest };
    for field in ["managedFields", "resourceVersion"] {
        metadata.remove(field);
    }
    let mut annotations = metadata.remove("annotations").unwrap_or_default();
    annotations.as_object_mut().map(|annotations| annotations.remove(names::PROBLEM_ANNOTATION));
    if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        metadata.insert("annotations".to_owned(), annotations);
    }
    rest
}

fn names_namespace(binding: &Value, namespace: &str) -> bool {
    let owner = &binding["metadata"]["ownerReferences"][0];
    owner["kind"] == "Namespace" && owner["name"] == namespace
}

/// Returns whether a current or earlier binding of the namespace controls an object.
fn is_owned(object: &Value, namespace: &str, history: &History) -> bool {
    let Some(uid) = controller_uid(object) else { return false };
    let binding = ObjectRef::namespaced(&names::binding(), namespace, namespace);
    let mut bindings = history.versions(&binding).iter().filter_map(|version| version.object.as_ref());
    bindings.any(|binding| metadata(binding, "uid") == uid)
}

/// Returns whether a current or earlier binding of the namespace adopted an object without an owner.
fn is_adopted(object: &Value, namespace: &str, history: &History) -> bool {
    let Some(uid) = annotation(object, names::ADOPTED_ANNOTATION) else { return false };
    let binding = ObjectRef::namespaced(&names::binding(), namespace, namespace);
    let mut bindings = history.versions(&binding).iter().filter_map(|version| version.object.as_ref());
    controller_uid(object).is_none() && bindings.any(|binding| metadata(binding, "uid") == uid)
}

fn pruning_keeps_what_is_desired(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    if !is_deletion(change) || !is_content(&change.object.kind.kind) {
        return Ok(());
    }
    let Some(state) = moment.history.process(process) else { return Ok(()) };
    let binding = ObjectRef::namespaced(&names::binding(), namespace, namespace);
    let Some(class) = class_worked_for(moment, process, &binding) else { return Ok(()) };
    let wants = |class: &Value| wanted(class, namespace).contains_key(&change.object);
    if !moment.server.object(&class).is_some_and(|class| wants(class)) {
        return Ok(());
    }
    // A change between the read and the removal is acceptable, but a read of an earlier pass proves nothing. Passes over other
    // bindings read the same class, so the first read during this pass is assumed to be its own.
    let began = state.ended.get(&("binding".to_owned(), binding)).copied().unwrap_or_default();
    let mut reads = state.reads.get(&class).into_iter().flatten().copied();
    let read = reads.find(|read| *read >= began);
    let was_unwanted = read.is_some_and(|read| {
        let versions = moment.history.versions(&class);
        let since = versions.iter().rposition(|version| version.at < read);
        let not_known = since.is_none() && !versions.is_empty();
        let versions = &versions[since.unwrap_or(0)..];
        not_known || versions.iter().any(|version| !version.object.as_deref().is_some_and(wants))
    });
    if was_unwanted { Ok(()) } else { Err(format!("{} was removed, and {class} wants it", change.object)) }
}

/// Returns the class of a binding, if the process has written the binding's status since the class was set. Before that, the
/// process may still work for another class without knowing of the change.
fn class_worked_for(moment: &Moment<'_>, process: usize, binding: &ObjectRef) -> Option<ObjectRef> {
    let names_class = |object: &Value| object["spec"]["className"].as_str().map(str::to_owned);
    let class = names_class(moment.server.object(binding)?)?;
    let versions = moment.history.versions(binding).iter().rev();
    let same = versions.take_while(|version| {
        version.object.as_deref().and_then(names_class).as_deref() == Some(class.as_str())
    });
    // The oldest of them may be the write that set the class.
    let same: Vec<_> = same.collect();
    let (_, since) = same.split_last()?;
    let fenced = since.iter().any(|version| version.by == Author::Process(process));
    fenced.then(|| ObjectRef::cluster(&names::class(), &class))
}

fn bindings_of_labelled_namespaces_stay(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    if change.object.kind != names::binding() || !is_deletion(change) {
        return Ok(());
    }
    let Some(class) = requested_class(moment.server, namespace) else { return Ok(()) };
    let class = ObjectRef::cluster(&names::class(), metadata(&class, "name"));
    let recent = [ObjectRef::cluster(&names::namespace(), namespace), class.clone()].iter().any(|object| {
        let last = moment.history.versions(object).last();
        // Writes of a class's status count as changes of the class here.
        last.is_some_and(|version| version.at + MINUTE > moment.entry.at)
    });
    if recent {
        Ok(())
    } else {
        Err(format!("{} was removed, and the namespace is in {class}", change.object))
    }
}

/// Checks that adopted objects are kept, unless their class requests their deletion.
fn adopted_objects_are_kept(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    let Some(old) = change.old.as_deref() else { return Ok(()) };
    if !is_content(&change.object.kind.kind) {
        return Ok(());
    }
    let is_same = |object: &Value| metadata(object, "uid") == metadata(old, "uid");
    let mut versions = moment.history.versions(&change.object).iter();
    let first = versions.find(|version| version.object.as_deref().is_some_and(is_same));
    let Some(first) = first.filter(|first| matches!(first.by, Author::Client(_))) else { return Ok(()) };
    // It may have been created between the read, which did not find it, and the apply. The operator corrects that, unless it
    // crashes in between.
    if first.at + MINUTE > moment.entry.at || is_owned(old, namespace, moment.history) {
        return Ok(());
    }
    if is_deletion(change) {
        return Err(format!("{} was deleted, and a user had created it", change.object));
    }
    match change.new.as_deref() {
        Some(new) if is_owned(new, namespace, moment.history) && !lets_go(moment, &change.object) => {
            Err(format!("{} would go with its binding, and a user had created it", change.object))
        }
        _ => Ok(()),
    }
}

/// Returns whether a class has said lately that the object, if it existed before, is to be deleted with its binding.
fn lets_go(moment: &Moment<'_>, object: &ObjectRef) -> bool {
    let classes = CLASSES.map(|class| ObjectRef::cluster(&names::class(), class));
    let since = moment.entry.at.saturating_sub(2 * MINUTE);
    let recent = classes.iter().flat_map(|class| moment.history.versions_since(class, since));
    let recent = recent.filter_map(|version| version.object.as_deref());
    let current = classes.iter().filter_map(|class| moment.server.object(class).map(|it| &**it));
    recent.chain(current).any(|class| {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        wanted(class, namespace).get(object).is_some_and(|entry| !keeps_adopted(entry))
    })
}

fn created_resources_are_listed_first(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    if change.old.is_some() || !is_content(&change.object.kind.kind) {
        return Ok(());
    }
    let target = ObjectRef::namespaced(&names::binding(), namespace, namespace);
    let owner = change.new.as_deref().and_then(controller_uid);
    // When a binding is removed, so is everything that it owns, listed or not.
    let Some(binding) =
        moment.server.object(&target).filter(|binding| owner == Some(metadata(binding, "uid")))
    else {
        return Ok(());
    };
    let lists_it = |binding: &Value| {
        listed(binding).any(|listed| listed == (&*change.object.kind.kind, &*change.object.name))
    };
    if lists_it(binding) || was_overruled(moment, process, &target, lists_it) {
        return Ok(());
    }
    Err(format!("{} was created before it was listed", change.object))
}

/// Returns whether a process has listed a resource in a binding, and another leader has changed the status since. That leader
/// watches the kind of the resource, and removes it.
fn was_overruled(
    moment: &Moment<'_>,
    process: usize,
    binding: &ObjectRef,
    lists_it: impl Fn(&Value) -> bool,
) -> bool {
    let versions = moment.history.versions(binding);
    let is_own = |version: &Version| {
        version.by == Author::Process(process) && version.object.as_deref().is_some_and(&lists_it)
    };
    let is_of_other = |version: &Version| matches!(version.by, Author::Process(other) if other != process);
    let last = versions.iter().rposition(is_own);
    last.is_some_and(|last| versions[last..].iter().any(is_of_other))
}

/// Returns the kind and name of everything that a binding's status lists.
fn listed(binding: &Value) -> impl Iterator<Item = (&str, &str)> {
    let status = &binding["status"];
    entries(&status["appliedResources"]).chain(entries(&status["pendingResources"]))
}

fn entries(list: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = list.as_array().into_iter().flatten();
    entries.filter_map(|entry| Some((entry["kind"].as_str()?, entry["name"].as_str()?)))
}

fn applied_means_existed(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    let Some(binding) = change.new.as_deref().filter(|_| change.object.kind == names::binding()) else {
        return Ok(());
    };
    // Clients that may write a status may list any object, as applied or as pending.
    let by_users = moment.history.versions(&change.object).iter();
    let by_users = by_users.filter(|version| matches!(version.by, Author::Client(_)));
    let said: BTreeSet<(&str, &str)> =
        by_users.filter_map(|version| version.object.as_deref()).flat_map(listed).collect();
    let kinds = pool_kinds();
    for (kind, name) in entries(&binding["status"]["appliedResources"]) {
        let Some(known) = kinds.iter().find(|known| known.kind == kind) else { continue };
        let target = ObjectRef::namespaced(known, namespace, name);
        let existed = moment.server.object(&target).is_some()
            || moment.history.versions(&target).iter().any(|version| version.object.is_some());
        if !existed && !said.contains(&(kind, name)) {
            return Err(format!("{} lists {target} as applied, which has never existed", change.object));
        }
    }
    Ok(())
}

fn is_ready(binding: &Value) -> bool {
    conditions::is(binding, "Ready", "True")
}

fn ready_means_applied(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    let Some(binding) = change.new.as_deref().filter(|_| change.object.kind == names::binding()) else {
        return Ok(());
    };
    let claim = |binding: &Value| {
        let status = &binding["status"];
        (is_ready(binding), status["observedClassUid"].clone(), status["observedClassGeneration"].clone())
    };
    let old = change.old.as_deref().map(claim);
    if !is_ready(binding) || old == Some(claim(binding)) {
        return Ok(());
    }
    let (_, uid, generation) = claim(binding);
    let name = binding["status"]["observedClassName"].as_str().unwrap_or_default();
    let versions = moment.history.versions(&ObjectRef::cluster(&names::class(), name));
    let observed = versions.iter().find(|version| {
        version.object.as_ref().is_some_and(|class| {
            class["metadata"]["uid"] == uid && class["metadata"]["generation"] == generation
        })
    });
    // If a class existed before the run began, its first version counts.
    let (since, class) = match observed {
        Some(version) => (version.at, version.object.clone()),
        None => (
            std::time::Duration::ZERO,
            moment.server.object(&ObjectRef::cluster(&names::class(), name)).cloned(),
        ),
    };
    let Some(class) = class.filter(|class| class["metadata"]["uid"] == uid) else { return Ok(()) };
    if class["metadata"]["generation"] != generation {
        return Ok(());
    }
    for (target, manifest) in wanted(&class, namespace) {
        let versions = moment.history.versions(&target);
        // The state at the time of the class change counts as much as later ones.
        let from = versions.iter().rposition(|version| version.at <= since).unwrap_or(0);
        let was_there = versions[from..]
            .iter()
            .any(|version| version.object.as_ref().is_some_and(|object| is_from_entry(object, &manifest)));
        // An object that the process received may have been changed or removed since. The process can't know that before the
        // watch event arrives, and ignores events that arrive during a pass.
        let states = || moment.history.states_of_sender(process, moment.entry.at);
        let delivered = states().filter_map(|state| state.observed.get(&target));
        let before = states().filter_map(|state| state.replaced.get(&target)).flatten();
        let before =
            before.filter(|(until, _)| *until + MINUTE > moment.entry.at).map(|(_, delivered)| delivered);
        let delivered = delivered.chain(before).any(|delivered| {
            let version = &delivered["metadata"]["resourceVersion"];
            versions.iter().filter_map(|known| known.object.as_ref()).any(|object| {
                object["metadata"]["resourceVersion"] == *version && is_from_entry(object, &manifest)
            })
        });
        // The answer to its own apply shows the process the object as well, also if it may not watch the kind.
        let is_recent = |version: &Version| version.at + MINUTE > moment.entry.at;
        let answered = versions.iter().rev().take_while(|version| is_recent(version)).any(|version| {
            version.by == Author::Process(process)
                && version.object.as_ref().is_some_and(|object| is_from_entry(object, &manifest))
        });
        if !was_there && !delivered && !answered {
            return Err(format!(
                "{} says Ready, and {target} never was as class {name} wants it",
                change.object
            ));
        }
    }
    Ok(())
}

fn no_requests_in_terminating_namespaces(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    let writes = step.requests.iter().filter(|request| {
        matches!(request.action, Action::Kube(KubeRequest::Apply { .. } | KubeRequest::Delete { .. }))
    });
    for request in writes {
        let Some(target) = request.action.target() else { continue };
        let Some(namespace) = target.namespace.as_deref() else { continue };
        let known = state.observed.get(&ObjectRef::cluster(&names::namespace(), namespace));
        if known.is_some_and(|namespace| lockstep_engine::object::is_deleting(namespace)) {
            return Err(format!(
                "{} of {target}, though its namespace is being deleted",
                request.action.name()
            ));
        }
    }
    Ok(())
}

//! Mistakes in the handling of watch events and other events of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockstep_engine::action::{Action, ActionId, KubeRequest, Outcome, Request, Subresource, Success};
use lockstep_engine::machine::{Event, Note, ReconcileResult, Step};
use lockstep_engine::object::{ObjectRef, ResourceVersion};
use lockstep_namespaceclass::names;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::common::{HOST, Refused};
use super::requests::status_patch;

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "deletions_are_missed",
        sentence: "Watch events about deleted objects are ignored.",
        controller: HOST,
        plant: plant::<NoVanished>,
        garble: None,
    },
    Bug {
        name: "a_new_list_only_adds",
        sentence: "Objects that are missing from a new list stay in the cache.",
        controller: HOST,
        plant: plant::<ListsOnlyAdd>,
        garble: None,
    },
    Bug {
        name: "events_are_lost_while_busy",
        sentence: "Changes during a request do not enqueue the key again.",
        controller: HOST,
        plant: plant::<LostWhileBusy>,
        garble: None,
    },
    Bug {
        name: "the_past_is_ignored",
        sentence: "Objects that existed before the process started are ignored.",
        controller: HOST,
        plant: plant::<PastIgnored>,
        garble: None,
    },
    Bug {
        name: "a_new_leader_repeats_statuses",
        sentence: "A process writes the status of each class once, even if it has not changed.",
        controller: HOST,
        plant: plant::<RepeatsStatuses>,
        garble: None,
    },
    Bug {
        name: "never_ceases_to_lead",
        sentence: "A process that lost the leadership continues to reconcile.",
        controller: HOST,
        plant: plant::<LeadsForever>,
        garble: None,
    },
    Bug {
        name: "lost_passes_count_as_converged",
        sentence: "A pass counts as converged although its process no longer leads.",
        controller: HOST,
        plant: plant::<LostPassesConverge>,
        garble: None,
    },
    Bug {
        name: "every_condition_is_normal",
        sentence: "Conditions that report a problem are logged like those that report success.",
        controller: HOST,
        plant: plant::<NoWarnings>,
        garble: None,
    },
    Bug {
        name: "every_condition_is_a_warning",
        sentence: "Conditions that report success are logged, and become Events, like those that report a problem.",
        controller: HOST,
        plant: plant::<OnlyWarnings>,
        garble: None,
    },
    Bug {
        name: "numbers_are_missing",
        sentence: "Messages about conditions are logged without the numbers in them.",
        controller: HOST,
        plant: plant::<NoNumbers>,
        garble: None,
    },
    Bug {
        name: "problems_are_only_logged",
        sentence: "A condition that reports a problem is logged, but is no Event.",
        controller: HOST,
        plant: plant::<NoWarningEvents>,
        garble: None,
    },
    Bug {
        name: "deletion_timestamps_are_ignored",
        sentence: "A terminating namespace is treated like any other.",
        controller: HOST,
        plant: plant::<BlindToDeletion>,
        garble: None,
    },
    Bug {
        name: "waits_for_refused_watches",
        sentence: "A watch that is refused is not reported, so that bindings wait for it.",
        controller: HOST,
        plant: plant::<WaitsForRefused>,
        garble: None,
    },
    Bug {
        name: "bindings_freeze",
        sentence: "While a kind can't be watched, no binding reports another generation of its class.",
        controller: HOST,
        plant: plant::<BindingsFreeze>,
        garble: None,
    },
];

#[derive(Default)]
struct WaitsForRefused;

impl Flaw for WaitsForRefused {
    fn event(&mut self, event: Event) -> Option<Event> {
        (!matches!(event, Event::WatchFailed { .. })).then_some(event)
    }
}

/// The server never receives the last status of a pass.
#[derive(Default)]
struct BindingsFreeze {
    refused: Refused,
    /// The newest states that the machine has received.
    bindings: BTreeMap<ObjectRef, Arc<Value>>,
}

impl Flaw for BindingsFreeze {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.refused.absorb(&event);
        if let Event::Applied { object, .. } | Event::Finished { outcome: Ok(Success::Object(object)), .. } =
            &event
            && object["kind"] == "NamespaceClassBinding"
        {
            let newest = self
                .bindings
                .entry(reference(&names::binding(), object))
                .or_insert_with(|| Arc::clone(object));
            if ResourceVersion::of(object) > ResourceVersion::of(newest) {
                *newest = Arc::clone(object);
            }
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let (target, patch) = status_patch(&mut request.action)?;
        let known = self.bindings.get(target).filter(|_| !self.refused.0.is_empty())?;
        // The status before the resources are written is still of the former generation.
        let generation = |object: &Value| object["status"]["observedClassGeneration"].as_i64().unwrap_or(0);
        (generation(known) != generation(patch)).then(|| Ok(Success::Object(Arc::clone(known))))
    }
}

#[derive(Default)]
struct NoVanished;

impl Flaw for NoVanished {
    fn event(&mut self, event: Event) -> Option<Event> {
        (!matches!(event, Event::Deleted { .. })).then_some(event)
    }
}

/// Handles the end of the first list, and ignores the end of later lists.
#[derive(Default)]
struct ListsOnlyAdd {
    listed: BTreeSet<String>,
}

impl Flaw for ListsOnlyAdd {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::ListStarted { kind } if self.listed.contains(&kind.kind) => None,
            Event::ListCompleted { kind } if !self.listed.insert(kind.kind.clone()) => None,
            _ => Some(event),
        }
    }
}

#[derive(Default)]
struct LostWhileBusy {
    open: BTreeSet<ActionId>,
}

impl Flaw for LostWhileBusy {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Finished { id, .. } => {
                self.open.remove(id);
            }
            Event::Applied { .. } | Event::Deleted { .. } if !self.open.is_empty() => return None,
            _ => {}
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if request.action.target().is_some() {
            self.open.insert(request.id);
        }
        None
    }
}

/// Treats the first list of namespaces as empty.
#[derive(Default)]
struct PastIgnored {
    listing: bool,
    listed: bool,
}

impl Flaw for PastIgnored {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::ListStarted { kind } if kind.kind == "Namespace" => self.listing = !self.listed,
            Event::ListCompleted { kind } if kind.kind == "Namespace" => {
                (self.listing, self.listed) = (false, true);
            }
            Event::Applied { kind, .. } if kind.kind == "Namespace" && self.listing => return None,
            _ => {}
        }
        Some(event)
    }
}

/// Repeats the first status that it receives of each class, after the first pass over the class.
#[derive(Default)]
struct RepeatsStatuses {
    statuses: BTreeMap<ObjectRef, Option<Value>>,
    repeated: u64,
}

impl Flaw for RepeatsStatuses {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Applied { object, .. } = &event
            && object["kind"] == "NamespaceClass"
        {
            let first = self.statuses.entry(reference(&names::class(), object));
            first.or_insert_with(|| object.get("status").cloned());
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        for note in &step.notes {
            if let Note::Reconciled { object, result: ReconcileResult::Converged, .. } = note
                && let Some(status) = self.statuses.get_mut(object).and_then(Option::take)
            {
                self.repeated += 1;
                let action = Action::Kube(KubeRequest::Patch {
                    target: object.clone(),
                    subresource: Some(Subresource::Status),
                    patch: Arc::new(json!({ "metadata": {}, "status": status })),
                });
                step.requests.push(Request { id: ActionId(1_000_000_000 + self.repeated), action });
            }
        }
    }
}

#[derive(Default)]
struct LeadsForever;

impl Flaw for LeadsForever {
    fn event(&mut self, event: Event) -> Option<Event> {
        (event != Event::LeadershipChanged { leading: false }).then_some(event)
    }
}

#[derive(Default)]
struct NoWarnings;

impl Flaw for NoWarnings {
    fn step(&mut self, step: &mut Step) {
        for note in &mut step.notes {
            if let Note::ConditionChanged { warning, .. } = note {
                *warning = false;
            }
        }
    }
}

#[derive(Default)]
struct OnlyWarnings;

impl Flaw for OnlyWarnings {
    fn step(&mut self, step: &mut Step) {
        for note in &mut step.notes {
            if let Note::ConditionChanged { warning, .. } | Note::EventAnnounced { warning, .. } = note {
                *warning = true;
            }
        }
    }
}

#[derive(Default)]
struct NoNumbers;

impl Flaw for NoNumbers {
    fn step(&mut self, step: &mut Step) {
        for note in &mut step.notes {
            if let Note::ConditionChanged { message, .. } = note {
                message.retain(|character| !character.is_ascii_digit());
            }
        }
    }
}

#[derive(Default)]
struct NoWarningEvents;

impl Flaw for NoWarningEvents {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        match &request.action {
            Action::Kube(KubeRequest::Create { target, manifest })
                if target.kind.kind == "Event" && manifest["type"] == "Warning" =>
            {
                Some(Ok(Success::Object(Arc::clone(manifest))))
            }
            _ => None,
        }
    }

    fn step(&mut self, step: &mut Step) {
        step.notes.retain(|note| !matches!(note, Note::EventAnnounced { warning: true, .. }));
    }
}

#[derive(Default)]
struct LostPassesConverge;

impl Flaw for LostPassesConverge {
    fn step(&mut self, step: &mut Step) {
        for note in &mut step.notes {
            if let Note::Reconciled { result, .. } = note
                && *result == ReconcileResult::Abandoned
            {
                *result = ReconcileResult::Converged;
            }
        }
    }
}

#[derive(Default)]
struct BlindToDeletion;

impl Flaw for BlindToDeletion {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(match event {
            Event::Applied { kind, object } if kind.kind == "Namespace" => {
                let mut object = Value::clone(&object);
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("deletionTimestamp");
                }
                Event::Applied { kind, object: Arc::new(object) }
            }
            other => other,
        })
    }
}

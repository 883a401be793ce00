//! Mistakes in the handling of answers.

use std::sync::Arc;

use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest, Outcome, Request, Success};
use lockstep_engine::machine::Event;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::Value;

use super::common::{Asked, HOST, Known, as_if_done};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "unknown_is_success",
        sentence: "A write with an unknown outcome counts as done.",
        controller: HOST,
        plant: plant::<UnknownIsSuccess>,
        garble: None,
    },
    Bug {
        name: "conflict_is_success",
        sentence: "A write that failed with a conflict counts as done.",
        controller: HOST,
        plant: plant::<ConflictIsSuccess>,
        garble: None,
    },
    Bug {
        name: "unavailable_is_not_found",
        sentence: "An object that could not be read counts as deleted.",
        controller: HOST,
        plant: plant::<UnavailableIsNotFound>,
        garble: None,
    },
    Bug {
        name: "status_before_the_apply_is_known",
        sentence: "The status is written when the applies are sent, not when they are answered.",
        controller: HOST,
        plant: plant::<AppliesAreAssumed>,
        garble: None,
    },
    Bug {
        name: "unseen_classes_are_missing",
        sentence: "A class that no watch has shown counts as missing, whatever the server has.",
        controller: HOST,
        plant: plant::<UnseenIsMissing>,
        garble: None,
    },
    Bug {
        name: "reads_from_the_cache",
        sentence: "Objects are read from the watch cache, however stale, instead of from the server.",
        controller: HOST,
        plant: plant::<ReadsFromCache>,
        garble: None,
    },
    Bug {
        name: "ownership_is_not_checked",
        sentence: "Any object of the right name counts as the controller's own.",
        controller: HOST,
        plant: plant::<OwnsEverything>,
        garble: None,
    },
    Bug {
        name: "lost_answers_are_refusals",
        sentence: "A status write without an answer counts as one that the server has refused.",
        controller: HOST,
        plant: plant::<LostAnswersAreRefusals>,
        garble: None,
    },
];

fn taken_for_done(asked: &mut Asked, event: Event, class: ErrorKind) -> Event {
    let action = asked.answered(&event);
    match (event, action) {
        (Event::Finished { id, outcome: Err(failure) }, Some(action))
            if failure.class == class && action.is_write() =>
        {
            Event::Finished { id, outcome: Ok(as_if_done(&action)) }
        }
        (event, _) => event,
    }
}

#[derive(Default)]
struct UnknownIsSuccess(Asked);

impl Flaw for UnknownIsSuccess {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(taken_for_done(&mut self.0, event, ErrorKind::Unknown))
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.0.note(request);
        None
    }
}

#[derive(Default)]
struct ConflictIsSuccess(Asked);

impl Flaw for ConflictIsSuccess {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(taken_for_done(&mut self.0, event, ErrorKind::Conflict))
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.0.note(request);
        None
    }
}

#[derive(Default)]
struct UnavailableIsNotFound(Asked);

impl Flaw for UnavailableIsNotFound {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        let action = self.0.answered(&event);
        if let (Event::Finished { outcome: Err(failure), .. }, Some(Action::Kube(KubeRequest::Get { .. }))) =
            (&mut event, action)
        {
            failure.class = ErrorKind::NotFound;
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.0.note(request);
        None
    }
}

#[derive(Default)]
struct LostAnswersAreRefusals(Asked);

impl Flaw for LostAnswersAreRefusals {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        let is_status = self.0.answered(&event).is_some_and(|action| action.name() == "patch_status");
        if let Event::Finished { outcome: Err(failure), .. } = &mut event
            && is_status
            && failure.class == ErrorKind::Unknown
        {
            failure.class = ErrorKind::Conflict;
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.0.note(request);
        None
    }
}

/// Sends the applies, but discards their real answers.
#[derive(Default)]
struct AppliesAreAssumed {
    sent: Vec<Request>,
}

impl Flaw for AppliesAreAssumed {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        match &request.action {
            action @ Action::Kube(KubeRequest::Apply { target, .. }) if target.kind.group.is_empty() => {
                let outcome = Ok(as_if_done(action));
                self.sent.push(request.clone());
                Some(outcome)
            }
            _ => None,
        }
    }

    fn step(&mut self, step: &mut lockstep_engine::machine::Step) {
        step.requests.append(&mut self.sent);
    }
}

#[derive(Default)]
struct ReadsFromCache {
    cache: std::collections::BTreeMap<(String, String, String), Arc<Value>>,
}

impl Flaw for ReadsFromCache {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Applied { kind, object } = &event {
            let part = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            self.cache.insert((kind.kind.clone(), part("namespace"), part("name")), Arc::clone(object));
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Get { target, .. }) = &request.action else { return None };
        let namespace = target.namespace.clone().unwrap_or_default();
        let cached = self.cache.get(&(target.kind.kind.clone(), namespace, target.name.clone()))?;
        Some(Ok(Success::Object(Arc::clone(cached))))
    }
}

#[derive(Default)]
struct UnseenIsMissing {
    known: Known,
}

impl Flaw for UnseenIsMissing {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.known.absorb(&event, "NamespaceClass");
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Get { target, .. }) = &request.action else { return None };
        let is_unseen = target.kind.kind == "NamespaceClass" && !self.known.objects.contains_key(target);
        is_unseen.then(|| Err(Failure::new(ErrorKind::NotFound, "it was not seen")))
    }
}

#[derive(Default)]
struct OwnsEverything {
    bindings: std::collections::BTreeMap<String, String>,
}

impl OwnsEverything {
    fn owned(&self, object: &Arc<Value>) -> Arc<Value> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let Some(uid) = self.bindings.get(namespace) else { return Arc::clone(object) };
        let mut object = Value::clone(object);
        for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            owner["uid"] = Value::from(uid.as_str());
        }
        Arc::new(object)
    }
}

impl Flaw for OwnsEverything {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(match event {
            Event::Applied { kind, object } if kind.kind == "NamespaceClassBinding" => {
                let part = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                self.bindings.insert(part("namespace"), part("uid"));
                Event::Applied { kind, object }
            }
            Event::Finished { id, outcome: Ok(Success::Object(object)) } if object["status"].is_null() => {
                Event::Finished { id, outcome: Ok(Success::Object(self.owned(&object))) }
            }
            other => other,
        })
    }
}

//! What the page knows about one controller: its objects, its last steps, and its work.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockstep_engine::action::{
    Action, ActionId, BrokerRequest, KubeRequest, Outcome, Request, ResolveImage, Success,
};
use lockstep_engine::broker::{Broker, SecretString};
use lockstep_engine::machine::{Event, Note, Step, Workload};
use lockstep_engine::object::{Kind, Name, ObjectRef};
use lockstep_engine::recording::RecordedStep;
use lockstep_engine::recording::redact::Redactor;
use lockstep_engine::time::{Monotonic, Now};
use serde_json::Value;

use super::super::brief;
use super::moments::{Moment, Moments};
use super::objects::{End, Objects, slim};

/// The maximum number of steps in memory. Objects and conditions are kept as long as the objects exist.
pub(super) const STEPS_MAX: usize = 16_384;

/// A request without an answer.
pub(super) struct Pending {
    pub(super) text: String,
    pub(super) target: Option<ObjectRef>,
    pub(super) asked: Now,
}

/// A controller.
pub(super) struct Feed {
    /// Its place among the feeds of the process.
    pub(super) place: usize,
    /// The name on the page. Several Sentinels have the same controller.
    pub(super) title: String,
    pub(super) controller: &'static str,
    pub(super) redactor: Arc<Redactor>,
    /// Increases with each change.
    pub(super) revision: u64,
    /// The last steps, without the contents of objects.
    pub(super) steps: VecDeque<Arc<RecordedStep>>,
    /// The number of all steps.
    pub(super) taken: u64,
    pub(super) objects: Objects,
    pub(super) pending: BTreeMap<ActionId, Pending>,
    pub(super) timeline: Moments,
    pub(super) decisions: Moments,
    pub(super) workload: Workload,
    pub(super) is_leading: bool,
    /// Whether no more steps arrive.
    pub(super) is_ended: bool,
}

/// Locks a feed.
pub(super) fn lock(feed: &Mutex<Feed>) -> MutexGuard<'_, Feed> {
    // A feed stays readable if a thread panicked while it held the lock.
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a time in milliseconds since 1970.
pub(super) fn millis(now: Now) -> i64 {
    now.wall.timestamp().as_millisecond()
}

impl Feed {
    pub(super) fn new(
        place: usize,
        title: &str,
        controller: &'static str,
        kinds: Vec<Arc<Kind>>,
        redactor: Arc<Redactor>,
    ) -> Self {
        Self {
            place,
            title: title.to_owned(),
            controller,
            redactor,
            revision: 0,
            steps: VecDeque::new(),
            taken: 0,
            objects: Objects::new(kinds),
            pending: BTreeMap::new(),
            timeline: Moments::default(),
            decisions: Moments::default(),
            workload: Workload::default(),
            is_leading: false,
            is_ended: false,
        }
    }

    /// Returns the text that identifies an object of this controller in URLs.
    pub(super) fn path(&self, object: &ObjectRef) -> String {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        format!("{}/{}/{namespace}/{}", self.controller, object.kind, object.name)
    }

    /// Takes a measurement of the work queues.
    pub(super) fn measured(&mut self, workload: Workload) {
        self.revision += 1;
        self.workload = workload;
    }

    /// Records that no more steps arrive.
    pub(super) fn end(&mut self) {
        self.revision += 1;
        self.is_ended = true;
    }

    /// Adds a step.
    pub(super) fn step(&mut self, step: RecordedStep) {
        self.revision += 1;
        self.taken = step.number;
        self.event(&step);
        let RecordedStep { number, now, event, gave } = step;
        for Request { id, action } in &gave.requests {
            let text = brief::action(action);
            let target = action.target().cloned();
            self.moment(now, number, "action", text.clone(), target.as_ref(), false);
            self.pending.insert(*id, Pending { text, target, asked: now });
        }
        for note in &gave.notes {
            self.note(note, number, now);
        }
        if self.steps.len() == STEPS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(Arc::new(RecordedStep {
            number,
            now,
            event: self.trimmed_event(event),
            gave: trimmed(gave),
        }));
    }

    fn event(&mut self, step: &RecordedStep) {
        let mut object = None;
        let mut text = None;
        let mut bad = false;
        match &step.event {
            Event::LeadershipChanged { leading } => self.is_leading = *leading,
            Event::ListStarted { kind } => self.objects.list_started(kind),
            Event::ListCompleted { kind } => self.objects.list_completed(kind),
            Event::Applied { kind, object: state } => object = Some(self.objects.applied(kind, state)),
            Event::Deleted { kind, object: state } => object = Some(self.objects.deleted(kind, state)),
            Event::Finished { id, outcome } => {
                let pending = self.pending.remove(id);
                text = pending.as_ref().map(|pending| answered(pending, outcome, step.now.monotonic));
                object = pending.and_then(|pending| pending.target);
                bad = outcome.is_err();
            }
            Event::WatchFailed { .. } => bad = true,
            Event::Started | Event::TimerFired => {}
        }
        let kind = if matches!(step.event, Event::Finished { .. }) { "answer" } else { "event" };
        let text = text.unwrap_or_else(|| brief::described(&step.event));
        self.moment(step.now, step.number, kind, text, object.as_ref(), bad);
    }

    /// Returns an event without the contents of objects. What the page keeps of an object is in memory once.
    fn trimmed_event(&self, event: Event) -> Event {
        match event {
            Event::Applied { kind, object } => {
                let known = self.objects.get(&Name::of(&object).object(&kind));
                let object = known.map_or_else(|| slim(&object), |entry| Arc::clone(&entry.state));
                Event::Applied { kind, object }
            }
            Event::Deleted { kind, object } => Event::Deleted { kind, object: slim(&object) },
            Event::Finished { id, outcome } => Event::Finished { id, outcome: outcome.map(trimmed_answer) },
            other => other,
        }
    }

    fn note(&mut self, note: &Note, number: u64, now: Now) {
        match note {
            Note::ConditionChanged { object, condition, status, reason, message, warning } => {
                let text = format!("{object}: {condition}={status} {reason}: {message}");
                self.moment(now, number, "decision", text.clone(), Some(object), *warning);
                let moment = self.made(now, number, "decision", text, Some(object), *warning);
                self.decisions.push(moment);
            }
            Note::Reconciled { object, result, .. } => {
                let end = End::of(result, now);
                let text = format!("{object}: {}", end.text());
                let bad = end.is_failure();
                if self.objects.ended(object, end) {
                    self.moment(now, number, "result", text, Some(object), bad);
                }
            }
            Note::Warning { message } | Note::Error { message, .. } => {
                self.moment(now, number, "note", message.clone(), None, true);
            }
            Note::EventAnnounced { object, warning, reason, note, .. } => {
                let text = format!("Event about {object}: {reason}: {note}");
                self.moment(now, number, "note", text, Some(object), *warning);
            }
            Note::Log { debug: false, message, .. } => {
                self.moment(now, number, "note", message.clone(), None, false);
            }
            Note::LeadershipChanged { .. }
            | Note::Log { .. }
            | Note::Published { .. }
            | Note::Measured(_)
            | Note::Traced(_) => {}
        }
    }

    fn moment(
        &mut self,
        now: Now,
        step: u64,
        kind: &'static str,
        text: String,
        object: Option<&ObjectRef>,
        bad: bool,
    ) {
        let moment = self.made(now, step, kind, text, object, bad);
        self.timeline.push(moment);
    }

    fn made(
        &self,
        now: Now,
        step: u64,
        kind: &'static str,
        text: String,
        object: Option<&ObjectRef>,
        bad: bool,
    ) -> Moment {
        Moment { at: millis(now), step, kind, text, path: object.map(|object| self.path(object)), bad }
    }
}

/// Describes the answer of a request, and how long it took.
fn answered(pending: &Pending, outcome: &Outcome, now: Monotonic) -> String {
    let took = now.since(pending.asked.monotonic);
    format!("{} ({} ms)", brief::answer(&pending.text, outcome), took.as_millis())
}

/// Returns an answer without its content. What failed in it stays, because it explains decisions.
fn trimmed_answer(answer: Success) -> Success {
    match answer {
        Success::Published(results) => {
            Success::Published(results.into_iter().filter(Result::is_err).take(1).collect())
        }
        Success::Oversized { .. } => answer,
        _ => Success::Done,
    }
}

/// Returns the output of a step with what explanations need: the names of actions, the results and the conditions.
fn trimmed(step: Step) -> Step {
    let nothing = Arc::new(Value::Null);
    let requests = step.requests.into_iter().map(|Request { id, action }| {
        let manifest = Arc::clone(&nothing);
        let action = match action {
            Action::Kube(KubeRequest::Apply { target, .. }) => {
                Action::Kube(KubeRequest::Apply { target, manifest })
            }
            Action::Kube(KubeRequest::Create { target, .. }) => {
                Action::Kube(KubeRequest::Create { target, manifest })
            }
            Action::Kube(KubeRequest::CreateSecret { target, generate, .. }) => {
                Action::Kube(KubeRequest::CreateSecret { target, manifest, generate })
            }
            Action::Kube(KubeRequest::Update { target, .. }) => {
                Action::Kube(KubeRequest::Update { target, manifest })
            }
            Action::Kube(KubeRequest::Patch { target, subresource, .. }) => {
                Action::Kube(KubeRequest::Patch { target, subresource, patch: manifest })
            }
            Action::Registry(ResolveImage { image, .. }) => {
                Action::Registry(ResolveImage { image, credentials: None })
            }
            Action::Broker(BrokerRequest::Connect { broker }) => {
                Action::Broker(BrokerRequest::Connect { broker: without_url(&broker) })
            }
            Action::Broker(BrokerRequest::Publish { broker, .. }) => {
                Action::Broker(BrokerRequest::Publish { broker: without_url(&broker), events: Arc::from([]) })
            }
            other => other,
        };
        Request { id, action }
    });
    let is_needed = |note: &Note| matches!(note, Note::Reconciled { .. } | Note::ConditionChanged { .. });
    Step { requests: requests.collect(), notes: step.notes.into_iter().filter(is_needed).collect() }
}

/// Returns a broker without its URL, which contains credentials.
fn without_url(broker: &Broker) -> Arc<Broker> {
    Arc::new(match broker {
        Broker::RabbitMq { exchange, .. } => {
            Broker::RabbitMq { url: SecretString::new(""), exchange: exchange.clone() }
        }
        Broker::PubSub { .. } => broker.clone(),
    })
}

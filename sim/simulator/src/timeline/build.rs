//! Builds a timeline from a plan and its run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Success, WatchCommand};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::{self, ObjectRef, metadata};
use serde_json::Value;

use super::conditions::Conditions;
use super::model::{Item, Kind, Lane, Timeline};
use super::words;
use crate::cluster::{Author, Carried, Change, Entry, What};
use crate::history::reference;
use crate::plan::{Plan, What as Fault};
use crate::planned_faults::Injection;
use crate::run::{Run, Violation};

/// Returns the timeline of a run.
pub(super) fn timeline(plan: &Plan, run: &Run) -> Timeline {
    let mut draft = Draft::new(plan);
    let mut strikes = run.strikes.iter().peekable();
    // A fault that is injected while a request is in flight follows the step that sent the request.
    let mut aimed: Vec<&Injection> = Vec::new();
    for entry in &run.journal {
        while let Some(strike) = strikes.next_if(|strike| strike.at <= entry.at) {
            let fault = &plan.faults[strike.fault];
            if strike.at == entry.at && fault.aim.is_some() && !fault.what.targets_requests() {
                aimed.push(strike);
            } else {
                draft.strike(strike);
            }
        }
        if aimed.first().is_some_and(|strike| strike.at < entry.at) {
            aimed.drain(..).for_each(|strike| draft.strike(strike));
        }
        draft.absorb(entry);
        let asked = |strike: &Injection| {
            plan.faults[strike.fault].aim.as_deref().is_some_and(|aim| asks_for(entry, aim))
        };
        let (now, later) = aimed.into_iter().partition(|strike| asked(strike));
        aimed = later;
        let now: Vec<&Injection> = now;
        for strike in now {
            draft.strike(strike);
        }
    }
    aimed.into_iter().chain(strikes).for_each(|strike| draft.strike(strike));
    draft.finish(run.violation.as_ref(), run.simulated)
}

fn asks_for(entry: &Entry, action: &str) -> bool {
    matches!(&entry.what, What::Stepped { step, .. } if step.requests.iter().any(|it| it.action.name() == action))
}

pub(super) fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

/// A request in flight.
struct Asked {
    /// A description of the request.
    words: String,
    /// The last item that shows it.
    item: usize,
    is_watch: bool,
}

/// The items of a timeline so far.
pub(super) struct Draft<'a> {
    plan: &'a Plan,
    items: Vec<(Lane, Item)>,
    objects: Vec<Arc<Value>>,
    places: HashMap<Arc<Value>, usize>,
    conditions: Conditions,
    asked: BTreeMap<(usize, u64), Asked>,
    /// The last version of an object that each process received.
    observed: BTreeMap<(usize, ObjectRef), usize>,
    /// The items of changes, by object and resulting version.
    changes: BTreeMap<(ObjectRef, String), usize>,
    /// The kinds that processes are listing.
    listing: BTreeSet<(usize, Arc<object::Kind>)>,
    /// The changes so far of the request that is being executed. They are listed after the request.
    pending: Vec<(u64, &'a Change)>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            items: Vec::new(),
            objects: Vec::new(),
            places: HashMap::new(),
            conditions: Conditions::default(),
            asked: BTreeMap::new(),
            observed: BTreeMap::new(),
            changes: BTreeMap::new(),
            listing: BTreeSet::new(),
            pending: Vec::new(),
        }
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn push(&mut self, at: u64, lane: Lane, kind: Kind, text: String) -> &mut Item {
        let item = Item {
            at,
            until: None,
            lane: 0,
            kind,
            text,
            object: None,
            before: None,
            cause: None,
            routine: None,
        };
        self.items.push((lane, item));
        let last = self.items.len() - 1;
        &mut self.items[last].1
    }

    fn last(&self) -> usize {
        self.items.len() - 1
    }

    /// Returns the index of an object; equal objects share one.
    fn place(&mut self, object: &Arc<Value>) -> usize {
        *self.places.entry(Arc::clone(object)).or_insert_with(|| {
            self.objects.push(Arc::clone(object));
            self.objects.len() - 1
        })
    }

    fn strike(&mut self, strike: &Injection) {
        let fault = &self.plan.faults[strike.fault];
        let at = millis(strike.at);
        let until = match fault.what {
            Fault::WatchLate { .. } | Fault::WatchTwice | Fault::SlowControlPlane { .. } => {
                Some(fault.until_ms)
            }
            Fault::Pause { by_ms: lasts }
            | Fault::TwoLeaders { for_ms: lasts }
            | Fault::Handover { gap_ms: lasts } => Some(at + lasts),
            _ => None,
        };
        let kind = if matches!(fault.what, Fault::Operation { .. }) { Kind::Operation } else { Kind::Fault };
        let text = match strike.affected.as_str() {
            "" => fault.what.to_string(),
            affected if fault.what.targets_requests() => format!("{affected} {}", fault.what),
            affected => format!("{}, {affected}", fault.what),
        };
        self.push(at, Lane::Faults, kind, text).until = until;
    }

    fn absorb(&mut self, entry: &'a Entry) {
        let at = millis(entry.at);
        match &entry.what {
            What::Changed(change) if matches!(change.by, Author::Process(_)) => {
                self.pending.push((at, change));
                return;
            }
            What::Carried(carried) => self.carry(at, carried),
            _ => {}
        }
        for (at, change) in std::mem::take(&mut self.pending) {
            let cause = matches!(entry.what, What::Carried(_)).then(|| self.last());
            self.change(at, change).cause = cause;
        }
        match &entry.what {
            What::Started { process } => {
                self.push(at, Lane::Process(*process), Kind::ProcessState, "begins".to_owned());
            }
            What::Died { process } => {
                self.observed.retain(|(receiver, _), _| receiver != process);
                self.listing.retain(|(receiver, _)| receiver != process);
                self.push(at, Lane::Process(*process), Kind::ProcessState, "dies".to_owned());
            }
            What::Stepped { process, event, step, .. } => self.step(at, *process, event, step),
            What::Changed(change) => {
                self.change(at, change);
            }
            What::Carried(_) => {}
        }
    }

    fn carry(&mut self, at: u64, carried: &Carried) {
        let object = words::body(&carried.action).map(|body| self.place(&body));
        let item = self.items.len();
        let asked = self.asked.get_mut(&(carried.process, carried.id.0));
        let cause = asked.map(|asked| std::mem::replace(&mut asked.item, item));
        let pushed = self.push(at, Lane::Server, Kind::Request, words::carried(carried));
        pushed.object = object;
        pushed.cause = cause;
    }

    fn change(&mut self, at: u64, change: &Change) -> &mut Item {
        self.conditions.absorb(at, change);
        let before = change.old.as_ref().map(|old| self.place(old));
        let object = change.new.as_ref().map(|new| self.place(new));
        let lane = match change.by {
            Author::Process(_) => Lane::Server,
            Author::Client(name) => Lane::Actor(name),
            Author::ControlPlane => Lane::ControlPlane,
        };
        if let Some(new) = &change.new {
            let version = metadata(new, "resourceVersion").to_owned();
            self.changes.insert((change.object.clone(), version), self.items.len());
        }
        let item = self.push(at, lane, Kind::Change, words::change(change));
        // A removed object is shown in its last state.
        item.object = object.or(before);
        item.before = before;
        item
    }

    pub(super) fn step(&mut self, at: u64, process: usize, event: &Event, step: &Step) {
        let routine = self.routine(process, event, step);
        self.event(at, process, event).routine = routine;
        for request in &step.requests {
            let words = words::action(&request.action);
            let object = words::body(&request.action).map(|body| self.place(&body));
            self.push(at, Lane::Process(process), Kind::Request, format!("asks for {words}")).object = object;
            let is_watch = matches!(request.action, Action::Watch(WatchCommand::Start { .. }));
            let asked = Asked { words, item: self.last(), is_watch };
            self.asked.insert((process, request.id.0), asked);
        }
        for note in &step.notes {
            self.push(at, Lane::Process(process), Kind::Note, words::note(note));
        }
    }

    fn event(&mut self, at: u64, process: usize, event: &Event) -> &mut Item {
        let lane = Lane::Process(process);
        match event {
            Event::Finished { id, outcome } => {
                let asked = self.asked.remove(&(process, id.0));
                let object = match outcome {
                    Ok(Success::Object(object)) => Some(self.place(object)),
                    _ => None,
                };
                let text = asked
                    .as_ref()
                    .map_or_else(|| words::event(event), |asked| words::answer(&asked.words, outcome));
                let item = self.push(at, lane, Kind::Answer, text);
                item.object = object;
                item.cause = asked.map(|asked| asked.item);
                item
            }
            Event::Applied { kind, object } | Event::Deleted { kind, object } => {
                let name = reference(kind, object);
                let place = self.place(object);
                let before = match event {
                    Event::Deleted { .. } => self.observed.remove(&(process, name.clone())),
                    _ => self.observed.insert((process, name.clone()), place),
                };
                let version = metadata(object, "resourceVersion").to_owned();
                let cause = self.changes.get(&(name, version)).copied();
                let item = self.push(at, lane, Kind::Event, words::event(event));
                item.object = Some(place);
                item.before = before;
                item.cause = cause;
                item
            }
            _ => self.push(at, lane, Kind::Event, words::event(event)),
        }
    }

    /// Returns the label of a routine event, which has no consequences.
    fn routine(&mut self, process: usize, event: &Event, step: &Step) -> Option<String> {
        let name = match event {
            Event::TimerFired => Some("wakes up".to_owned()),
            Event::ListStarted { kind } => {
                self.listing.insert((process, Arc::clone(kind)));
                Some(words::event(event))
            }
            Event::ListCompleted { kind } => {
                self.listing.remove(&(process, Arc::clone(kind)));
                Some(words::event(event))
            }
            Event::Applied { kind, object } if self.listing.contains(&(process, Arc::clone(kind))) => {
                let last = self.observed.get(&(process, reference(kind, object)));
                let known = last.is_some_and(|last| self.objects[*last] == *object);
                (known || is_of_the_system(object)).then(|| format!("sees {kind}"))
            }
            Event::Finished { id, .. } => {
                let asked = self.asked.get(&(process, id.0));
                asked.filter(|asked| asked.is_watch).map(|asked| asked.words.clone())
            }
            _ => None,
        };
        name.filter(|_| step.requests.is_empty() && step.notes.is_empty())
    }

    pub(super) fn finish(mut self, violation: Option<&Violation>, simulated: Duration) -> Timeline {
        for (at, change) in std::mem::take(&mut self.pending) {
            self.change(at, change);
        }
        if let Some(violation) = violation {
            let cause = self.items.len().checked_sub(1);
            let text = format!("{}: {}", violation.invariant, violation.seen);
            self.push(millis(violation.at), Lane::Faults, Kind::Violation, text).cause = cause;
        }
        let lanes: BTreeSet<Lane> = self.items.iter().map(|(lane, _)| *lane).collect();
        let lanes: Vec<Lane> = lanes.into_iter().collect();
        let number = |lane| lanes.binary_search(&lane).unwrap_or(0);
        let items = self.items.into_iter().map(|(lane, item)| Item { lane: number(lane), ..item }).collect();
        let end = millis(simulated);
        Timeline {
            plan: self.plan.clone(),
            faults: self.plan.faults.iter().map(ToString::to_string).collect(),
            replay: None,
            violation: violation.cloned(),
            comparison: None,
            end,
            lanes,
            items,
            objects: self.objects,
            conditions: self.conditions.finish(end),
        }
    }
}

/// Returns whether the object belongs to the defaults of every cluster.
fn is_of_the_system(object: &Value) -> bool {
    let belongs = |name: &str| name == "default" || name.starts_with("kube-");
    belongs(metadata(object, "name")) || belongs(metadata(object, "namespace"))
}

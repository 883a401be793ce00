//! Mistakes of a process that has observed for long before it becomes the leader.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_sentinel::loader;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::common::{Extra, HOST};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "ignores_changes_as_a_standby",
        sentence: "A standby has the objects of its first lists only when it takes over.",
        controller: HOST,
        plant: plant::<IgnoresChanges>,
        garble: None,
    },
    Bug {
        name: "takes_over_with_its_first_status",
        sentence: "A standby that becomes the leader writes the status that it saw at its own start.",
        controller: lockstep_crds::sentinel::CONTROLLER,
        plant: plant::<FirstStatus>,
        garble: None,
    },
];

#[derive(Default)]
struct IgnoresChanges {
    leads: bool,
    listed: BTreeSet<Arc<Kind>>,
}

impl Flaw for IgnoresChanges {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::LeadershipChanged { leading } => self.leads = *leading,
            Event::ListCompleted { kind } => drop(self.listed.insert(Arc::clone(kind))),
            Event::Applied { kind, .. } | Event::Deleted { kind, .. }
                if !self.leads && self.listed.contains(kind) =>
            {
                return None;
            }
            _ => {}
        }
        Some(event)
    }
}

#[derive(Default)]
struct FirstStatus {
    /// The configuration and its first status.
    first: Option<(ObjectRef, Value)>,
    leads: bool,
    takes_over: bool,
    extra: Extra,
}

impl Flaw for FirstStatus {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::LeadershipChanged { leading } => {
                self.takes_over = *leading && !self.leads && self.first.is_some();
                self.leads = *leading;
            }
            Event::Applied { kind, object } if *kind == loader::kind() && !self.leads => {
                let seen = || (reference(&loader::kind(), object), object["status"].clone());
                self.first.get_or_insert_with(seen);
            }
            Event::Finished { id, .. } if self.extra.has_asked(*id) => return None,
            _ => {}
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if std::mem::take(&mut self.takes_over)
            && let Some((target, status)) = &self.first
        {
            let (target, patch) = (target.clone(), Arc::new(json!({ "status": status })));
            let action =
                Action::Kube(KubeRequest::Patch { target, subresource: Some(Subresource::Status), patch });
            self.extra.ask(step, action);
        }
    }
}

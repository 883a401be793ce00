//! Mistakes with the syncs of Argo CD.

use std::sync::Arc;

use lockstep_dpuservice::names::SERVICE_NAME;
use lockstep_engine::action::{Action, KubeRequest, Outcome, Request, Subresource, Success};
use lockstep_engine::machine::{Event, Note, Step};
use lockstep_engine::object::{ObjectRef, label};
use lockstep_sim::bugs::Flaw;
use serde_json::{Value, json};

use super::super::common::{Known, change};

#[derive(Default)]
pub(super) struct GivesSyncsUp;

impl Flaw for GivesSyncsUp {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "Application", |manifest| {
            manifest["spec"]["syncPolicy"].as_object_mut().map(|policy| policy.remove("retry"));
        });
        None
    }
}

#[derive(Default)]
pub(super) struct NamesNoHook;

impl Flaw for NamesNoHook {
    fn event(&mut self, event: Event) -> Option<Event> {
        let Event::Applied { kind, object } = event else { return Some(event) };
        let mut object = Value::clone(&object);
        if kind.kind == "Application"
            && let Some(result) = object.pointer_mut("/status/operationState/syncResult")
        {
            result.as_object_mut().map(|result| result.remove("resources"));
        }
        Some(Event::Applied { kind, object: Arc::new(object) })
    }
}

#[derive(Default)]
pub(super) struct EndsEverySync {
    known: Known,
    seen: Option<ObjectRef>,
}

impl Flaw for EndsEverySync {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Some((target, application)) = self.known.absorb(&event, "Application")
            && application["status"]["operationState"]["phase"] == "Running"
            && label(&application, SERVICE_NAME).is_some()
        {
            self.seen = Some(target);
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if let Some(target) = self.seen.take() {
            let patch = Arc::new(json!({ "status": { "operationState": { "phase": "Terminating" } } }));
            self.known.extra.ask(step, Action::Kube(KubeRequest::Patch { target, subresource: None, patch }));
        }
    }
}

#[derive(Default)]
pub(super) struct EndsSyncsSilently;

impl Flaw for EndsSyncsSilently {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        match &request.action {
            Action::Kube(KubeRequest::Create { target, manifest })
                if target.kind.kind == "Event" && manifest["reason"] == "SyncTerminated" =>
            {
                Some(Ok(Success::Object(Arc::clone(manifest))))
            }
            _ => None,
        }
    }

    fn step(&mut self, step: &mut Step) {
        let is_it =
            |note: &Note| matches!(note, Note::EventAnnounced { reason, .. } if reason == "SyncTerminated");
        step.notes.retain(|note| !is_it(note));
    }
}

#[derive(Default)]
pub(super) struct FollowsLooks {
    known: Known,
    looked: Option<Value>,
}

impl Flaw for FollowsLooks {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Some((_, application)) = self.known.absorb(&event, "Application") {
            self.looked = Some(application["status"]["reconciledAt"].clone());
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        let Some(looked) = self.looked.take() else { return };
        let services = self.known.objects.keys().filter(|target| target.kind.kind == "DPUService");
        for target in services {
            let subresource = Some(Subresource::Status);
            let patch = Arc::new(json!({ "status": { "reconciledAt": { "x": looked } } }));
            self.known
                .extra
                .ask(step, Action::Kube(KubeRequest::Patch { target: target.clone(), subresource, patch }));
        }
    }
}

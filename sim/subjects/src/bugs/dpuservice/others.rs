//! Mistakes about what other clients do with objects of the controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_dpuservice::names::{self, CLUSTER, SERVER, SERVICE, SERVICE_NAME};
use lockstep_engine::action::{Outcome, Request, Success};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{Name, annotation, is_deleting, label};
use lockstep_sim::bugs::Flaw;
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::super::common::{Known, decoded, is};

/// An answer that shows an Application as another client's is replaced by the state that the watch has shown.
#[derive(Default)]
pub(super) struct KeepsReleased(Known);

impl Flaw for KeepsReleased {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.0.absorb(&event, "");
        let is_released = |object: &Value| {
            object["kind"] == "Application"
                && annotation(object, SERVICE).is_none()
                && label(object, SERVICE_NAME).is_none()
        };
        Some(match event {
            Event::Finished { id, outcome: Ok(Success::Object(object)) } if is_released(&object) => {
                let known = self.0.objects.get(&reference(&names::application(), &object)).cloned();
                Event::Finished { id, outcome: Ok(Success::Object(known.unwrap_or(object))) }
            }
            event => event,
        })
    }
}

/// Without a conflict, the Secret that is kept names the server of the kubeconfig before another one is removed.
#[derive(Default)]
pub(super) struct KeepsSecretsInConflicts {
    known: Known,
    kubeconfigs: BTreeMap<String, String>,
}

impl Flaw for KeepsSecretsInConflicts {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.known.absorb(&event, "Secret");
        if let Event::Finished { outcome: Ok(Success::Object(object)), .. } = &event
            && let Some(kubeconfig) = object["data"]["super-admin.conf"].as_str()
        {
            self.kubeconfigs.insert(Name::of(object).to_string(), decoded(kubeconfig));
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let target = request.action.target().filter(|_| is(&request.action, "delete", "Secret"))?;
        let secret = self.known.objects.get(target)?;
        let cluster = annotation(secret, CLUSTER)?;
        let (namespace, name) = cluster.split_once('/')?;
        let cluster_ref = Name::new(namespace, name).object(&names::dpu_cluster());
        let is_leaving = self.known.objects.get(&cluster_ref).is_none_or(|cluster| is_deleting(cluster));
        let mut services = self.known.objects.iter().filter(|(target, _)| target.kind.kind == "DPUService");
        // Then all Secrets of the cluster are removed.
        if is_leaving || services.all(|(_, service)| is_deleting(service)) {
            return None;
        }
        let kubeconfig = self.kubeconfigs.get(&format!("{cluster}-kubeconfig"))?;
        let others = self.known.objects.iter().filter(|(other, _)| *other != target);
        let mut others = others.filter(|(_, secret)| annotation(secret, CLUSTER) == Some(cluster)).peekable();
        let names_its_server = |secret: &Value| {
            annotation(secret, SERVER)
                .is_some_and(|server| kubeconfig.contains(&format!("server: {server}\n")))
        };
        let is_conflict = others.peek().is_some() && !others.any(|(_, secret)| names_its_server(secret));
        // The cache ignores this answer, because the version is not newer.
        let mut kept = Value::clone(secret);
        kept["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        is_conflict.then(|| Ok(Success::Object(Arc::new(kept))))
    }
}

//! Mistakes in the values that resources have in a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_engine::action::{Outcome, Request, Success};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{annotation, metadata};
use lockstep_namespaceclass::names::{CLASS_LABEL, PROBLEM_ANNOTATION, VALUES_ANNOTATION};
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::Value;

use super::common::{HOST, change};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "ignores_a_changed_label",
        sentence: "The labels and annotations that variables read are those that the process received first.",
        controller: HOST,
        plant: plant::<FirstMetadata>,
        garble: None,
    },
    Bug {
        name: "values_of_another_namespace",
        sentence: "Resources with variables are applied to all namespaces with the values of the first one.",
        controller: HOST,
        plant: plant::<FirstValues>,
        garble: None,
    },
];

/// Labels and annotations of namespaces, by uid.
#[derive(Default)]
struct FirstMetadata(BTreeMap<String, [Value; 2]>);

const FIELDS: [(&str, &str); 2] = [("labels", CLASS_LABEL), ("annotations", PROBLEM_ANNOTATION)];

impl Flaw for FirstMetadata {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        let (is_shown, object) = match &mut event {
            Event::Applied { kind, object } => (kind.kind == "Namespace", object),
            Event::Finished { outcome: Ok(Success::Object(object)), .. } => (false, object),
            _ => return Some(event),
        };
        let uid = metadata(object, "uid").to_owned();
        if let Some(first) = self.0.get(&uid) {
            let mut changed = Value::clone(object);
            for ((field, kept), first) in FIELDS.into_iter().zip(first) {
                let own = changed["metadata"][field][kept].take();
                changed["metadata"][field] = first.clone();
                if let (Some(fields), false) = (changed["metadata"][field].as_object_mut(), own.is_null()) {
                    fields.insert(kept.to_owned(), own);
                }
            }
            *object = Arc::new(changed);
        } else if is_shown {
            let first = FIELDS.map(|(field, kept)| {
                let mut fields = object["metadata"][field].as_object().cloned().unwrap_or_default();
                fields.remove(kept);
                Value::Object(fields)
            });
            self.0.insert(uid, first);
        }
        Some(event)
    }
}

/// What was applied first, by the name of the object.
#[derive(Default)]
struct FirstValues(BTreeMap<String, Value>);

impl Flaw for FirstValues {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "ConfigMap", |manifest| {
            if annotation(manifest, VALUES_ANNOTATION).is_some() {
                let name = metadata(manifest, "name").to_owned();
                let first = self.0.entry(name).or_insert_with(|| manifest["data"].clone());
                manifest["data"] = first.clone();
            }
        });
        None
    }
}

//! A class is reported as missing only if it was.

use std::time::Duration;

use lockstep_engine::machine::Note;
use lockstep_engine::object::{ObjectRef, label};
use lockstep_namespaceclass::names::{self, CLASS_LABEL, reason};
use lockstep_sim::cluster::What;
use lockstep_sim::invariant::Moment;

use crate::passes::first;

pub(super) fn a_missing_class_was_missing(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { step, .. } = &moment.entry.what else { return Ok(()) };
    first(step.notes.iter().filter_map(|note| match note {
        Note::EventAnnounced { object, reason, note, .. } if reason == reason::CLASS_NOT_FOUND => {
            let (_, class) = note.split_once("NamespaceClass ")?;
            let (class, _) = class.split_once(';')?;
            let wanted = first_wanted(moment, &object.name, class)?;
            has_existed_since(moment, class, wanted)
                .then(|| format!("{note}, but {class} has existed since the label was set"))
        }
        _ => None,
    }))
}

/// Returns when the label of a namespace named a class for the first time.
fn first_wanted(moment: &Moment<'_>, namespace: &str, class: &str) -> Option<Duration> {
    let namespace = ObjectRef::cluster(&names::namespace(), namespace);
    let mut versions = moment.history.versions(&namespace).iter();
    let names_it = |object| label(object, CLASS_LABEL) == Some(class);
    versions.find(|version| version.object.as_deref().is_some_and(names_it)).map(|version| version.at)
}

fn has_existed_since(moment: &Moment<'_>, class: &str, since: Duration) -> bool {
    let versions = moment.history.versions_since(&ObjectRef::cluster(&names::class(), class), since);
    let is_covered = versions.first().is_some_and(|version| version.at <= since);
    is_covered && versions.iter().all(|version| version.object.is_some())
}

//! The writes in a journal, with their effects.

use std::collections::BTreeMap;

use lockstep_engine::action::{Action, ActionId, Failure};
use lockstep_engine::machine::Event;

use crate::cluster::{Author, Carried, Change, Entry, What};

/// One write to the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The author.
    pub by: Author,
    /// The request, if a process made it.
    pub action: Option<Action>,
    /// What it changed. A request can change nothing.
    pub changes: Vec<Change>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Returns the writes of processes, and the changes of all other authors, in order. Kubernetes Events are left out.
pub fn writes(journal: &[Entry]) -> Vec<Write> {
    let failures = failures(journal);
    let (mut writes, mut changes) = (Vec::new(), Vec::new());
    for entry in journal {
        match &entry.what {
            What::Changed(change) if change.object.kind.kind == "Event" => {}
            // The journal has the changes of a request before the request.
            What::Changed(change) if matches!(change.by, Author::Process(_)) => changes.push(change.clone()),
            What::Changed(change) => {
                let changes = vec![change.clone()];
                writes.push(Write { by: change.by, action: None, changes, failure: None });
            }
            What::Carried(carried) if is_counted(carried) => {
                let failure = failures.get(&(carried.process, carried.id)).map(|failure| (*failure).clone());
                let (by, action) = (Author::Process(carried.process), Some(carried.action.clone()));
                writes.push(Write { by, action, changes: std::mem::take(&mut changes), failure });
            }
            What::Carried(_) | What::Started { .. } | What::Died { .. } | What::Stepped { .. } => {}
        }
    }
    writes
}

fn is_counted(carried: &Carried) -> bool {
    carried.action.is_write() && carried.action.target().is_some_and(|target| target.kind.kind != "Event")
}

fn failures(journal: &[Entry]) -> BTreeMap<(usize, ActionId), &Failure> {
    let failed = journal.iter().filter_map(|entry| match &entry.what {
        What::Stepped { process, event: Event::Finished { id, outcome: Err(failure) }, .. } => {
            Some(((*process, *id), failure))
        }
        _ => None,
    });
    failed.collect()
}

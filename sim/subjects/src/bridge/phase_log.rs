//! Checks that each change of a phase is logged, also if the answer to its write was lost.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_bridge::names;
use lockstep_engine::machine::{Note, ReconcileResult};
use lockstep_engine::object::ObjectRef;
use lockstep_sim::cluster::{Author, Change, Entry, What};
use lockstep_sim::history::MINUTE;
use lockstep_sim::subject::{Checker, Testimony};
use serde_json::Value;

/// The phases that processes have written, and not logged so far.
#[derive(Clone, Default)]
pub(super) struct PhaseLog {
    silent: BTreeMap<ObjectRef, (usize, String)>,
    /// When processes crashed. Their last requests may arrive after their restart.
    crashed: BTreeMap<usize, Duration>,
}

impl Checker for PhaseLog {
    fn fork(&self) -> Box<dyn Checker> {
        Box::new(self.clone())
    }

    fn see(&mut self, entry: &Entry) -> Result<(), Testimony> {
        match &entry.what {
            What::Changed(Change { by, object, old, new, .. }) if object.kind == names::bridge() => {
                let (before, after) = (phase(old.as_deref()), phase(new.as_deref()));
                match (by, after) {
                    (Author::Process(process), Some(after))
                        if before != Some(after) && !self.has_crashed(*process, entry.at) =>
                    {
                        self.silent.insert(object.clone(), (*process, after.to_owned()));
                    }
                    // Its process may not see a phase that was changed again.
                    _ if before != after => drop(self.silent.remove(object)),
                    _ => {}
                }
                Ok(())
            }
            What::Died { process } => {
                self.silent.retain(|_, (writer, _)| writer != process);
                self.crashed.insert(*process, entry.at);
                Ok(())
            }
            What::Stepped { process, step, .. } => self.stepped(*process, &step.notes),
            _ => Ok(()),
        }
    }
}

impl PhaseLog {
    fn has_crashed(&self, process: usize, at: Duration) -> bool {
        self.crashed.get(&process).is_some_and(|crashed| *crashed + MINUTE > at)
    }

    fn stepped(&mut self, process: usize, notes: &[Note]) -> Result<(), Testimony> {
        for note in notes {
            let Note::Log { message, .. } = note else { continue };
            self.silent.retain(|object, (writer, phase)| {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                let line = format!("DPFHCPBridge {namespace}/{} is {phase}: ", object.name);
                *writer != process || !message.starts_with(&line)
            });
        }
        for note in notes {
            let Note::Reconciled { object, result, .. } = note else { continue };
            // A failed pass is repeated, and another leader continues an abandoned one.
            let is_successful =
                matches!(result, ReconcileResult::Converged | ReconcileResult::Requeued { .. });
            let silent = self.silent.get(object).filter(|(writer, _)| is_successful && *writer == process);
            if let Some((_, phase)) = silent {
                return Err(Testimony {
                    invariant: "phases_are_logged",
                    sentence: "A pass that succeeds has logged each change of the phase that its process has written.",
                    seen: format!("{object} became {phase}, and that was not logged"),
                });
            }
        }
        Ok(())
    }
}

fn phase(bridge: Option<&Value>) -> Option<&str> {
    bridge?["status"]["phase"].as_str()
}

//! Hides the values of Secrets, as recordings do.

use std::sync::Arc;
use std::time::Duration;

use lockstep_crds::CrdSet;
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::operator::Config;
use lockstep_engine::recording::learn::SecretTracker;
use lockstep_sim::dry_run::{Forecast, Snapshot};
use serde_json::Value;

use super::super::process;

/// Replaces all values of Secrets that the snapshot and the forecast contain.
pub(super) struct Redaction(Vec<SecretTracker>);

impl Redaction {
    /// Returns a redaction for the controllers. Each knows in which form it uses the values of Secrets elsewhere.
    pub(super) fn new(sets: &[CrdSet]) -> anyhow::Result<Self> {
        let mut key = [0; 32];
        for bytes in key.chunks_mut(8) {
            bytes.copy_from_slice(&process::seed().to_ne_bytes());
        }
        let config =
            Config { concurrency: 1, resync: Duration::from_mins(10), instance: String::new(), seed: 0 };
        let tracker = |set: &CrdSet| {
            let machine = process::controller(set.controller, &config)?;
            Ok(SecretTracker::new(key, machine.traits()))
        };
        sets.iter().map(tracker).collect::<anyhow::Result<_>>().map(Self)
    }

    pub(super) fn learn(&mut self, snapshot: &Snapshot, forecast: &Forecast) {
        for (kind, object) in snapshot.objects() {
            self.learn_object(kind, &Arc::new(object.clone()));
        }
        let writes = forecast.pending.iter().chain(&forecast.writes);
        for change in writes.flat_map(|write| &write.changes) {
            for object in change.old.iter().chain(&change.new) {
                self.learn_object(&change.object.kind, object);
            }
        }
    }

    fn learn_object(&mut self, kind: &Arc<Kind>, object: &Arc<Value>) {
        let event = Event::Applied { kind: Arc::clone(kind), object: Arc::clone(object) };
        for tracker in &mut self.0 {
            tracker.learn(&event);
        }
    }

    /// Returns a value without secrets.
    pub(super) fn hidden(&self, mut value: Value) -> Value {
        for tracker in &self.0 {
            tracker.redactor().redact(&mut value);
        }
        value
    }

    /// Returns a message without secrets.
    pub(super) fn hidden_text(&self, text: &str) -> String {
        match self.hidden(Value::String(text.to_owned())) {
            Value::String(text) => text,
            _ => String::new(),
        }
    }
}

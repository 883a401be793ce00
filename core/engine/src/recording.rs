//! Recordings: the input and output of a machine's run, so that the run can be replayed.
//!
//! A recording is lines of JSON:
//!
//! | line | content |
//! | --- | --- |
//! | `{"header": …}` | first: the format, the program, and the origin of the machine |
//! | `{"checkpoint": …}` | the machine's state before the next step; written if the steps alone do not lead to this state |
//! | `{"step": …}` | one step: its number, the time, the event, and the machine's output |
//!
//! A long run is written in segments, each a recording of its own: all but the first begin with a checkpoint.
//!
//! [`read`] reads these lines, [`Replay`] runs them, and [`what_if`] runs them with an [`edit`]. [`learn`] and [`redact`] replace
//! the values of Secrets, in such a way that the machine still makes the same decisions.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::{Event, Machine, Step};
use crate::time::Now;

pub mod edit;
pub mod learn;
pub mod read;
pub mod redact;
mod secrets;
mod stand_in;
pub mod what_if;

/// The version of the format that this program writes and reads.
pub const FORMAT: u64 = 3;

/// A machine whose run can be recorded. Its whole state can be stored, and its traits allow a recording to hide secrets and
/// still lead to the same decisions.
pub trait Recordable: Machine {
    /// Returns a copy of the current state, which can be converted to JSON later and on another thread.
    fn checkpoint(&self) -> Checkpoint;

    /// Returns the properties that do not depend on the state.
    fn traits(&self) -> Traits;
}

/// Converts a copy of a machine's state to JSON.
pub type Checkpoint = Box<dyn FnOnce() -> serde_json::Result<Value> + Send>;

/// The properties of a machine that a recording needs.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// The mark that it writes into objects, if it writes one.
    pub mark: Option<Mark>,
    /// Every word that it can write itself. A word in this text is not a secret. The build script of the machine's crate collects
    /// them, with `lockstep-words`.
    pub words: &'static str,
    /// Returns its own kinds, whose field names are not secret either.
    pub kinds: fn() -> Vec<CustomResourceDefinition>,
    /// The keys of Secrets whose values the machine parses. It passes other values on unparsed.
    pub forms: &'static [Form],
}

impl Traits {
    /// The traits of a machine that reads no Secrets and writes no digests.
    pub const NONE: Self = Self { mark: None, words: "", kinds: Vec::new, forms: &[] };
}

/// The format of the value under a key of a Secret.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The key.
    pub key: &'static str,
    /// Returns a value that leads to the same decisions, with placeholders for the secret strings in it.
    pub stand_in: fn(&[u8], Hide<'_>) -> String,
}

/// Returns the placeholder for a piece of a secret.
pub type Hide<'a> = &'a dyn Fn(&[u8]) -> String;

/// An annotation whose value the machine computes from contents. Once a content has placeholders instead of secrets, the same
/// computation leads to another mark.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The annotation. In a checkpoint, the same name is the key of every mark outside of objects.
    pub annotation: &'static str,
    /// Returns all marks of an object, in an order that does not depend on texts within it.
    pub of: fn(&Value) -> Vec<String>,
}

/// The origin of a recording's machine: a new one from its configuration, or one in the middle of its run.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// [`Header::config`].
    Config(&'a Value),
    /// [`Line::Checkpoint`].
    Checkpoint(&'a Value),
}

/// The first line: what was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format, [`FORMAT`].
    pub format: u64,
    /// The version of the program that wrote it.
    pub program: String,
    /// The machine's name.
    pub machine: String,
    /// The machine's configuration, including its seed and the name of its instance.
    pub config: Value,
    /// Which segment of the run this is, from zero.
    pub segment: u64,
}

impl Header {
    /// Returns the line in its written form, with the line feed that ends it.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        written(&BTreeMap::from([("header", self)]))
    }
}

/// Every other line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The machine's state before the next step.
    Checkpoint(Value),
    /// A step.
    Step(RecordedStep),
}

impl Line {
    /// Returns the line in its written form, with the line feed that ends it.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        written(self)
    }
}

fn written(line: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

/// One recorded step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// The number of the step in the run, from one.
    pub number: u64,
    /// The time.
    pub now: Now,
    /// The input.
    pub event: Event,
    /// The output.
    pub gave: Step,
}

/// Replays a recording, line by line.
pub struct Replay<M> {
    make: M,
    machine: Box<dyn Machine>,
}

/// A replayed step.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedStep {
    /// The recorded step.
    pub taken: RecordedStep,
    /// The machine's output in this replay, if it differs.
    pub differs: Option<Step>,
}

impl<E, M: FnMut(Origin<'_>) -> Result<Box<dyn Machine>, E>> Replay<M> {
    /// Returns a replay by machines that `make` creates.
    pub fn new(header: &Header, mut make: M) -> Result<Self, E> {
        let machine = make(Origin::Config(&header.config))?;
        Ok(Self { make, machine })
    }

    /// Processes the next line. A step is replayed; a checkpoint replaces the machine.
    pub fn take(&mut self, line: Line) -> Result<Option<ReplayedStep>, E> {
        let taken = match line {
            Line::Checkpoint(state) => {
                self.machine = (self.make)(Origin::Checkpoint(&state))?;
                return Ok(None);
            }
            Line::Step(taken) => taken,
        };
        let given = self.machine.step(taken.event.clone(), taken.now);
        let differs = (!is_as_recorded(&given, &taken.gave)).then_some(given);
        Ok(Some(ReplayedStep { taken, differs }))
    }

    /// Processes lines up to the first step whose output differs, and returns that step.
    pub fn run(&mut self, lines: impl IntoIterator<Item = Line>) -> Result<Option<ReplayedStep>, E> {
        for line in lines {
            if let Some(again) = self.take(line)?
                && again.differs.is_some()
            {
                return Ok(Some(again));
            }
        }
        Ok(None)
    }
}

/// Compares the serialized forms: what is never written can't be compared.
fn is_as_recorded(given: &Step, recorded: &Step) -> bool {
    given == recorded || serde_json::to_value(given).ok() == serde_json::to_value(recorded).ok()
}

impl<M> fmt::Debug for Replay<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("machine", &self.machine.name()).finish_non_exhaustive()
    }
}

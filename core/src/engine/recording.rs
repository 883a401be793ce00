//! A run of a machine, written down so that it can be run again: what went in, and what came out.
//!
//! A recording is lines of JSON:
//!
//! | line | holds |
//! | --- | --- |
//! | `{"header": …}` | first: the format, the program, and what the machine is made from |
//! | `{"checkpoint": …}` | the machine's state before the next step; stands where the steps alone do not lead to it |
//! | `{"step": …}` | one step: its number, the time, the event, and what the machine gave out |
//!
//! A long run is written in segments, each a recording of its own: all but the first begin with a checkpoint.
//!
//! [`read`] reads these lines, [`Replay`] runs them. [`learn`] and [`redact`] keep the values of Secrets out of them,
//! in such a way that the machine still takes the same decisions.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::{Event, Machine, Step};
use crate::time::Now;

pub mod learn;
pub mod read;
pub mod redact;
mod secrets;
mod stand_in;

/// The version of the format that is written and read here.
pub const FORMAT: u64 = 2;

/// A machine whose run can be recorded: its whole state can be stored, and it tells what a recording must know to keep
/// secrets out and yet lead to the same decisions.
pub trait Recordable: Machine {
    /// A copy of the state as it is now, to be turned into JSON later and elsewhere.
    fn checkpoint(&self) -> Checkpoint;

    /// What does not depend on the state.
    fn traits(&self) -> Traits;
}

/// Turns a copy of a machine's state into JSON.
pub type Checkpoint = Box<dyn FnOnce() -> serde_json::Result<Value> + Send>;

/// What a recording must know of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// The mark that it writes into objects, if it writes one.
    pub mark: Option<Mark>,
    /// Texts that hold every word of its own messages. A word that stands in them is no secret.
    pub words: &'static [&'static str],
    /// The keys of Secrets whose values it reads, rather than handing them on unread.
    pub forms: &'static [Form],
}

/// What the value under a key of a Secret looks like.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The key.
    pub key: &'static str,
    /// A value that leads to the same decisions, made from stand-ins for whatever is secret in the value.
    pub stand_in: fn(&[u8], Hide<'_>) -> String,
}

/// What stands for a part of a secret.
pub type Hide<'a> = &'a dyn Fn(&[u8]) -> String;

/// An annotation whose value the machine computes from contents: once a content holds stand-ins instead of secrets, the
/// same computation leads to another mark.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The annotation. In a checkpoint, the same name is the key of every mark outside of objects.
    pub annotation: &'static str,
    /// All marks that follow from an object, in an order that does not depend on texts within it.
    pub of: fn(&Value) -> Vec<String>,
}

/// What the machine of a recording is made from: a new one from its configuration, or one in the midst of its run.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// [`Header::config`].
    Config(&'a Value),
    /// [`Line::Checkpoint`].
    Checkpoint(&'a Value),
}

/// The first line: what a recording is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format, [`FORMAT`].
    pub format: u64,
    /// The version of the program that wrote it.
    pub program: String,
    /// The machine's name.
    pub machine: String,
    /// The machine's configuration, its seed and the name of its instance among it.
    pub config: Value,
    /// Which segment of the run this is, from zero.
    pub segment: u64,
}

impl Header {
    /// The line as it is written, with the line feed that ends it.
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
    /// The line as it is written, with the line feed that ends it.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        written(self)
    }
}

fn written(line: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

/// One step that was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// Counts the steps of the run, from one.
    pub number: u64,
    /// When.
    pub now: Now,
    /// What went in.
    pub event: Event,
    /// What came out.
    pub gave: Step,
}

/// Runs a recording again, line by line.
pub struct Replay<M> {
    make: M,
    machine: Box<dyn Machine>,
}

/// A step that was taken again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedStep {
    /// As it was recorded.
    pub taken: RecordedStep,
    /// What the machine gave out this time, if that is anything else.
    pub differs: Option<Step>,
}

impl<E, M: FnMut(Origin<'_>) -> Result<Box<dyn Machine>, E>> Replay<M> {
    /// A replay by machines that `make` makes.
    pub fn new(header: &Header, mut make: M) -> Result<Self, E> {
        let machine = make(Origin::Config(&header.config))?;
        Ok(Self { make, machine })
    }

    /// Takes the next line. A step is run again; a checkpoint replaces the machine.
    pub fn take(&mut self, line: Line) -> Result<Option<ReplayedStep>, E> {
        let taken = match line {
            Line::Checkpoint(state) => {
                self.machine = (self.make)(Origin::Checkpoint(&state))?;
                return Ok(None);
            }
            Line::Step(taken) => taken,
        };
        let given = self.machine.step(taken.event.clone(), taken.now);
        // As they are written: what is never written can't be compared.
        let is_same = given == taken.gave
            || serde_json::to_value(&given).ok() == serde_json::to_value(&taken.gave).ok();
        let differs = (!is_same).then_some(given);
        Ok(Some(ReplayedStep { taken, differs }))
    }

    /// Takes lines up to the first step that gives out anything else, and returns that step.
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

impl<M> fmt::Debug for Replay<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("machine", &self.machine.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

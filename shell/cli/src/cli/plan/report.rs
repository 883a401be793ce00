//! What `lockstep plan` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use lockstep_crds::CrdSet;
use lockstep_engine::action::{Action, ErrorKind, KubeRequest, Subresource};
use lockstep_engine::object::{ObjectRef, is_deleting};
use lockstep_engine::yaml;
use lockstep_sim::cluster::{Author, Change};
use lockstep_sim::dry_run::{Forecast, USER, Write as Planned};
use serde_json::Value;

use super::super::count::count;
use super::super::diff;
use super::redaction::Redaction;

/// The conditions that are False while a controller waits or something is wrong.
const SUMMARIES: [&str; 2] = ["Ready", "Valid"];

pub(super) struct Report<'a> {
    pub(super) sets: &'a [CrdSet],
    pub(super) forecast: &'a Forecast,
    pub(super) redaction: &'a Redaction,
    pub(super) with_diff: bool,
}

impl Report<'_> {
    /// Returns whether the planned changes, or what follows from them, change anything.
    pub(super) fn would_change(&self) -> bool {
        self.forecast.writes.iter().any(|write| visible(write).next().is_some())
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (own, following): (Vec<_>, Vec<_>) =
            self.forecast.writes.iter().partition(|write| write.by == USER);
        self.section(out, "Your change", &own)?;
        let pending: Vec<_> = self.forecast.pending.iter().collect();
        if pending.iter().any(|write| is_shown(write)) {
            self.section(out, "Already pending, also without your change", &pending)?;
        }
        self.section(out, "Then", &following)?;
        self.waiting(out)?;
        if !self.forecast.is_quiet {
            writeln!(out, "\nThe controllers still write after two hours; later writes are not shown.")?;
        }
        writeln!(out, "\n{}; nothing was written to the cluster", totals(&following))
    }

    /// Prints writes by namespace. The numbers show the order across namespaces.
    fn section(&self, out: &mut impl Write, title: &str, writes: &[&Planned]) -> io::Result<()> {
        let mut groups: BTreeMap<&str, Vec<(usize, &Planned)>> = BTreeMap::new();
        let shown = writes.iter().copied().filter(|write| is_shown(write));
        for (index, write) in shown.enumerate() {
            let namespace = object(write).and_then(|object| object.namespace.as_deref()).unwrap_or_default();
            groups.entry(namespace).or_default().push((index + 1, write));
        }
        if groups.is_empty() {
            return writeln!(out, "\n{title}: nothing changes");
        }
        for (namespace, writes) in groups {
            let place =
                if namespace.is_empty() { "cluster".to_owned() } else { format!("namespace {namespace}") };
            writeln!(out, "\n{title}, {place}:")?;
            for (number, write) in writes {
                self.entry(out, number, write)?;
            }
        }
        Ok(())
    }

    fn entry(&self, out: &mut impl Write, number: usize, write: &Planned) -> io::Result<()> {
        let by = match write.by {
            Author::Process(process) => self.sets.get(process).map_or("", |set| set.controller),
            Author::ControlPlane => "control plane",
            Author::Client(_) => "you",
        };
        if let (Some(failure), Some(object)) = (&write.failure, object(write)) {
            let why = self.redaction.hidden_text(&failure.message);
            let action = write.action.as_ref().map_or("", Action::name);
            return writeln!(out, "{number:>4}  refused {action}  {object}  ({by}): {why}");
        }
        for change in visible(write) {
            let verb = verb(write, change);
            writeln!(out, "{number:>4}  {verb:<13}  {}  ({by})", change.object)?;
            if self.with_diff && verb != "delete" {
                let [old, new] = [&change.old, &change.new].map(|state| self.text(state.as_deref()));
                for line in diff::unified(("now", &old), ("planned", &new)).lines().skip(2) {
                    writeln!(out, "        {line}")?;
                }
            }
        }
        Ok(())
    }

    /// Returns the compared form of an object; empty for none.
    fn text(&self, object: Option<&Value>) -> String {
        let Some(object) = object else { return String::new() };
        yaml::write(&self.redaction.hidden(compared(object))).unwrap_or_default()
    }

    /// Prints what the changed objects wait for.
    fn waiting(&self, out: &mut impl Write) -> io::Result<()> {
        let changes = self.forecast.writes.iter().flat_map(|write| &write.changes);
        let touched: BTreeSet<&ObjectRef> = changes.map(|change| &change.object).collect();
        let mut lines = Vec::new();
        for target in touched {
            let Some(object) = self.forecast.server.object(target) else { continue };
            lines.extend(self.unfinished(target, object));
        }
        if !lines.is_empty() {
            writeln!(out, "\nThis remains, until other systems or you act:")?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "      {line}"))
    }

    fn unfinished(&self, target: &ObjectRef, object: &Value) -> Vec<String> {
        let mut lines = Vec::new();
        if is_deleting(object) {
            let finalizers = object["metadata"]["finalizers"].as_array();
            let finalizers: Vec<_> = finalizers.into_iter().flatten().filter_map(Value::as_str).collect();
            lines
                .push(format!("{target} is being deleted; its finalizers remain: {}", finalizers.join(", ")));
        }
        let is_ours = |set: &CrdSet| set.crds.iter().any(|crd| crd.spec.group == target.kind.group);
        let conditions = object["status"]["conditions"].as_array().filter(|_| self.sets.iter().any(is_ours));
        for condition in conditions.into_iter().flatten() {
            let [kind, status, reason, message] = ["type", "status", "reason", "message"]
                .map(|field| condition[field].as_str().unwrap_or_default());
            if SUMMARIES.contains(&kind) && status != "True" {
                let message = self.redaction.hidden_text(message);
                lines.push(format!("{target}: {kind} is {status} ({reason}): {message}"));
            }
        }
        lines
    }
}

fn object(write: &Planned) -> Option<&ObjectRef> {
    write.changes.first().map(|change| &change.object).or_else(|| write.action.as_ref()?.target())
}

/// Returns an object without the fields that every write changes.
fn compared(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !["managedFields", "resourceVersion"].contains(&field.as_str()));
    }
    object
}

/// Returns the changes of a write, except those of field owners only.
fn visible(write: &Planned) -> impl Iterator<Item = &Change> {
    let differs = |change: &&Change| match (&change.old, &change.new) {
        (Some(old), Some(new)) => compared(old) != compared(new),
        _ => true,
    };
    write.changes.iter().filter(differs)
}

/// Returns whether a write is worth a line: it changes an object, or the API server refuses it for good. Controllers repeat
/// other failed writes.
fn is_shown(write: &Planned) -> bool {
    let refused = |class: ErrorKind| matches!(class, ErrorKind::Invalid | ErrorKind::Forbidden);
    visible(write).next().is_some() || write.failure.as_ref().is_some_and(|failure| refused(failure.class))
}

fn verb(write: &Planned, change: &Change) -> &'static str {
    let deleting = |state: &Option<Arc<Value>>| state.as_deref().is_none_or(is_deleting);
    match (&write.action, &change.old) {
        (_, None) => "create",
        (_, old) if deleting(&change.new) && !deleting(old) => "delete",
        _ if change.new.is_none() => "remove",
        (Some(Action::Kube(KubeRequest::Patch { subresource: Some(Subresource::Status), .. })), _) => {
            "update status"
        }
        _ => "update",
    }
}

fn totals(writes: &[&Planned]) -> String {
    let verbs: Vec<_> =
        writes.iter().flat_map(|write| visible(write).map(|change| verb(write, change))).collect();
    let number = |verb: &str| verbs.iter().filter(|other| **other == verb).count() as u64;
    let created = count(number("create"), "object");
    format!(
        "{created} created, {} updated, {} deleted, {} of statuses",
        number("update"),
        number("delete"),
        count(number("update status"), "update")
    )
}

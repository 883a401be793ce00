//! The hash of a run: two runs are the same if and only if their hashes are equal.

use std::io::Write as _;

use lockstep_engine::action::{Action, KubeRequest, Success, WatchCommand};
use lockstep_engine::machine::Event;
use lockstep_engine::object::metadata;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cluster::{Entry, What};

/// Hashes journal entries, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    hash: Sha256,
}

impl Trace {
    /// Adds a journal entry.
    pub(super) fn absorb(&mut self, entry: &Entry) {
        let hash = &mut self.hash;
        line(hash, format_args!("{} ", entry.at.as_micros()));
        match &entry.what {
            What::Started { process } => line(hash, format_args!("started {process}")),
            What::Died { process } => line(hash, format_args!("died {process}")),
            What::Stepped { process, now, event, step } => {
                line(hash, format_args!("stepped {process} {now:?} "));
                take_event(hash, event);
                for request in &step.requests {
                    line(hash, format_args!("asks {} ", request.id.0));
                    take_action(hash, &request.action);
                }
                line(hash, format_args!("notes {:?}", step.notes));
            }
            What::Carried(carried) => {
                let (process, id) = (carried.process, carried.id.0);
                line(hash, format_args!("carried {process} {id} {:?} {:?}", carried.fate, carried.failed));
            }
            What::Changed(change) => {
                line(hash, format_args!("changed {:?} {} ", change.by, change.object));
                take_object(hash, change.new.as_deref());
            }
        }
    }

    /// Returns the hash of all entries, in hexadecimal.
    pub(super) fn finish(self) -> String {
        hexadecimal(self.hash)
    }
}

/// Combines the hashes of many runs, in order.
pub fn combine<'a>(hashes: impl Iterator<Item = &'a str>) -> String {
    let mut all = Sha256::new();
    for hash in hashes {
        all.update(hash);
    }
    hexadecimal(all)
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        text
    })
}

fn line(hash: &mut Sha256, text: std::fmt::Arguments<'_>) {
    hash.write_fmt(text).expect("a hash takes everything");
}

fn take_event(hash: &mut Sha256, event: &Event) {
    match event {
        Event::Applied { kind, object } => {
            line(hash, format_args!("observed {kind} "));
            take_object(hash, Some(object));
        }
        Event::Deleted { kind, object } => {
            line(hash, format_args!("vanished {kind} "));
            take_object(hash, Some(object));
        }
        Event::Finished { id, outcome: Ok(Success::Object(object)) } => {
            line(hash, format_args!("finished {} ", id.0));
            take_object(hash, Some(object));
        }
        Event::Finished { id, outcome: Ok(Success::Document(document)) } => {
            let text = document.text();
            line(hash, format_args!("finished {} {} ", id.0, text.len()));
            hash.update(text.as_bytes());
        }
        other => line(hash, format_args!("{other:?} ")),
    }
}

fn take_action(hash: &mut Sha256, action: &Action) {
    line(hash, format_args!("{} ", action.name()));
    if let Some(target) = action.target() {
        line(hash, format_args!("{target} "));
    }
    match action {
        Action::Kube(
            KubeRequest::Apply { manifest, .. }
            | KubeRequest::Create { manifest, .. }
            | KubeRequest::CreateSecret { manifest, .. }
            | KubeRequest::Update { manifest, .. },
        ) => {
            whole(hash, manifest);
        }
        Action::Kube(KubeRequest::Patch { patch, .. }) => whole(hash, patch),
        Action::Kube(KubeRequest::Delete { uid, resource_version, .. }) => {
            line(hash, format_args!("{uid} {:?} ", resource_version.map(|version| version.to_string())));
        }
        Action::Watch(WatchCommand::Start { kind, scope })
        | Action::Kube(KubeRequest::List { kind, scope }) => {
            line(hash, format_args!("{kind} {scope:?} "));
        }
        Action::Watch(WatchCommand::Stop { kind }) => line(hash, format_args!("{kind} ")),
        Action::Kube(KubeRequest::Discover { api_version }) => line(hash, format_args!("{api_version} ")),
        Action::Kube(KubeRequest::Get { .. } | KubeRequest::GetLengths { .. }) => {}
        Action::Http(fetch) => line(hash, format_args!("{fetch:?} ")),
        Action::Registry(query) => line(hash, format_args!("{query:?} ")),
        Action::Broker(request) => line(hash, format_args!("{request:?} ")),
    }
}

/// Hashes the identity of an object. Within a run, the resource version identifies a state of a stored object.
fn take_object(hash: &mut Sha256, object: Option<&Value>) {
    let Some(object) = object else { return line(hash, format_args!("none ")) };
    for field in ["namespace", "name", "uid", "resourceVersion"] {
        line(hash, format_args!("{} ", metadata(object, field)));
    }
}

fn whole(hash: &mut Sha256, value: &Value) {
    serde_json::to_writer(hash, value).expect("a hash takes everything");
}

//! A snapshot of a cluster: the answers to reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use lockstep_apiserver::server::{ApiServer, Options};
use lockstep_engine::action::{Action, KubeRequest, Outcome, Scope, Success};
use lockstep_engine::object::{Kind, Name, ObjectRef};
use serde_json::Value;

/// Seed of the uids of new objects. No answer of a cluster has one of them.
const SEED: u64 = 0x6472_795f_7275_6e00;

/// The answers of a cluster to reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    at: Timestamp,
    /// By the written form of the read.
    answers: BTreeMap<String, (Action, Outcome)>,
    present: BTreeSet<ObjectRef>,
}

/// Returns the written form of an action.
pub(super) fn key(action: &Action) -> String {
    serde_json::to_string(action).expect("an action is JSON")
}

/// Returns the list that contains all objects of a kind, or those of one namespace.
pub(super) fn whole_list(kind: &Arc<Kind>, namespace: Option<&str>) -> Action {
    let scope = Scope { namespace: namespace.map(str::to_owned), ..Scope::default() };
    Action::Kube(KubeRequest::List { kind: kind.clone(), scope })
}

impl Snapshot {
    /// Returns an empty snapshot of the time at which the dry run starts.
    pub fn new(at: Timestamp) -> Self {
        Self { at, answers: BTreeMap::new(), present: BTreeSet::new() }
    }

    /// Adds the answer to a read.
    pub fn add(&mut self, read: Action, outcome: Outcome) {
        let objects = objects(&read, &outcome);
        self.present.extend(objects.iter().map(|(kind, object)| Name::of(object).object(kind)));
        self.answers.insert(key(&read), (read, outcome));
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// Returns whether it has no objects.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Returns the objects and their kinds.
    pub fn objects(&self) -> impl Iterator<Item = (&Arc<Kind>, &Value)> {
        self.answers.values().flat_map(|(read, outcome)| objects(read, outcome))
    }

    /// Returns when the dry run starts.
    pub(super) fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns the answer to a read.
    pub(super) fn answer(&self, read: &Action) -> Option<&Outcome> {
        self.answers.get(&key(read)).map(|(_, outcome)| outcome)
    }

    /// Returns all answers to queries of image registries, by the written form of the query.
    pub(super) fn images(&self) -> BTreeMap<String, Outcome> {
        let images = self.answers.iter().filter(|(_, (read, _))| matches!(read, Action::Registry(_)));
        images.map(|(key, (_, outcome))| (key.clone(), outcome.clone())).collect()
    }

    /// Returns whether the snapshot shows the object, or shows that it does not exist.
    pub(super) fn knows(&self, target: &ObjectRef) -> bool {
        let get = Action::Kube(KubeRequest::Get { target: target.clone(), metadata_only: false });
        let lists = [None, target.namespace.as_deref()].map(|namespace| whole_list(&target.kind, namespace));
        self.present.contains(target)
            || self.answer(&get).is_some()
            || lists.iter().any(|list| self.answer(list).is_some())
    }

    /// Returns an API server in the state of the snapshot.
    pub(super) fn server(&self) -> ApiServer {
        let mut server = ApiServer::new(&Options { seed: SEED, start: self.at, ..Options::default() });
        let is_definition = |kind: &Kind| kind.kind == "CustomResourceDefinition";
        for definitions in [true, false] {
            for (kind, object) in self.objects().filter(|(kind, _)| is_definition(kind) == definitions) {
                // An object of a kind that the model does not have is reported with the read of the kind.
                let _served = server.restore(kind, object.clone(), self.at);
            }
        }
        server
    }
}

/// Returns the objects in the answer to a read.
fn objects<'a>(read: &'a Action, outcome: &'a Outcome) -> Vec<(&'a Arc<Kind>, &'a Value)> {
    match (read, outcome) {
        (Action::Kube(KubeRequest::Get { target, .. }), Ok(Success::Object(object))) => {
            vec![(&target.kind, object)]
        }
        (Action::Kube(KubeRequest::List { kind, .. }), Ok(Success::Objects(objects))) => {
            objects.iter().map(|object| (kind, &**object)).collect()
        }
        _ => Vec::new(),
    }
}

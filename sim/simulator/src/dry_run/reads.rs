//! The reads that a dry run depends on.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::{Action, KubeRequest, Scope, Success, WatchCommand};
use lockstep_engine::object::{Kind, ObjectRef, text};

use super::incomplete::Incomplete;
use super::snapshot::{self, Snapshot};
use crate::cluster::{Entry, What};
use crate::crds;
use crate::history::reference;

/// Collects the reads whose answers a snapshot lacks.
pub(super) struct Reads<'a> {
    snapshot: &'a Snapshot,
    /// By their written form.
    missing: BTreeMap<String, Action>,
    /// A kind that the cluster serves, but not the model.
    unknown: Option<Arc<Kind>>,
}

impl<'a> Reads<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, missing: BTreeMap::new(), unknown: None }
    }

    /// Returns whether every answer is known.
    pub(super) fn check(&mut self) -> Result<(), Incomplete> {
        if !self.missing.is_empty() {
            return Err(Incomplete::Missing(std::mem::take(&mut self.missing).into_values().collect()));
        }
        match self.unknown.take() {
            Some(kind) => Err(Incomplete::UnknownKind((*kind).clone())),
            None => Ok(()),
        }
    }

    /// Requires the owners of the snapshot's objects: the garbage collector of the model deletes an object without its owners.
    /// It ignores owners of kinds that the model does not have.
    pub(super) fn owners(&mut self, server: &ApiServer) {
        for (kind, object) in self.snapshot.objects() {
            let owners = object["metadata"]["ownerReferences"].as_array();
            for owner in owners.into_iter().flatten() {
                let [api_version, owner_kind, name] =
                    ["/apiVersion", "/kind", "/name"].map(|field| text(owner, field).unwrap_or_default());
                let Some(owner_kind) = server.kind(api_version, owner_kind) else { continue };
                let namespace = reference(kind, object).namespace.filter(|_| owner_kind.namespaced);
                let owner = ObjectRef { kind: owner_kind, namespace, name: name.to_owned() };
                self.object(&owner);
            }
        }
    }

    /// Requires the answers to all requests in a journal.
    pub(super) fn requests(&mut self, server: &ApiServer, journal: &[Entry]) {
        for entry in journal {
            let What::Stepped { step, .. } = &entry.what else { continue };
            for request in &step.requests {
                self.request(server, &request.action);
            }
        }
    }

    /// Requires what the answer to a request depends on.
    pub(super) fn request(&mut self, server: &ApiServer, action: &Action) {
        match action {
            Action::Kube(request) => self.kube(server, request),
            Action::Watch(WatchCommand::Start { kind, scope: Scope { namespace, name: Some(name), .. } }) => {
                let target =
                    ObjectRef { kind: Arc::clone(kind), namespace: namespace.clone(), name: name.clone() };
                self.target(server, &target);
            }
            Action::Watch(WatchCommand::Start { kind, scope }) => self.listed(server, kind, scope),
            Action::Registry(_) => self.read(action.clone()),
            Action::Watch(WatchCommand::Stop { .. }) | Action::Http(_) | Action::Broker(_) => {}
        }
    }

    /// Requires what the answer to a request to Kubernetes depends on.
    pub(super) fn kube(&mut self, server: &ApiServer, request: &KubeRequest) {
        match request {
            KubeRequest::List { kind, scope } => self.listed(server, kind, scope),
            KubeRequest::Get { target, .. } | KubeRequest::GetLengths { target } => {
                self.target(server, target);
            }
            KubeRequest::Discover { api_version } => self.discover(server, api_version),
            KubeRequest::Apply { target, .. }
            | KubeRequest::Create { target, .. }
            | KubeRequest::CreateSecret { target, .. }
            | KubeRequest::Update { target, .. }
            | KubeRequest::Patch { target, .. }
            | KubeRequest::Delete { target, .. } => self.written(server, target),
        }
    }

    fn listed(&mut self, server: &ApiServer, kind: &Arc<Kind>, scope: &Scope) {
        if self.kind(server, kind) {
            self.list(kind, scope);
        }
    }

    fn read(&mut self, action: Action) {
        if self.snapshot.answer(&action).is_none() {
            self.missing.insert(snapshot::key(&action), action);
        }
    }

    fn object(&mut self, target: &ObjectRef) {
        if !self.snapshot.knows(target) {
            self.read(Action::Kube(KubeRequest::Get { target: target.clone(), metadata_only: false }));
        }
    }

    fn list(&mut self, kind: &Arc<Kind>, scope: &Scope) {
        let whole = [None, scope.namespace.as_deref()].map(|namespace| snapshot::whole_list(kind, namespace));
        if whole.iter().all(|list| self.snapshot.answer(list).is_none()) {
            let scope = Scope { name: None, metadata_only: false, ..scope.clone() };
            self.read(Action::Kube(KubeRequest::List { kind: Arc::clone(kind), scope }));
        }
    }

    fn target(&mut self, server: &ApiServer, target: &ObjectRef) {
        if self.kind(server, &target.kind) {
            self.object(target);
        }
    }

    /// Requires the object of a write, and its namespace. The names of Events are new.
    fn written(&mut self, server: &ApiServer, target: &ObjectRef) {
        if target.kind.kind == "Event" {
            return;
        }
        if let Some(namespace) = &target.namespace {
            let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
            self.object(&ObjectRef::cluster(&kind, namespace));
        }
        if !target.name.is_empty() {
            self.target(server, target);
        }
    }

    /// Requires a kind. Returns whether the model serves it; otherwise the cluster must not serve it either.
    fn kind(&mut self, server: &ApiServer, kind: &Arc<Kind>) -> bool {
        if server.serves(kind) {
            return true;
        }
        self.definition(server, kind);
        let discover = Action::Kube(KubeRequest::Discover { api_version: kind.api_version() });
        if let Some(Ok(Success::Kinds(served))) = self.snapshot.answer(&discover)
            && served.contains(kind)
        {
            self.unknown = Some(Arc::clone(kind));
        }
        self.read(discover);
        false
    }

    /// Requires the CRD of a kind, unless its group is built in.
    fn definition(&mut self, server: &ApiServer, kind: &Kind) {
        if server.is_built_in(&kind.group) {
            return;
        }
        self.object(&crds::of(kind));
    }

    /// Requires the kinds of an API version. Those of built-in groups are in the model.
    fn discover(&mut self, server: &ApiServer, api_version: &str) {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if server.is_built_in(group) {
            return;
        }
        let discover = Action::Kube(KubeRequest::Discover { api_version: api_version.to_owned() });
        if let Some(Ok(Success::Kinds(kinds))) = self.snapshot.answer(&discover) {
            for kind in kinds {
                self.definition(server, kind);
            }
        }
        self.read(discover);
    }
}

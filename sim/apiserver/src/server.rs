//! A Kubernetes API server as a pure state machine.
//!
//! [`ApiServer::handle`] takes a request and the time and answers it immediately. The answer to a watch is an id, from which
//! [`ApiServer::poll_watch`] takes events. Nothing happens between calls: the other processes of a control plane are
//! [`GarbageCollector`], [`NamespaceController`] and [`Accounts`], which are clients with delays of their own.
//!
//! ```text
//!   http::Request ─► request ─► registry ─► write / delete / read / watch ─► respond ─► http::Response
//!                                  │                  │
//!                                 crd               store ─► log ─► watches, actors
//! ```
//!
//! Operations are functions over the state of the server (`state`), and do not know each other's callers: `persist` stores
//! and removes objects, `write` and `delete` decide what is stored, `patch`, `scale` and the actors build on them, and this
//! module dispatches requests.
//!
//! A clone is a snapshot: objects are shared, and never changed in place. The model is kube-apiserver 1.36 without
//! authentication, authorisation (every review is allowed), webhooks, API priority and aggregation.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;

pub use self::actors::{Accounts, Actors, GarbageCollector, NamespaceController, StorageProtection};
use self::delete_options::DeleteOptions;
use self::ids::Ids;
pub use self::inspect::Changed;
use self::negotiate::Negotiated;
use self::registry::Registry;
use self::request::{Request, ResourcePath};
use self::respond::{Answer, NOT_FOUND};
pub use self::respond::{Shared, SharedList, TakesShared};
use self::scope::{Scope, WriteOptions};
pub use self::state::ApiServer;
pub use self::status::{Details, Status};
use self::store::Store;
use self::watch::Watches;
pub use self::watch::{WatchEvent, WatchId, WatchPoll};
use self::write::Tracking;

mod actors;
mod admit;
mod allocate;
mod body;
mod crd;
mod crd_controllers;
mod delete;
mod delete_options;
mod discovery;
mod events;
mod fields;
mod form;
mod general;
mod grace;
mod ids;
mod inspect;
mod meta;
mod names;
mod namespace;
mod negotiate;
mod openapi;
mod patch;
mod persist;
mod precondition;
mod protobuf;
mod read;
mod registry;
pub mod request;
mod respond;
mod restore;
mod reviews;
mod scale;
mod scope;
mod selection;
pub mod selector;
mod state;
mod status;
mod store;
mod strategy;
mod table;
mod termination;
mod token;
mod validate;
mod versions;
mod watch;
mod write;

/// The options of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Seed of uids and generated names.
    pub seed: u64,
    /// The time at which the system namespaces are created.
    pub start: Timestamp,
    /// Number of changes kept for each resource; a request for older ones gets 410.
    pub history: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, start: Timestamp::UNIX_EPOCH, history: 1000 }
    }
}

/// Maximum size of a body, in bytes.
pub const BODY_MAX_BYTES: usize = 3 * 1024 * 1024;

/// The header that identifies a request in audit logs; every answer has it.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The answer of the server.
#[derive(Debug)]
pub enum Response {
    /// A complete response.
    Complete(http::Response<Bytes>),
    /// A watch is open: the response head, and the id for its events.
    Watch(http::Response<()>, WatchId),
}

impl ApiServer {
    /// Returns a server with only the system namespaces.
    pub fn new(options: &Options) -> Self {
        let mut server = Self {
            registry: Arc::new(Registry::new()),
            store: Store::new(options.history),
            watches: Watches::default(),
            ids: Ids::new(options.seed),
            audit_ids: Ids::new(!options.seed),
            now: options.start,
        };
        for name in namespace::SYSTEM {
            let created =
                write::install(&mut server, "", "namespaces", namespace::object(name), options.start);
            assert!(created.is_ok(), "{created:?}");
        }
        server
    }

    /// Answers one request.
    pub fn handle(&mut self, request: &http::Request<Bytes>, now: Timestamp) -> Response {
        let audit_id = match request.headers().get(AUDIT_ID) {
            Some(given) if !given.is_empty() => given.clone(),
            _ => HeaderValue::try_from(self.audit_ids.uid()).expect("a UUID is printable"),
        };
        let mut response = self.respond(request, now);
        let headers = match &mut response {
            Response::Complete(response) => response.headers_mut(),
            Response::Watch(head, _) => head.headers_mut(),
        };
        headers.insert(AUDIT_ID, audit_id);
        response
    }

    fn respond(&mut self, request: &http::Request<Bytes>, now: Timestamp) -> Response {
        self.now = now;
        if request.body().len() > BODY_MAX_BYTES {
            let status = Status::too_large(&format!("limit is {BODY_MAX_BYTES}"));
            return Response::Complete(respond::failure(&status, &[]));
        }
        let takes_shared = request.extensions().get::<TakesShared>().is_some();
        let request = Request::new(request);
        let mut warnings = Vec::new();
        let path = ResourcePath::parse(&request.segments);
        let custom = path.as_ref().is_some_and(|path| !self.is_built_in(&path.group));
        let negotiated = match Negotiated::parse(&request, custom) {
            Ok(negotiated) => negotiated,
            Err(status) => return Response::Complete(respond::failure(&status, &[])),
        };
        let answer = self.answer(&request, path, &negotiated, &mut warnings, now);
        match answer.and_then(|answer| answer.fit(&negotiated.form)) {
            Ok(Answer::Watch(id)) => {
                let head = respond::encode(&Answer::Watch(id), &negotiated, &warnings, now);
                Response::Watch(head.map(drop), id)
            }
            Ok(Answer::Object { code, object, .. }) if takes_shared && negotiated.is_plain() => {
                Response::Complete(respond::shared(code, Shared(object), &warnings))
            }
            Ok(Answer::List(list)) if takes_shared && negotiated.is_plain() && list.token.is_empty() => {
                let list = SharedList { items: list.items, revision: list.revision };
                Response::Complete(respond::shared(200, list, &warnings))
            }
            Ok(answer) => Response::Complete(respond::encode(&answer, &negotiated, &warnings, now)),
            Err(status) => Response::Complete(respond::failure(&status, &warnings)),
        }
    }

    /// Returns the new events of a watch. A closed watch is removed.
    pub fn poll_watch(&mut self, id: WatchId, now: Timestamp) -> WatchPoll {
        self.watches.poll(&self.store, &self.registry, id, now)
    }

    /// Returns whether the only event of a watch is that it can't start at the requested revision.
    pub fn is_watch_refused(&self, id: WatchId) -> bool {
        self.watches.is_refused(id)
    }

    /// Ends a watch.
    pub fn cancel_watch(&mut self, id: WatchId) {
        self.watches.cancel(id);
    }

    fn answer(
        &mut self,
        request: &Request<'_>,
        path: Option<ResourcePath>,
        negotiated: &Negotiated,
        warnings: &mut Vec<String>,
        now: Timestamp,
    ) -> Result<Answer, Status> {
        let Some(path) = path else {
            return general::answer(self, request);
        };
        let found = self.registry.served(&path.group, &path.version, &path.plural);
        let Some((resource, version)) = found.map(|(resource, version)| (Arc::clone(resource), version))
        else {
            return self.nowhere(&path);
        };
        let fits = if resource.namespaced {
            !path.namespace.is_empty() || path.name.is_empty()
        } else {
            path.namespace.is_empty()
        };
        let scope = Scope::new(resource, version, path);
        let known = scope.subresource.is_empty() || scope.version().has_subresource(&scope.subresource);
        if fits && !known && scope.resource.is_custom() {
            return Err(scope.not_found());
        }
        if !fits || !known {
            return Err(Status::no_such_path());
        }
        if !scope.name.is_empty() {
            scope.check_name_in_path()?;
        }
        self.resource_request(&scope, request, negotiated, warnings, now)
    }

    /// Returns the answer for a resource that is not served: a status in built-in groups, plain text elsewhere.
    fn nowhere(&self, path: &ResourcePath) -> Result<Answer, Status> {
        if self.is_built_in(&path.group) {
            Err(Status::no_such_path())
        } else {
            Ok(Answer::Text(404, NOT_FOUND))
        }
    }

    /// Returns whether a group has built-in resources.
    pub fn is_built_in(&self, group: &str) -> bool {
        let group = self.registry.groups().get(group);
        group.is_some_and(|group| group.values().any(|resource| !resource.is_custom()))
    }

    fn resource_request(
        &mut self,
        scope: &Scope,
        request: &Request<'_>,
        negotiated: &Negotiated,
        warnings: &mut Vec<String>,
        now: Timestamp,
    ) -> Result<Answer, Status> {
        warnings.extend(strategy::deprecation(scope));
        let mut write = |kind: &str, run: &mut dyn FnMut(&mut WriteOptions) -> Result<Answer, Status>| {
            let mut options = WriteOptions::parse(request, kind, now)?;
            let answer = run(&mut options);
            warnings.append(&mut options.warnings);
            answer
        };
        if reviews::is_review(&scope.resource) {
            if request.method != Method::POST || !scope.name.is_empty() {
                return Err(Status::method_not_allowed());
            }
            return write("CreateOptions", &mut |options| reviews::answer(scope, request, options));
        }
        match scope.subresource.as_str() {
            "scale" => {
                return write("UpdateOptions", &mut |options| {
                    scale::scale_request(self, scope, request, options)
                });
            }
            "token" if request.method == Method::POST => {
                return write("CreateOptions", &mut |options| {
                    reviews::token_request(self, scope, request, options)
                });
            }
            "finalize" if request.method != Method::PUT => return Err(Status::method_not_allowed()),
            "" | "status" | "finalize" => {}
            _ => return Err(Status::method_not_allowed()),
        }
        match (request.method, scope.name.is_empty()) {
            (&Method::GET, true) if request.query.flag("watch") == Some(true) => {
                self.watches.open(&self.store, scope, request, negotiated, now).map(Answer::Watch)
            }
            (&Method::GET, true) => read::list(&self.store, scope, request),
            (&Method::GET, false) => read::get(&self.store, scope, request),
            (&Method::POST, true) if scope.resource.namespaced && scope.namespace.is_empty() => {
                Err(Status::method_not_allowed())
            }
            (&Method::POST, true) => {
                write("CreateOptions", &mut |options| self.create_request(scope, request, options))
            }
            (&Method::PUT, false) => {
                write("UpdateOptions", &mut |options| self.put_request(scope, request, options))
            }
            (&Method::PATCH, false) => {
                write("PatchOptions", &mut |options| patch::patch_request(self, scope, request, options))
            }
            (&Method::DELETE, false) if scope.subresource.is_empty() => {
                let options = DeleteOptions::parse(request, now)?;
                warnings.extend(delete::warning(&scope.resource, &options));
                delete::delete_request(self, scope, &options)
            }
            (&Method::DELETE, true)
                if scope.resource.is("", "namespaces")
                    || (scope.resource.namespaced && scope.namespace.is_empty()) =>
            {
                Err(Status::method_not_allowed())
            }
            (&Method::DELETE, true) => {
                let options = DeleteOptions::parse(request, now)?;
                warnings.extend(delete::warning(&scope.resource, &options));
                delete::delete_collection(self, scope, request, &options)
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn create_request(
        &mut self,
        scope: &Scope,
        request: &Request<'_>,
        options: &mut WriteOptions,
    ) -> Result<Answer, Status> {
        let object = admit::request_object(scope, request, options)?;
        write::create_object(self, scope, object, options, Tracking::Update)
    }

    fn put_request(
        &mut self,
        scope: &Scope,
        request: &Request<'_>,
        options: &mut WriteOptions,
    ) -> Result<Answer, Status> {
        let mut object = admit::request_object(scope, request, options)?;
        scope.check_name(&object)?;
        let live = self.store.get(scope.resource.table, &scope.key()).cloned();
        if live.is_none() && !strategy::allows_create_on_update(scope) {
            return Err(scope.not_found());
        }
        precondition::check_uid(scope, live.as_deref(), &object)?;
        let Some(live) = live else {
            write::check_version_syntax(meta::resource_version(&object))?;
            if !options.dry_run {
                // Any other version is ignored here.
                meta::remove(&mut object, "resourceVersion");
            }
            return write::create_object(self, scope, object, options, Tracking::Update);
        };
        write::update_object(self, scope, &live, object, options, Tracking::Update)
    }
}

#[cfg(test)]
mod tests;

//! Watches kinds with kube's watcher and turns what it sees into events.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use lockstep_core::engine::action::{Class, Failure, Scope};
use lockstep_core::engine::backoff::Backoff;
use lockstep_core::engine::machine::Event;
use lockstep_core::object::Kind;
use lockstep_core::random::Random;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::failure;

/// How many objects a page of a list holds; bounds the memory that listing takes.
const PAGE_SIZE: u32 = 500;

/// How long a watch that failed is left alone: a second, doubled up to half a minute.
const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// A watch that has not failed for so long begins with the first delay again.
const FORGIVEN_AFTER: Duration = Duration::from_mins(2);

/// Where a watch sends its events, wrapped so that the receiver can tell a watch from one that it replaced.
pub(crate) struct Outlet<T> {
    pub(crate) events: Sender<T>,
    pub(crate) wrap: Box<dyn Fn(Event) -> T + Send + Sync>,
}

impl<T> Outlet<T> {
    /// Sends one event; false once nobody listens any more.
    async fn send(&self, event: Event) -> bool {
        self.events.send((self.wrap)(event)).await.is_ok()
    }
}

/// The pauses between the failures of one watch.
pub(crate) struct Pause {
    random: Random,
    failures: u32,
    last: Option<Instant>,
}

impl Pause {
    /// No failure yet; all jitter follows from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::from_seed(seed), failures: 0, last: None }
    }

    /// Waits after a failure.
    async fn after_failure(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() > FORGIVEN_AFTER) {
            self.failures = 0;
        }
        self.last = Some(Instant::now());
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(BACKOFF.delay(self.failures, &mut self.random)).await;
    }
}

/// Lists and watches a kind, and goes on after failures with backoff, until nobody listens.
pub(crate) async fn follow<T: Send>(
    client: Client,
    kind: Arc<Kind>,
    scope: Scope,
    outlet: Outlet<T>,
    pause: Pause,
) {
    let resource = ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.plural.clone(),
    };
    let mut config = watcher::Config::default().page_size(PAGE_SIZE);
    if !scope.selector.is_empty() {
        config = config.labels(&scope.selector);
    }
    if let Some(name) = &scope.name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    if scope.metadata_only {
        let api: Api<PartialObjectMeta<DynamicObject>> = match &scope.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        keep_watching(api, config, &kind, &outlet, pause, |object| only_metadata(&object)).await;
    } else {
        let api: Api<DynamicObject> = match &scope.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        keep_watching(api, config, &kind, &outlet, pause, |object| whole(object, &kind)).await;
    }
}

async fn keep_watching<K, T>(
    api: Api<K>,
    config: watcher::Config,
    kind: &Arc<Kind>,
    outlet: &Outlet<T>,
    mut pause: Pause,
    to_value: impl Fn(K) -> Value,
) where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    loop {
        let stream = watcher(api.clone(), config.clone());
        pin_mut!(stream);
        while let Some(result) = stream.next().await {
            let (event, failed) = match result {
                Ok(event) => (translate(event, kind, &to_value), None),
                Err(error) => {
                    let failure = failure::from_watch(&error);
                    (watch_failed(kind, &failure), Some(failure.class))
                }
            };
            if !outlet.send(event).await {
                return;
            }
            if let Some(class) = failed {
                pause.after_failure().await;
                // A watch that is refused for its age would be resumed from the same version for ever. One that was
                // refused otherwise may have missed anything, and whoever was told of it waits for a new list.
                if matches!(class, Class::Gone | Class::Forbidden | Class::NotFound) {
                    break;
                }
            }
        }
    }
}

fn translate<K>(event: watcher::Event<K>, kind: &Arc<Kind>, to_value: &impl Fn(K) -> Value) -> Event {
    let kind = Arc::clone(kind);
    match event {
        watcher::Event::Init => Event::ListStarted { kind },
        watcher::Event::InitDone => Event::ListCompleted { kind },
        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
            Event::Observed { kind, object: Arc::new(to_value(object)) }
        }
        watcher::Event::Delete(object) => Event::Vanished { kind, object: Arc::new(to_value(object)) },
    }
}

fn watch_failed(kind: &Arc<Kind>, failure: &Failure) -> Event {
    Event::WatchFailed { kind: Arc::clone(kind), failure: failure.clone() }
}

/// The metadata and nothing else.
fn only_metadata(object: &PartialObjectMeta<DynamicObject>) -> Value {
    Value::Object(Map::from_iter([("metadata".to_owned(), metadata_value(&object.metadata))]))
}

/// The whole object; items of a list don't carry their kind, so it is filled in.
fn whole(object: DynamicObject, kind: &Kind) -> Value {
    let mut fields = match object.data {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    fields.insert("apiVersion".to_owned(), kind.api_version().into());
    fields.insert("kind".to_owned(), kind.kind.clone().into());
    fields.insert("metadata".to_owned(), metadata_value(&object.metadata));
    Value::Object(fields)
}

fn metadata_value(metadata: &kube::core::ObjectMeta) -> Value {
    serde_json::to_value(metadata).expect("metadata came from JSON and has only string keys")
}

//! Watches kinds with kube's watcher and converts its results to events.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, pin_mut};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use lockstep_engine::action::{ErrorKind, Failure, Scope};
use lockstep_engine::backoff::{Backoff, RETRY_AFTER_MAX};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout};

use crate::failure;

/// The number of objects in a page of a list. It bounds the memory that listing takes.
const PAGE_SIZE: u32 = 500;

/// The delay before a failed watch is retried: one second, doubled up to half a minute.
const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// After this long without a failure, a watch starts with the first delay again.
const FORGIVEN_AFTER: Duration = Duration::from_mins(2);

/// A watch that is not refused for this long counts as running. A refusal arrives at once, but no answer confirms that a watch
/// runs.
const RUNS_AFTER: Duration = Duration::from_secs(5);

/// The channel for the events of a watch. Events are wrapped so that the receiver can distinguish a watch from one that it
/// replaced.
pub(crate) struct EventSink<T> {
    pub(crate) events: Sender<T>,
    pub(crate) wrap: Box<dyn Fn(Event) -> T + Send + Sync>,
}

impl<T> EventSink<T> {
    /// Sends one event. Returns false once the receiver is closed.
    async fn send(&self, event: Event) -> bool {
        self.events.send((self.wrap)(event)).await.is_ok()
    }
}

/// The delays between the failures of one watch.
pub(crate) struct Pause {
    random: Random,
    failures: u32,
    last: Option<Instant>,
}

impl Pause {
    /// Creates the state without failures. All jitter follows from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::from_seed(seed), failures: 0, last: None }
    }

    /// Waits after a failure: for the backoff, or for the delay that the server requested if that is longer.
    async fn after_failure(&mut self, retry_after: Option<Duration>) {
        if self.last.is_some_and(|last| last.elapsed() > FORGIVEN_AFTER) {
            self.failures = 0;
        }
        self.last = Some(Instant::now());
        self.failures = self.failures.saturating_add(1);
        let retry_after = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        tokio::time::sleep(BACKOFF.delay(self.failures, &mut self.random).max(retry_after)).await;
    }
}

/// Lists and watches a kind. After failures it retries with backoff, until the receiver is closed.
pub(crate) async fn follow<T: Send>(
    client: Client,
    kind: Arc<Kind>,
    scope: Scope,
    outlet: EventSink<T>,
    mut pause: Pause,
) {
    loop {
        let watching = follow_soundly(client.clone(), &kind, &scope, &outlet, &mut pause);
        if AssertUnwindSafe(watching).catch_unwind().await.is_ok() {
            return;
        }
        // Without this event, nothing would show that the watch receives no more events.
        let failure = Failure::new(ErrorKind::Unavailable, "the watch panicked; this is a bug in Lockstep");
        if !outlet.send(watch_failed(&kind, &failure)).await {
            return;
        }
        pause.after_failure(None).await;
    }
}

async fn follow_soundly<T: Send>(
    client: Client,
    kind: &Arc<Kind>,
    scope: &Scope,
    outlet: &EventSink<T>,
    pause: &mut Pause,
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
        keep_watching(api, config, kind, outlet, pause, |object| only_metadata(&object)).await;
    } else {
        let api: Api<DynamicObject> = match &scope.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        keep_watching(api, config, kind, outlet, pause, |object| whole(object, kind)).await;
    }
}

async fn keep_watching<K, T>(
    api: Api<K>,
    config: watcher::Config,
    kind: &Arc<Kind>,
    outlet: &EventSink<T>,
    pause: &mut Pause,
    to_value: impl Fn(K) -> Value,
) where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    // Whether the kind could be listed but not watched, and no later answer has shown that it can be watched.
    let mut is_doubted = false;
    loop {
        let stream = watcher(api.clone(), config.clone()).peekable();
        pin_mut!(stream);
        while let Some(result) = stream.next().await {
            // A complete list clears the reported refusal. It counts only if the watch is not refused again. Otherwise the two
            // would alternate without end.
            if is_doubted && matches!(result, Ok(watcher::Event::InitDone)) {
                if let Ok(Some(Err(_))) = timeout(RUNS_AFTER, stream.as_mut().peek()).await {
                    continue;
                }
                is_doubted = false;
            }
            let (event, failed) = match result {
                Ok(event) => (translate(event, kind, &to_value), None),
                Err(error) => {
                    // An event that can't be parsed is skipped once other events follow it.
                    let is_lost = matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_)));
                    let failure = failure::from_watch(&error);
                    let is_of_watch =
                        matches!(error, watcher::Error::WatchStartFailed(_) | watcher::Error::WatchError(_));
                    is_doubted |=
                        is_of_watch && matches!(failure.class, ErrorKind::Forbidden | ErrorKind::Invalid);
                    (watch_failed(kind, &failure), Some((failure, is_lost)))
                }
            };
            if !outlet.send(event).await {
                return;
            }
            if let Some((failure, is_lost)) = failed {
                pause.after_failure(failure.retry_after).await;
                // A watch that is refused as too old would be resumed from the same version for ever. A watch that was refused
                // for another reason may have missed anything, and the machine that got the failure waits for a new list.
                let is_refused = matches!(
                    failure.class,
                    ErrorKind::Gone
                        | ErrorKind::Forbidden
                        | ErrorKind::NotFound
                        | ErrorKind::KindNotServed
                        | ErrorKind::Invalid
                );
                if is_refused || is_doubted || is_lost {
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
            Event::Applied { kind, object: Arc::new(to_value(object)) }
        }
        watcher::Event::Delete(object) => Event::Deleted { kind, object: Arc::new(to_value(object)) },
    }
}

fn watch_failed(kind: &Arc<Kind>, failure: &Failure) -> Event {
    Event::WatchFailed { kind: Arc::clone(kind), failure: failure.clone() }
}

/// Returns the metadata and nothing else.
fn only_metadata(object: &PartialObjectMeta<DynamicObject>) -> Value {
    Value::Object(Map::from_iter([("metadata".to_owned(), metadata_value(&object.metadata))]))
}

/// Returns the whole object. Items of a list don't carry their kind, so it is filled in.
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

#[cfg(test)]
mod tests;

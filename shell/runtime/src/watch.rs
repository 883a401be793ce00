//! Watches kinds with kube's watcher and converts its results to events.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, pin_mut};
use kube::api::ApiResource;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use lockstep_engine::action::{ErrorKind, Failure, Scope};
use lockstep_engine::backoff::{Backoff, RETRY_AFTER_MAX};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout};

use self::object::Watched;
use self::short::refuse_short_watches;
use crate::failure;

mod object;
mod short;

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
    let client = refuse_short_watches(client);
    if scope.metadata_only {
        keep_watching(api::<true>(client, scope, &resource), config, kind, outlet, pause).await;
    } else {
        keep_watching(api::<false>(client, scope, &resource), config, kind, outlet, pause).await;
    }
}

fn api<const METADATA_ONLY: bool>(
    client: Client,
    scope: &Scope,
    resource: &ApiResource,
) -> Api<Watched<METADATA_ONLY>> {
    match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

async fn keep_watching<T, const METADATA_ONLY: bool>(
    api: Api<Watched<METADATA_ONLY>>,
    config: watcher::Config,
    kind: &Arc<Kind>,
    outlet: &EventSink<T>,
    pause: &mut Pause,
) {
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
                Ok(event) => (translate(event, kind), None),
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

fn translate<const METADATA_ONLY: bool>(
    event: watcher::Event<Watched<METADATA_ONLY>>,
    kind: &Arc<Kind>,
) -> Event {
    let value = |object: Watched<METADATA_ONLY>| Arc::new(object.into_value(kind));
    let kind = Arc::clone(kind);
    match event {
        watcher::Event::Init => Event::ListStarted { kind },
        watcher::Event::InitDone => Event::ListCompleted { kind },
        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
            Event::Applied { object: value(object), kind }
        }
        watcher::Event::Delete(object) => Event::Deleted { object: value(object), kind },
    }
}

fn watch_failed(kind: &Arc<Kind>, failure: &Failure) -> Event {
    Event::WatchFailed { kind: Arc::clone(kind), failure: failure.clone() }
}

#[cfg(test)]
mod tests;

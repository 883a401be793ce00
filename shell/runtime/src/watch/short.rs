//! Watches that end at once. kube's watcher repeats them without a pause, and without a message.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

/// A watch that is requested again so soon had no time to report anything. The API server ends a watch after minutes, and the pause after
/// a failure is longer.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Returns a client that refuses a watch which is requested so soon after the previous one.
pub(super) fn refuse_short_watches(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let previous = Arc::new(Mutex::new(None));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, is_short) = (client.clone(), is_watch(&request) && ended_at_once(&previous));
        async move {
            if is_short {
                return Err(BoxError::from(io::Error::other("the API server ended the watch at once")));
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"))
}

fn ended_at_once(previous: &Mutex<Option<Instant>>) -> bool {
    let mut previous = previous.lock().unwrap_or_else(PoisonError::into_inner);
    if previous.is_some_and(|begun: Instant| begun.elapsed() < AT_ONCE) {
        return true;
    }
    *previous = Some(Instant::now());
    false
}

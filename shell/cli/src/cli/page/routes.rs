//! The routes of the page: its files, a stream of changes, and explanations. All of them only read.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Router, middleware};
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::feed::Feed;
use super::query::{Query, fields};
use super::view::View;
use super::{assets, detail, host};

/// The maximum number of open pages.
const STREAMS_MAX: usize = 16;

/// The minimum time between two messages to a page.
const PAUSE: Duration = Duration::from_millis(100);
/// The same as a multiple of the time that the last message took to make. Controllers need the processor for other work.
const PAUSE_FACTOR: u32 = 4;

#[derive(Clone)]
struct Served {
    feeds: Arc<[Arc<Mutex<Feed>>]>,
    changes: watch::Receiver<()>,
    streams: Arc<Semaphore>,
}

/// Returns the routes.
pub(super) fn routes(feeds: Vec<Arc<Mutex<Feed>>>, changes: &watch::Sender<()>) -> Router {
    let served = Served {
        feeds: feeds.into(),
        changes: changes.subscribe(),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
    };
    let file = |content_type: &'static str, text: &'static str| {
        get(move || async move { ([(CONTENT_TYPE, content_type)], text) })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", assets::HTML))
        .route("/page.css", file("text/css; charset=utf-8", assets::CSS))
        .route("/page.js", file("text/javascript; charset=utf-8", assets::SCRIPT))
        .route("/icon.svg", file("image/svg+xml", assets::ICON))
        .route("/api/view", get(view))
        .route("/api/stream", get(changes_of_view))
        .route("/api/explanation", get(explanation))
        .with_state(served)
        .layer(middleware::from_fn(host::guard))
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// Answers with all that the page would show now.
async fn view(State(served): State<Served>, uri: Uri) -> Response {
    let message = View::new(Query::read(&uri)).message(&served.feeds).unwrap_or_default();
    json(message.to_string())
}

/// Answers with the explanation of an object; `null` if it does not occur.
async fn explanation(State(served): State<Served>, uri: Uri) -> Response {
    let fields = fields(&uri);
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let found = detail::explanation(&served.feeds, field("kind"), field("namespace"), field("name"));
    json(found.unwrap_or_default().to_string())
}

/// Sends all that the page shows, and then each change.
async fn changes_of_view(State(served): State<Served>, uri: Uri) -> Response {
    let Ok(permit) = Arc::clone(&served.streams).try_acquire_owned() else {
        let full = format!("{STREAMS_MAX} pages are open; close one of them\n");
        return (StatusCode::SERVICE_UNAVAILABLE, full).into_response();
    };
    let mut changes = served.changes;
    // The first message contains all earlier changes.
    changes.mark_unchanged();
    let page = OpenPage {
        view: View::new(Query::read(&uri)),
        feeds: served.feeds,
        changes,
        sent: None,
        pause: PAUSE,
        _permit: permit,
    };
    let messages = stream::unfold(page, OpenPage::next);
    Sse::new(messages).keep_alive(KeepAlive::default()).into_response()
}

struct OpenPage {
    view: View,
    feeds: Arc<[Arc<Mutex<Feed>>]>,
    changes: watch::Receiver<()>,
    /// When the last message was sent.
    sent: Option<Instant>,
    /// The time until the next one.
    pause: Duration,
    _permit: OwnedSemaphorePermit,
}

impl OpenPage {
    /// Returns the next message; `None` when all controllers have ended.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(sent) = self.sent {
                self.changes.changed().await.ok()?;
                tokio::time::sleep_until(sent + self.pause).await;
            }
            let began = Instant::now();
            if let Some(message) = self.view.message(&self.feeds) {
                let now = Instant::now();
                (self.sent, self.pause) = (Some(now), PAUSE.max((now - began) * PAUSE_FACTOR));
                return Some((Ok(Event::default().data(message.to_string())), self));
            }
        }
    }
}

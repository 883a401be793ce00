//! The live page: what the controllers of this process do, from memory.
//!
//! ```text
//!  driver ──▶ live::Followed ──▶ queue ──▶ thread: Feed ◀── http: view ──▶ browser, lockstep explain --url
//! ```
//!
//! Each controller has a feed. A thread adds its steps to the feed, and the requests of the page read from it. So neither a browser
//! nor a slow reader delays a controller. Everything that leaves the process passes through the redactors of recordings.

use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use axum::Router;
use lockstep_cli::controllers;
use lockstep_crds::CrdSet;
use lockstep_engine::machine::Machine;
use lockstep_engine::recording::Traits;
use lockstep_runtime::{live, record};
use lockstep_sentinel::Sentinel;
use tokio::sync::watch;

use self::feed::Feed;

mod args;
mod assets;
mod collect;
mod detail;
mod feed;
mod host;
mod moments;
mod objects;
mod query;
mod relations;
mod routes;
mod view;

pub(super) use self::args::PageArgs;

/// The page of this process.
pub(super) struct Page {
    feeds: Vec<Arc<Mutex<Feed>>>,
    changes: watch::Sender<()>,
}

impl Page {
    /// Creates a page without controllers.
    pub(super) fn new() -> Self {
        Self { feeds: Vec::new(), changes: watch::Sender::new(()) }
    }

    /// Shows a controller, which has taken no step yet, under this title. Returns the machine to run in its place.
    ///
    /// # Errors
    ///
    /// If the system has no random bytes or no more threads.
    pub(super) fn follow(
        &mut self,
        machine: Box<dyn Machine + Send>,
        traits: Traits,
        set: &CrdSet,
        title: &str,
    ) -> anyhow::Result<Box<dyn Machine + Send>> {
        let tracker = record::tracker(traits)?;
        let kinds = controllers::kinds(std::slice::from_ref(set));
        let feed = Feed::new(self.feeds.len(), title, set.controller, kinds, Arc::clone(tracker.redactor()));
        let feed = Arc::new(Mutex::new(feed));
        self.feeds.push(Arc::clone(&feed));
        let (followed, updates) = live::follow(machine);
        let changes = self.changes.clone();
        let thread = std::thread::Builder::new().name("page".to_owned());
        thread
            .spawn(move || collect::collect(&updates, tracker, &feed, &changes))
            .context("cannot start a thread for the live page")?;
        Ok(Box::new(followed))
    }

    /// Shows the Sentinel of the SentinelConfig with this namespace and name, like [`Page::follow`].
    pub(super) fn follow_sentinel(
        &mut self,
        sentinel: Sentinel,
        object: &str,
    ) -> anyhow::Result<Box<dyn Machine + Send>> {
        let set = lockstep_crds::all().into_iter().find(|set| set.controller == sentinel.name());
        let set = set.context("the CRDs have no SentinelConfig")?;
        let title = format!("{} {object}", set.controller);
        self.follow(Box::new(sentinel), lockstep_sentinel::TRAITS, &set, &title)
    }

    /// Returns the routes of the page and of its API.
    pub(super) fn routes(self) -> Router {
        routes::routes(self.feeds, &self.changes)
    }
}

#[cfg(test)]
mod tests;

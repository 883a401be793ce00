//! Texts that several conditions contain.

use lockstep_engine::action::Failure;
use lockstep_engine::object::Name;

use crate::model::application::App;
use crate::source::Source;
use crate::store::Store;
use crate::store::outdated_sync::GRACE;

/// The maximum number of clusters that a message names.
const NAMED_MAX: usize = 10;

/// Returns which kind can't be watched, and why.
pub(super) fn unwatched(source: Source, failure: &Failure) -> String {
    format!("{}s can't be watched ({})", source.kind().kind, failure.message)
}

/// Returns the state of an Application in brief. While its service is paused, no sync is terminated.
pub(super) fn state(app: &App, is_paused: bool) -> String {
    let message = app.report.describe(app.unfinished());
    let Some(operation) = app.outdated() else { return message };
    let when = if is_paused {
        "once the service is no longer paused".to_owned()
    } else if operation.is_between_attempts {
        "now".to_owned()
    } else {
        format!("{} minutes after the change", GRACE.as_secs() / 60)
    };
    format!("{message}; {}: it is terminated {when}", operation.holds_up())
}

/// What a condition reports about one cluster.
pub(super) struct ClusterMessage {
    title: String,
    /// It may be empty.
    message: String,
    /// The same for each cluster with the same cause.
    cause: String,
}

impl ClusterMessage {
    pub(super) fn new(store: &Store, cluster: &Name, message: String) -> Self {
        let cause = without_names(store, cluster, &message);
        Self { title: store.title(cluster), message, cause }
    }

    /// Sets the message without what differs between clusters with the same cause.
    pub(super) fn with_cause(mut self, store: &Store, cluster: &Name, cause: &str) -> Self {
        self.cause = without_names(store, cluster, cause);
        self
    }
}

/// Returns a text with placeholders for the name and the server of a cluster.
fn without_names(store: &Store, cluster: &Name, text: &str) -> String {
    let server = store.server(cluster).map(|server| server.strip_prefix("https://").unwrap_or(server));
    let text = match server.filter(|server| !server.is_empty()) {
        Some(server) => text.replace(server, "<server>"),
        None => text.to_owned(),
    };
    let mut replaced = String::new();
    let mut end = 0;
    for (at, name) in text.match_indices(&*cluster.name) {
        let after = at + name.len();
        // Another name may contain this one, such as "dpu-10" "dpu-1".
        let is_part = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        if !is_part(text[..at].chars().next_back()) && !is_part(text[after..].chars().next()) {
            replaced.push_str(&text[end..at]);
            replaced.push_str("<cluster>");
            end = after;
        }
    }
    replaced.push_str(&text[end..]);
    replaced
}

/// Returns the messages with the names of their clusters. Clusters with the same cause are grouped.
pub(super) fn grouped(messages: impl Iterator<Item = ClusterMessage>) -> String {
    let mut groups: Vec<(ClusterMessage, Vec<String>)> = Vec::new();
    for next in messages {
        let is_same = |group: &ClusterMessage| group.message == next.message || group.cause == next.cause;
        match groups.iter_mut().find(|(group, _)| is_same(group)) {
            Some((group, titles)) => {
                if group.message != next.message {
                    group.message.clone_from(&group.cause);
                }
                titles.push(next.title);
            }
            None => groups.push((ClusterMessage { title: String::new(), ..next }, vec![next.title])),
        }
    }
    list(groups.into_iter().map(|(ClusterMessage { message, .. }, mut titles)| {
        let more = titles.len().saturating_sub(NAMED_MAX);
        titles.truncate(NAMED_MAX);
        if more > 0 {
            titles.push(format!("{more} more"));
        }
        let titles = titles.join(", ");
        if message.is_empty() { titles } else { format!("{titles} ({message})") }
    }))
}

/// Returns the first few items as text, with the number of the others.
pub(super) fn list(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(NAMED_MAX);
    items.truncate(NAMED_MAX);
    if more > 0 {
        items.push(format!("and {more} more"));
    }
    items.join("; ")
}

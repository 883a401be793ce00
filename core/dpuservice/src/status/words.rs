//! Texts that several conditions contain.

use lockstep_engine::action::Failure;

use crate::model::application::App;
use crate::source::Source;
use crate::store::outdated_sync::GRACE;

/// The maximum number of clusters that a message names.
const NAMED_MAX: usize = 10;

/// Returns which kind can't be watched, and why.
pub(super) fn unwatched(source: Source, failure: &Failure) -> String {
    format!("{}s can't be watched ({})", source.kind().kind, failure.message)
}

/// Returns the state of an Application in a few words.
pub(super) fn state(app: &App) -> String {
    let words = app.report.words(app.unfinished());
    let Some(operation) = app.outdated() else { return words };
    let when = if operation.is_between_attempts {
        "now".to_owned()
    } else {
        format!("{} minutes after the change", GRACE.as_secs() / 60)
    };
    format!("{words}; {}: it is terminated {when}", operation.holds_up())
}

/// Returns clusters with their messages, which may be empty. Clusters with the same message are grouped.
pub(super) fn grouped(clusters: impl Iterator<Item = (String, String)>) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (title, words) in clusters {
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, titles)) => titles.push(title),
            None => groups.push((words, vec![title])),
        }
    }
    list(groups.into_iter().map(|(words, mut titles)| {
        let more = titles.len().saturating_sub(NAMED_MAX);
        titles.truncate(NAMED_MAX);
        if more > 0 {
            titles.push(format!("{more} more"));
        }
        let titles = titles.join(", ");
        if words.is_empty() { titles } else { format!("{titles} ({words})") }
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

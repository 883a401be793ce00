//! Get and list.

use std::sync::Arc;

use serde_json::Value;

use super::request::Request;
use super::respond::{Answer, List};
use super::scope::Scope;
use super::selection::{Selection, parse_version};
use super::status::{Qualified, Status, quote};
use super::store::{Store, key};
use super::token::Token;
use crate::cause::Cause;

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";

/// The start of a page, and its revision.
struct Start {
    /// The revision to return; none for the current one.
    revision: Option<u64>,
    after: Option<String>,
}

/// Answers a GET of one object.
pub(super) fn get(store: &Store, scope: &Scope, request: &Request<'_>) -> Result<Answer, Status> {
    let version = parse_version(request.query.text("resourceVersion")).map_err(Status::unknown)?;
    check_future(store, version)?;
    let object = store.get(scope.resource.table, &scope.key()).ok_or_else(|| scope.not_found())?;
    Ok(Answer::object(200, scope, object))
}

/// Answers a GET of a collection.
pub(super) fn list(store: &Store, scope: &Scope, request: &Request<'_>) -> Result<Answer, Status> {
    let selection = Selection::parse(scope, request)?;
    let limit = request.query.number("limit")?.and_then(|limit| usize::try_from(limit).ok());
    // The version "any" is served from a cache, which has no pages.
    let is_cached = request.query.text("resourceVersion") == "0" && request.query.text("continue").is_empty();
    let limit = limit.filter(|limit| *limit > 0 && !is_cached);
    let start = start(store, request, limit.is_some())?;
    let below = if scope.namespace.is_empty() { String::new() } else { key(&scope.namespace, "") };
    let table = scope.resource.table;
    let revision = start.revision.unwrap_or(store.revision());
    let after = start.after.as_ref().map(|after| format!("{below}{after}"));
    let after = after.as_deref();
    let (items, next) = if revision == store.revision() {
        let all = store.list(table, &selection.prefix, after);
        page(all, &selection, limit)
    } else {
        let objects = store
            .snapshot(table, &selection.prefix, revision)
            .map_err(|_| expired(start.after.as_deref()))?;
        let all = objects.iter().filter(|(key, _)| after.is_none_or(|after| key.as_ref() > after));
        page(all, &selection, limit)
    };
    let (token, remaining) = match next {
        Some(next) => {
            let remaining = selection.is_plain().then_some(next.remaining);
            let after = next.after.strip_prefix(&below).unwrap_or(&next.after).to_owned();
            (Token { revision: Some(revision), after }.encode(), remaining)
        }
        None => (String::new(), None),
    };
    let items = items.iter().map(|object| scope.resource.view(scope.version(), object)).collect();
    Ok(Answer::List(Box::new(List { scope: scope.clone(), items, revision, token, remaining })))
}

fn start(store: &Store, request: &Request<'_>, limited: bool) -> Result<Start, Status> {
    let token = request.query.text("continue");
    let version = request.query.text("resourceVersion");
    let rule = request.query.text("resourceVersionMatch");
    check_match(request, version, rule, token)?;
    if !token.is_empty() {
        if !version.is_empty() && version != "0" {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let Token { revision, after } = Token::decode(token)
            .map_err(|why| Status::bad_request(format!("invalid continue token: {why}")))?;
        return Ok(Start { revision, after: Some(after) });
    }
    let version = parse_version(version)
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    check_future(store, version)?;
    let exact = rule == "Exact" || (rule.is_empty() && limited);
    let revision = version.filter(|version| *version > 0 && exact);
    Ok(Start { revision, after: None })
}

/// Refuses a resource version that is in the future.
fn check_future(store: &Store, version: Option<u64>) -> Result<(), Status> {
    let current = store.revision();
    let Some(version) = version.filter(|version| *version > current) else { return Ok(()) };
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    let mut status = Status::new(504, "Timeout", message);
    status.details.retry_after_seconds = 1;
    status.details.causes.push((
        "ResourceVersionTooLarge".to_owned(),
        "Too large resource version".to_owned(),
        String::new(),
    ));
    Err(status)
}

/// The start of the next page.
struct Next {
    after: String,
    remaining: usize,
}

fn page<'a>(
    all: impl Iterator<Item = (&'a Arc<str>, &'a Arc<Value>)>,
    selection: &Selection,
    limit: Option<usize>,
) -> (Vec<Arc<Value>>, Option<Next>) {
    let mut items = Vec::new();
    let mut last = None;
    let mut all = all.peekable();
    while let Some((key, object)) = all.next_if(|_| limit.is_none_or(|limit| items.len() < limit)) {
        if selection.matches(object) {
            last = Some(key);
            items.push(Arc::clone(object));
        }
    }
    // As in the real server, the remaining objects need not match: the next page may be empty.
    let remaining = all.count();
    let next = last.filter(|_| remaining > 0).map(|last| Next { after: last.to_string(), remaining });
    (items, next)
}

/// Returns the answer for a list of a revision that is no longer kept. A paged list may continue with the newest revision.
fn expired(after: Option<&str>) -> Status {
    let Some(after) = after else { return Status::expired(LIST_EXPIRED) };
    let mut status = Status::expired(CONTINUE_EXPIRED);
    status.details.go_on = Token { revision: None, after: after.to_owned() }.encode();
    status
}

/// Checks `resourceVersionMatch` and `sendInitialEvents`.
fn check_match(request: &Request<'_>, version: &str, rule: &str, token: &str) -> Result<(), Status> {
    let forbidden = |field: &str, why: &str| Cause {
        reason: "FieldValueForbidden",
        field: field.to_owned(),
        message: format!("Forbidden: {why}"),
    };
    let field = "resourceVersionMatch";
    let mut causes = Vec::new();
    if !rule.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.push(forbidden(field, why));
        }
        if !token.is_empty() {
            causes.push(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if rule == "Exact" && version == "0" {
            let why = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
            causes.push(forbidden(field, why));
        }
        if !matches!(rule, "Exact" | "NotOlderThan") {
            let supported = r#"supported values: "Exact", "NotOlderThan", """#;
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: field.to_owned(),
                message: format!("Unsupported value: {}: {supported}", quote(rule)),
            });
        }
    }
    if request.query.get("sendInitialEvents").is_some() {
        causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(Qualified { group: "meta.k8s.io", name: "ListOptions" }, "", &causes))
}

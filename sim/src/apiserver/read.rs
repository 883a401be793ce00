//! Get and list.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::request::Request;
use super::respond::{Answer, List};
use super::scope::Scope;
use super::selector::{Fields, Labels};
use super::status::{Qualified, Status, quote};
use super::store::{Prefix, key};
use super::{ApiServer, fields};
use crate::cause::Cause;

const CONTINUE_VERSION: &str = "meta.k8s.io/v1";
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.";
const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";

/// What a list or watch selects.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) prefix: Prefix,
    pub(super) labels: Labels,
    pub(super) fields: Fields,
}

impl Selection {
    pub(super) fn parse(scope: &Scope, request: &Request<'_>) -> Result<Self, Status> {
        let labels = Labels::parse(request.query.text("labelSelector"))?;
        let selected = Fields::parse(request.query.text("fieldSelector"))?;
        fields::check(scope, &selected)?;
        let name = selected.exact_name().filter(|name| !name.is_empty());
        let prefix = match name {
            Some(name) if !scope.namespace.is_empty() || !scope.resource.namespaced => {
                Prefix::object(key(&scope.namespace, name))
            }
            _ => Prefix::namespace(&scope.namespace),
        };
        Ok(Self { prefix, labels, fields: selected })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    fn is_plain(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// Where a page starts, and of which revision it is.
struct Start {
    /// The revision to show; the current one if none.
    revision: Option<u64>,
    after: Option<String>,
    /// Whether the revision comes from a token.
    continued: bool,
}

impl ApiServer {
    pub(super) fn get(&self, scope: &Scope, request: &Request<'_>) -> Result<Answer, Status> {
        let version = parse_version(request.query.text("resourceVersion")).map_err(Status::unknown)?;
        self.check_future(version)?;
        let object = self.store.get(scope.resource.table, &scope.key()).ok_or_else(|| scope.not_found())?;
        Ok(Answer::object(200, scope, object))
    }

    pub(super) fn list(&self, scope: &Scope, request: &Request<'_>) -> Result<Answer, Status> {
        let selection = Selection::parse(scope, request)?;
        let limit = request.query.number("limit")?.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.filter(|limit| *limit > 0);
        let start = self.start(request, limit.is_some())?;
        let table = scope.resource.table;
        let revision = start.revision.unwrap_or(self.store.revision());
        let after = start.after.as_deref();
        let (items, next) = if revision == self.store.revision() {
            let all = self.store.list(table, &selection.prefix, after);
            page(all, &selection, limit)
        } else {
            let expired = if start.continued { CONTINUE_EXPIRED } else { LIST_EXPIRED };
            let objects = self
                .store
                .snapshot(table, &selection.prefix, revision)
                .map_err(|_| Status::expired(expired))?;
            let all = objects.iter().filter(|(key, _)| after.is_none_or(|after| key.as_ref() > after));
            page(all, &selection, limit)
        };
        let (token, remaining) = match next {
            Some(next) => (token(revision, &next.after), selection.is_plain().then_some(next.remaining)),
            None => (String::new(), None),
        };
        let items = items.iter().map(|object| scope.resource.view(scope.version(), object)).collect();
        Ok(Answer::List(Box::new(List { scope: scope.clone(), items, revision, token, remaining })))
    }

    fn start(&self, request: &Request<'_>, limited: bool) -> Result<Start, Status> {
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
            let (revision, after) = parse_token(token)
                .ok_or_else(|| Status::bad_request("invalid continue token: continue key is not valid"))?;
            return Ok(Start { revision: Some(revision), after: Some(after), continued: true });
        }
        let version = parse_version(version)
            .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        self.check_future(version)?;
        let exact = rule == "Exact" || (rule.is_empty() && limited);
        let revision = version.filter(|version| *version > 0 && exact);
        Ok(Start { revision, after: None, continued: false })
    }

    /// Refuses a resource version that the server has not reached.
    fn check_future(&self, version: Option<u64>) -> Result<(), Status> {
        let current = self.store.revision();
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
}

/// Where the next page starts.
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
    // As in the real server, what is left need not match: the next page may turn out empty.
    let remaining = all.count();
    let next = last.filter(|_| remaining > 0).map(|last| Next { after: last.to_string(), remaining });
    (items, next)
}

fn token(revision: u64, after: &str) -> String {
    let token = json!({"v": CONTINUE_VERSION, "rv": revision, "start": format!("{after}\u{0}")});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn parse_token(token: &str) -> Option<(u64, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
    let token: Value = serde_json::from_slice(&bytes).ok()?;
    let start = token.get("start")?.as_str()?.strip_suffix('\u{0}')?;
    (token.get("v")?.as_str()? == CONTINUE_VERSION).then_some(())?;
    Some((token.get("rv")?.as_u64()?, start.to_owned()))
}

/// Reads a resource version; none if it is unset.
pub(super) fn parse_version(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let text = quote(text);
        format!("resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: invalid syntax")
    })
}

/// The rules for `resourceVersionMatch` and `sendInitialEvents`.
fn check_match(request: &Request<'_>, version: &str, rule: &str, token: &str) -> Result<(), Status> {
    let forbidden = |field: &str, why: String| {
        let cause = Cause {
            reason: "FieldValueForbidden",
            field: field.to_owned(),
            message: format!("Forbidden: {why}"),
        };
        Err(Status::invalid(Qualified { group: "meta.k8s.io", name: "ListOptions" }, "", &[cause]))
    };
    let field = "resourceVersionMatch";
    if request.query.get("sendInitialEvents").is_some() {
        return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list".to_owned());
    }
    if rule.is_empty() {
        return Ok(());
    }
    if version.is_empty() {
        return forbidden(
            field,
            "resourceVersionMatch is forbidden unless resourceVersion is provided".to_owned(),
        );
    }
    if !token.is_empty() {
        return forbidden(field, "resourceVersionMatch is forbidden when continue is provided".to_owned());
    }
    match rule {
        "Exact" if version == "0" => forbidden(
            field,
            r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#.to_owned(),
        ),
        "Exact" | "NotOlderThan" => Ok(()),
        other => {
            let cause = Cause {
                reason: "FieldValueNotSupported",
                field: field.to_owned(),
                message: format!(
                    r#"Unsupported value: {}: supported values: "Exact", "NotOlderThan", """#,
                    quote(other)
                ),
            };
            Err(Status::invalid(Qualified { group: "meta.k8s.io", name: "ListOptions" }, "", &[cause]))
        }
    }
}

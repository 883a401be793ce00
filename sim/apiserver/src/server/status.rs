//! `Status`: the server's answer without an object.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::cause::Cause;

/// A failure as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`; empty when the server gives none.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// The object and the causes of the failure.
    pub details: Box<Details>,
}

/// The object and the causes of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group of `kind`.
    pub group: String,
    /// Plural resource name, or the kind where the server returns that.
    pub kind: String,
    /// Single field errors: reason, message, field.
    pub causes: Vec<(String, String, String)>,
    /// The token with which a list can still continue; empty if there is none.
    pub go_on: String,
    /// Delay before a retry; zero if unset.
    pub retry_after_seconds: u32,
    /// Whether the server sends the details although they are empty.
    pub even_if_empty: bool,
}

/// A resource or kind together with its group, as in messages: `deployments.apps`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Qualified<'a> {
    pub(crate) group: &'a str,
    pub(crate) name: &'a str,
}

impl std::fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(self.name) } else { write!(f, "{}.{}", self.name, self.group) }
    }
}

impl Status {
    /// Returns a failure without details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::default() }
    }

    fn about(code: u16, reason: &'static str, subject: Qualified<'_>, name: &str, message: String) -> Self {
        let details = Details {
            name: name.to_owned(),
            group: subject.group.to_owned(),
            kind: subject.name.to_owned(),
            ..Details::default()
        };
        Self { code, reason, message, details: Box::new(details) }
    }

    pub(crate) fn not_found(resource: Qualified<'_>, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{resource} {} not found", quote(name)))
    }

    pub(crate) fn already_exists(resource: Qualified<'_>, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::about(409, "AlreadyExists", resource, name, message)
    }

    pub(crate) fn conflict(resource: Qualified<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::about(409, "Conflict", resource, name, message)
    }

    /// Returns the conflict of an update with an outdated resource version.
    pub(crate) fn modified(resource: Qualified<'_>, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn forbidden(resource: Qualified<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::about(403, "Forbidden", resource, name, message)
    }

    pub(crate) fn invalid(kind: Qualified<'_>, name: &str, causes: &[Cause]) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !causes.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(causes));
        }
        let mut status = Self::about(422, "Invalid", kind, name, message);
        status.details.causes = causes
            .iter()
            .map(|cause| (cause.reason.to_owned(), cause.message.clone(), cause.field.clone()))
            .collect();
        status
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(message: &str) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}"))
    }

    /// Returns the failure for an existing resource that does not support the verb.
    pub(crate) fn method_not_allowed() -> Self {
        let text = "the server does not allow this method on the requested resource";
        Self::generic(405, "MethodNotAllowed", text)
    }

    /// Returns the failure for a path that does not exist, below a known group.
    pub(crate) fn no_such_path() -> Self {
        Self::generic(404, "NotFound", "the server could not find the requested resource")
    }

    /// Returns a failure from before the resource was resolved, or one of unknown origin: its details are present, but empty.
    pub(crate) fn generic(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let mut status = Self::new(code, reason, message);
        status.details.even_if_empty = true;
        status
    }

    /// Returns a failure inside the server.
    pub(crate) fn internal(why: &str) -> Self {
        let mut status = Self::new(500, "InternalError", format!("Internal error occurred: {why}"));
        status.details.causes.push((String::new(), why.to_owned(), String::new()));
        status
    }

    /// Returns an error for which the server has no reason.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Returns the object in the form of the API.
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("kind".into(), "Status".into());
        object.insert("apiVersion".into(), "v1".into());
        let go_on = &self.details.go_on;
        let metadata = if go_on.is_empty() { json!({}) } else { json!({"continue": go_on}) };
        object.insert("metadata".into(), metadata);
        object.insert("status".into(), "Failure".into());
        object.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            object.insert("reason".into(), self.reason.into());
        }
        let details = self.details.to_value();
        if self.details.even_if_empty || details.as_object().is_some_and(|map| !map.is_empty()) {
            object.insert("details".into(), details);
        }
        object.insert("code".into(), self.code.into());
        Value::Object(object)
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut object = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind)] {
            if !text.is_empty() {
                object.insert(key.into(), text.clone().into());
            }
        }
        if !self.causes.is_empty() {
            object.insert("causes".into(), self.causes.iter().map(cause_value).collect());
        }
        if self.retry_after_seconds > 0 {
            object.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(object)
    }
}

fn cause_value((reason, message, field): &(String, String, String)) -> Value {
    let mut object = Map::new();
    for (key, text) in [("reason", reason), ("message", message), ("field", field)] {
        if !text.is_empty() {
            object.insert(key.into(), text.clone().into());
        }
    }
    Value::Object(object)
}

/// Joins field errors as Go's aggregate does: each text once, brackets around more than one.
fn aggregate(causes: &[Cause]) -> String {
    let mut seen = BTreeSet::new();
    let texts: Vec<String> =
        causes.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Quotes a string as Go's `%q` does.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => {
                write!(quoted, "\\x{:02x}", u32::from(c)).expect("a string takes all writes");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

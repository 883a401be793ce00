//! The outcomes of actions: values, and classes of failure. Each kind of action has one type of value.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::Document;
use crate::image::FoundImage;
use crate::object::Kind;

/// The result of an action.
pub type Outcome = Result<Success, Failure>;

/// The value that a successful action returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Success {
    /// The current object (get, apply, create, update, patch; delete, if the server returns what it deletes).
    Object(Arc<Value>),
    /// The existing objects (list).
    Objects(Vec<Arc<Value>>),
    /// The kinds that an API version serves (discover).
    Kinds(Vec<Arc<Kind>>),
    /// No value (watch, unwatch, connect; delete, if the object is gone).
    Done,
    /// The document, reduced to the fields to keep; it may not be JSON at all (fetch).
    Document(Document),
    /// The document exceeds the size limit, or did not arrive within the time limit (fetch).
    Oversized {
        /// Why it was not read to its end.
        why: String,
        /// Whether the time limit was reached first: a later attempt may get all of it.
        is_late: bool,
    },
    /// The image as the registry has it (resolve image). The failure is [`ErrorKind::Forbidden`] for credentials that the
    /// registry does not accept, and [`ErrorKind::NotFound`] for an image that it does not have.
    Image(FoundImage),
    /// The result of each event, in their order (publish). [`ErrorKind::Unknown`] means that an event was sent but never
    /// confirmed, because the connection ended or the broker did not answer in time. Every other failure is the broker's
    /// answer to this event alone.
    Published(Vec<Result<(), Failure>>),
}

/// The failure of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{class}: {message}")]
pub struct Failure {
    /// The class of the failure.
    pub class: ErrorKind,
    /// The server's message; it never contains a secret.
    pub message: String,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// Returns a failure without `Retry-After`.
    pub fn new(class: ErrorKind, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }

    /// Returns whether the failure may be temporary, so that a retry can succeed without any change by people.
    pub fn passes(&self) -> bool {
        !matches!(
            self.class,
            ErrorKind::Forbidden | ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::KindNotServed
        )
    }

    /// Returns whether the object of the request may not exist any more. Only a read shows whether that is so.
    pub fn is_absence(&self) -> bool {
        matches!(self.class, ErrorKind::NotFound | ErrorKind::KindNotServed)
    }
}

/// The classes of failure that Kubernetes clients can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ErrorKind {
    /// 404: there is no such object, or for a create no such namespace.
    NotFound,
    /// 404: the API server does not serve the kind of the request, or the API version of a discovery.
    KindNotServed,
    /// 409 `AlreadyExists`.
    AlreadyExists,
    /// 409 `Conflict`: a precondition did not hold. Or 403, for a create in a namespace that is being deleted.
    Conflict,
    /// 400, 405, 413, 415 or 422: the request itself is invalid and a retry would fail again.
    Invalid,
    /// 401 or 403: the request is not permitted.
    Forbidden,
    /// 410: the requested version is no longer available.
    Gone,
    /// 429: too many requests.
    Throttled,
    /// 5xx that is not unknown, or no connection: it did not take effect.
    Unavailable,
    /// Timed out, cut off, or 5xx without a reason, as a proxy answers: it may have taken effect.
    Unknown,
}

impl ErrorKind {
    /// All classes, for tables and tests.
    pub const ALL: [Self; 10] = [
        Self::NotFound,
        Self::KindNotServed,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Invalid,
        Self::Forbidden,
        Self::Gone,
        Self::Throttled,
        Self::Unavailable,
        Self::Unknown,
    ];

    /// Returns a short name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::KindNotServed => "kind_not_served",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Forbidden => "forbidden",
            Self::Gone => "gone",
            Self::Throttled => "throttled",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the outcome of an action. What carries out actions gives each one the value that it asked for
/// ([`wire::decode`](crate::wire::decode)). Any other value is a bug, and no decision may follow from it: these functions
/// panic.
pub trait Answer {
    /// Returns the object that a get, apply, create, update or patch read or wrote.
    fn object(self) -> Result<Arc<Value>, Failure>;

    /// Returns the object that a get read; `None` if it does not exist, or if its kind is not served.
    fn found(self) -> Result<Option<Arc<Value>>, Failure>;

    /// Returns the object that a write left, such as one with finalizers after its delete; `None` if it is gone.
    fn remaining(self) -> Result<Option<Arc<Value>>, Failure>;

    /// Returns the objects of a list.
    fn objects(self) -> Result<Vec<Arc<Value>>, Failure>;

    /// Returns the kinds that a discovery found.
    fn kinds(self) -> Result<Vec<Arc<Kind>>, Failure>;

    /// Returns the image that a registry has.
    fn image(self) -> Result<FoundImage, Failure>;

    /// Returns the result of each event of a publish, in their order.
    fn published(self) -> Result<Vec<Result<(), Failure>>, Failure>;
}

impl Answer for Outcome {
    fn object(self) -> Result<Arc<Value>, Failure> {
        match self? {
            Success::Object(object) => Ok(object),
            other => impossible("an action on one object", &other),
        }
    }

    fn found(self) -> Result<Option<Arc<Value>>, Failure> {
        match self {
            Err(failure) if failure.class == ErrorKind::NotFound => Ok(None),
            outcome => outcome.object().map(Some),
        }
    }

    fn remaining(self) -> Result<Option<Arc<Value>>, Failure> {
        match self? {
            Success::Object(object) => Ok(Some(object)),
            Success::Done => Ok(None),
            other => impossible("a write", &other),
        }
    }

    fn objects(self) -> Result<Vec<Arc<Value>>, Failure> {
        match self? {
            Success::Objects(objects) => Ok(objects),
            other => impossible("a list", &other),
        }
    }

    fn kinds(self) -> Result<Vec<Arc<Kind>>, Failure> {
        match self? {
            Success::Kinds(kinds) => Ok(kinds),
            other => impossible("a discovery", &other),
        }
    }

    fn image(self) -> Result<FoundImage, Failure> {
        match self? {
            Success::Image(image) => Ok(image),
            other => impossible("a query of a registry", &other),
        }
    }

    fn published(self) -> Result<Vec<Result<(), Failure>>, Failure> {
        match self? {
            Success::Published(results) => Ok(results),
            other => impossible("a publish", &other),
        }
    }
}

fn impossible(action: &str, answer: &Success) -> ! {
    unreachable!("{action} was answered with {answer:?}")
}

/// Returns the outcome of a batch of one action.
pub fn only(outcomes: Vec<Outcome>) -> Outcome {
    match <[Outcome; 1]>::try_from(outcomes) {
        Ok([outcome]) => outcome,
        Err(outcomes) => unreachable!("one action has {} outcomes", outcomes.len()),
    }
}

/// Returns the outcome of the next action of a batch.
pub fn next(outcomes: &mut impl Iterator<Item = Outcome>) -> Outcome {
    outcomes.next().unwrap_or_else(|| unreachable!("an action of the batch has no outcome"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_object_is_no_failure_of_a_read() {
        let object = Arc::new(json!({ "kind": "Secret" }));
        let read = || Ok(Success::Object(Arc::clone(&object)));
        assert_eq!(read().found(), Ok(Some(Arc::clone(&object))));
        assert_eq!(read().object(), Ok(object.clone()));
        let failed = |class| Outcome::Err(Failure::new(class, "no"));
        for class in ErrorKind::ALL {
            assert_eq!(failed(class).found().is_ok(), class == ErrorKind::NotFound, "{class}");
            assert_eq!(failed(class).object(), Err(Failure::new(class, "no")));
        }
    }

    #[test]
    fn a_write_leaves_an_object_or_nothing() {
        let object = Arc::new(json!({ "kind": "Secret" }));
        assert_eq!(Ok(Success::Object(Arc::clone(&object))).remaining(), Ok(Some(object)));
        assert_eq!(Outcome::Ok(Success::Done).remaining(), Ok(None));
        // A delete that fails has not shown that the object is gone.
        assert!(Outcome::Err(Failure::new(ErrorKind::NotFound, "no")).remaining().is_err());
    }

    #[test]
    #[should_panic = "an action on one object was answered with Done"]
    fn an_impossible_answer_is_rejected_loudly() {
        let _ = Outcome::Ok(Success::Done).object();
    }

    #[test]
    #[should_panic = "a list was answered with Done"]
    fn a_list_is_not_answered_with_anything_else() {
        let _ = Outcome::Ok(Success::Done).objects();
    }

    #[test]
    #[should_panic = "one action has 2 outcomes"]
    fn one_action_has_one_outcome() {
        let _ = only(vec![Ok(Success::Done), Ok(Success::Done)]);
    }
}

//! What a machine asks of the world, and how the world answers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::broker::{Broker, CloudEvent, SecretString};
use super::document::Fields;
use super::image::FoundImage;
use crate::object::{Kind, ObjectRef};

/// Names one request among all that a machine ever makes; answers quote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActionId(pub u64);

/// One action with the id that its answer quotes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Quoted by the answer.
    pub id: ActionId,
    /// What is to be done.
    pub action: Action,
}

/// Everything a controller can ask for. Plain data: it can be stored, compared and replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Begins to watch a kind; a second watch of the same kind replaces the first. Answered at once with
    /// [`Success::Done`]; what is seen arrives as events of its own.
    Watch {
        /// What to watch.
        kind: Arc<Kind>,
        /// Which of its objects, and how much of each.
        scope: Scope,
    },
    /// Ends the watch of a kind.
    Unwatch {
        /// The kind.
        kind: Arc<Kind>,
    },
    /// Asks which kinds an API version serves (subresources left out). An API version that isn't served at all is
    /// [`Class::NotFound`].
    Discover {
        /// Such as `v1` or `apps/v1`.
        api_version: String,
    },
    /// Reads one object, from the newest state rather than from a cache.
    Get {
        /// The object.
        target: ObjectRef,
        /// Whether its metadata suffices (`PartialObjectMetadata`).
        metadata_only: bool,
    },
    /// Reads the objects of a kind, from the newest state rather than from a cache. A name in the scope is not heeded.
    List {
        /// The kind.
        kind: Arc<Kind>,
        /// Which of its objects, and how much of each.
        scope: Scope,
    },
    /// Server-side apply with our field manager, forced. A `metadata.uid` or `metadata.resourceVersion` in the
    /// manifest is a precondition.
    Apply {
        /// The object.
        target: ObjectRef,
        /// All fields that we want to own.
        manifest: Arc<Value>,
    },
    /// Creates an object.
    Create {
        /// The object; its name may be empty where the manifest has `generateName`.
        target: ObjectRef,
        /// The whole object.
        manifest: Arc<Value>,
    },
    /// Replaces an object (PUT); `metadata.resourceVersion` in the manifest is a precondition.
    Update {
        /// The object.
        target: ObjectRef,
        /// The whole object.
        manifest: Arc<Value>,
    },
    /// Merge patch of an object or of its status. A `metadata.resourceVersion` in the patch is a precondition.
    Patch {
        /// The object.
        target: ObjectRef,
        /// `status`, or none for the object itself.
        subresource: Option<Subresource>,
        /// The merge patch.
        patch: Arc<Value>,
    },
    /// Deletes an object in the background, if it is still the one meant.
    Delete {
        /// The object.
        target: ObjectRef,
        /// Its uid.
        uid: String,
        /// Its resource version, where the proof that it is ours was read from that version.
        resource_version: Option<String>,
    },
    /// Reads a JSON document from an API other than Kubernetes (HTTP GET).
    Fetch {
        /// The whole URL.
        url: String,
        /// Headers beyond those that every request has. They are no secrets.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        /// How long the whole answer may take.
        timeout: Duration,
        /// What is kept of the document ([`Condenser`](super::document::Condenser)).
        keep: Arc<Fields>,
    },
    /// Asks a container registry for an image.
    ResolveImage {
        /// The reference, by tag or digest.
        image: String,
        /// `user:password`, if the registry is to be told who asks.
        credentials: Option<SecretString>,
    },
    /// Connects to a message broker, unless a connection to this very broker is open. Answered with [`Success::Done`]
    /// once events can be published.
    Connect {
        /// The broker.
        broker: Arc<Broker>,
    },
    /// Publishes events, and awaits what the broker says of each. Without an open connection none is sent:
    /// [`Class::Unavailable`].
    Publish {
        /// The broker.
        broker: Arc<Broker>,
        /// The events, in the order in which they are sent.
        events: Arc<[CloudEvent]>,
    },
}

impl Action {
    /// A short name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Watch { .. } => "watch",
            Self::Unwatch { .. } => "unwatch",
            Self::Discover { .. } => "discover",
            Self::Get { .. } => "get",
            Self::List { .. } => "list",
            Self::Apply { .. } => "apply",
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Patch { subresource: None, .. } => "patch",
            Self::Patch { subresource: Some(Subresource::Status), .. } => "patch_status",
            Self::Delete { .. } => "delete",
            Self::Fetch { .. } => "fetch",
            Self::ResolveImage { .. } => "find_image",
            Self::Connect { .. } => "connect",
            Self::Publish { .. } => "publish",
        }
    }

    /// Whether it may change the world.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Watch { .. }
            | Self::Unwatch { .. }
            | Self::Discover { .. }
            | Self::Get { .. }
            | Self::List { .. }
            | Self::Fetch { .. }
            | Self::ResolveImage { .. }
            | Self::Connect { .. } => false,
            Self::Publish { .. }
            | Self::Apply { .. }
            | Self::Create { .. }
            | Self::Update { .. }
            | Self::Patch { .. }
            | Self::Delete { .. } => true,
        }
    }

    /// The object that it is about, if it is about one.
    pub fn target(&self) -> Option<&ObjectRef> {
        match self {
            Self::Watch { .. }
            | Self::Unwatch { .. }
            | Self::Discover { .. }
            | Self::List { .. }
            | Self::Fetch { .. }
            | Self::ResolveImage { .. }
            | Self::Connect { .. }
            | Self::Publish { .. } => None,
            Self::Get { target, .. }
            | Self::Apply { target, .. }
            | Self::Create { target, .. }
            | Self::Update { target, .. }
            | Self::Patch { target, .. }
            | Self::Delete { target, .. } => Some(target),
        }
    }
}

/// Which objects of a kind a watch or list sees, and how much of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The namespace; none for all.
    pub namespace: Option<String>,
    /// The one object that is seen; none for all.
    pub name: Option<String>,
    /// A label selector in the API's syntax; empty for all.
    pub selector: String,
    /// Whether metadata suffices.
    pub metadata_only: bool,
}

/// The subresources that controllers write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subresource {
    /// `/status`.
    Status,
}

/// How an action ended.
pub type Outcome = Result<Success, Failure>;

/// What a successful action returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Success {
    /// The object as it is now (get, apply, create, update, patch; delete, where the server shows what it deletes).
    Object(Arc<Value>),
    /// The objects that there are (list).
    Objects(Vec<Arc<Value>>),
    /// The kinds that an API version serves (discover).
    Kinds(Vec<Arc<Kind>>),
    /// Nothing to tell (watch, unwatch, connect; delete, where the object is gone).
    Done,
    /// The document, of which what should be kept is left; it may be no JSON at all (fetch).
    Document(Arc<str>),
    /// The document is longer than what is read, or than what comes in time (fetch).
    Oversized {
        /// Why it was not read to its end.
        why: String,
        /// Whether its time was over first: a later attempt may get all of it.
        is_late: bool,
    },
    /// The image as the registry has it (find image). [`Class::Forbidden`] stands for credentials that the registry does
    /// not accept, [`Class::NotFound`] for an image that it does not have.
    Image(FoundImage),
    /// What became of each event, in their order (publish). [`Class::Unknown`] stands for an event that was sent but
    /// never confirmed, because the connection ended or the broker was silent for too long; every other failure is the
    /// broker's answer to this event alone.
    Published(Vec<Result<(), Failure>>),
}

/// What an unsuccessful action met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{class}: {message}")]
pub struct Failure {
    /// What kind of failure.
    pub class: Class,
    /// The server's own words; never holds a secret.
    pub message: String,
    /// How long the server asked to be left alone.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure without a wish to be left alone.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }

    /// Whether it may pass without anybody doing anything about it.
    pub fn passes(&self) -> bool {
        !matches!(self.class, Class::Forbidden | Class::Invalid | Class::NotFound)
    }
}

/// The classes of failure that Kubernetes clients meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    /// 404: there is no such object, or no such resource.
    NotFound,
    /// 409 `AlreadyExists`.
    AlreadyExists,
    /// 409 `Conflict`: a precondition did not hold.
    Conflict,
    /// 400, 405, 413, 415 or 422: the request itself is wrong and will be wrong again.
    Invalid,
    /// 401 or 403: we may not do this.
    Forbidden,
    /// 410: the version asked for is no longer kept.
    Gone,
    /// 429: too many requests.
    Throttled,
    /// 5xx or no connection: it did not take effect.
    Unavailable,
    /// Timed out or cut off: it may have taken effect.
    Unknown,
}

impl Class {
    /// All classes, for tables and tests.
    pub const ALL: [Self; 9] = [
        Self::NotFound,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Invalid,
        Self::Forbidden,
        Self::Gone,
        Self::Throttled,
        Self::Unavailable,
        Self::Unknown,
    ];

    /// A short name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
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

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

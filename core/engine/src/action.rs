//! The actions that a machine requests, and their outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::broker::{Broker, CloudEvent, SecretString};
use super::document::Fields;
use crate::object::{Kind, ObjectRef, ResourceVersion, Uid};

pub use crate::outcome::{Answer, ErrorKind, Failure, Outcome, Success, next, only};

/// Identifies one request among all that a machine ever makes. The answer carries the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActionId(pub u64);

/// One action with the id that its answer carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The id that the answer carries.
    pub id: ActionId,
    /// The action to execute.
    pub action: Action,
}

/// An action that a controller can request. It is plain data: it can be stored, compared and replayed. Each variant is executed
/// by another part of the shell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// One request to the Kubernetes API.
    Kube(KubeRequest),
    /// Starts or stops the watch of a kind. The answer is an immediate [`Success::Done`].
    Watch(WatchCommand),
    /// One request to another HTTP API.
    Http(Fetch),
    /// One query of a container registry.
    Registry(ResolveImage),
    /// One request to a message broker.
    Broker(BrokerRequest),
}

/// A request to the Kubernetes API with one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum KubeRequest {
    /// Lists the kinds that an API version serves, without subresources. The failure is [`ErrorKind::KindNotServed`] if the API
    /// version is not served at all.
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
    /// Reads the objects of a kind, from the newest state rather than from a cache. A name in the scope is ignored.
    List {
        /// The kind.
        kind: Arc<Kind>,
        /// Which of its objects, and which of their fields.
        scope: Scope,
    },
    /// Server-side apply with our field manager, forced. A `metadata.uid` or `metadata.resourceVersion` in the
    /// manifest is a precondition.
    Apply {
        /// The object.
        target: ObjectRef,
        /// All fields that the operator wants to own.
        manifest: Arc<Value>,
    },
    /// Creates an object.
    Create {
        /// The object; its name may be empty if the manifest has `generateName`.
        target: ObjectRef,
        /// The whole object.
        manifest: Arc<Value>,
    },
    /// Creates a Secret with random values. What executes actions generates them just before it sends the request
    /// ([`wire::generated`](crate::wire::generated)), so that neither an action nor an outcome ever contains them. The answer is
    /// that of [`KubeRequest::GetLengths`].
    CreateSecret {
        /// The Secret.
        target: ObjectRef,
        /// The Secret without the random values.
        manifest: Arc<Value>,
        /// The number of random bytes for each key of its data.
        generate: BTreeMap<String, usize>,
    },
    /// Reads a Secret without its values. The answer has its `metadata` and, in `lengths`, the number of bytes under each key.
    GetLengths {
        /// The Secret.
        target: ObjectRef,
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
        /// `status`, or `None` for the object itself.
        subresource: Option<Subresource>,
        /// The merge patch.
        patch: Arc<Value>,
    },
    /// Deletes an object in the background, if it still has the given uid.
    Delete {
        /// The object.
        target: ObjectRef,
        /// Its uid.
        uid: Uid,
        /// Its resource version, if the proof that it is ours was read from that version.
        resource_version: Option<ResourceVersion>,
    },
}

/// A command about the watch of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WatchCommand {
    /// Starts the watch. A second watch of the same kind replaces the first. The objects arrive as events of their own.
    Start {
        /// The kind to watch.
        kind: Arc<Kind>,
        /// Which of its objects, and which of their fields.
        scope: Scope,
    },
    /// Stops the watch.
    Stop {
        /// The kind.
        kind: Arc<Kind>,
    },
}

/// Reads a JSON document from an API other than Kubernetes (HTTP GET).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fetch {
    /// The whole URL.
    pub url: String,
    /// Headers beyond those that every request has. They are no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The time limit for the whole answer.
    pub timeout: Duration,
    /// The fields of the document that are kept ([`Condenser`](super::document::Condenser)).
    pub keep: Arc<Fields>,
}

/// Queries a container registry for an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolveImage {
    /// The reference, by tag or digest.
    pub image: String,
    /// `user:password`, if the registry needs credentials.
    pub credentials: Option<SecretString>,
}

/// A request to a message broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum BrokerRequest {
    /// Connects to a message broker, unless a connection to this very broker is open. The answer is [`Success::Done`] once
    /// events can be published.
    Connect {
        /// The broker.
        broker: Arc<Broker>,
    },
    /// Publishes events, and waits for the broker's confirmation of each. Without an open connection none is sent:
    /// [`ErrorKind::Unavailable`].
    Publish {
        /// The broker.
        broker: Arc<Broker>,
        /// The events, in the order in which they are sent.
        events: Arc<[CloudEvent]>,
    },
}

impl Action {
    /// Returns a short name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kube(request) => request.name(),
            Self::Watch(WatchCommand::Start { .. }) => "watch",
            Self::Watch(WatchCommand::Stop { .. }) => "unwatch",
            Self::Http(_) => "fetch",
            Self::Registry(_) => "find_image",
            Self::Broker(BrokerRequest::Connect { .. }) => "connect",
            Self::Broker(BrokerRequest::Publish { .. }) => "publish",
        }
    }

    /// Returns whether it may change an external system.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Kube(request) => request.is_write(),
            Self::Broker(request) => matches!(request, BrokerRequest::Publish { .. }),
            Self::Watch(_) | Self::Http(_) | Self::Registry(_) => false,
        }
    }

    /// Returns the object that it concerns, if it concerns one.
    pub fn target(&self) -> Option<&ObjectRef> {
        match self {
            Self::Kube(request) => request.target(),
            Self::Watch(_) | Self::Http(_) | Self::Registry(_) | Self::Broker(_) => None,
        }
    }
}

impl KubeRequest {
    /// Returns a short name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Discover { .. } => "discover",
            Self::Get { .. } | Self::GetLengths { .. } => "get",
            Self::List { .. } => "list",
            Self::Apply { .. } => "apply",
            Self::Create { .. } | Self::CreateSecret { .. } => "create",
            Self::Update { .. } => "update",
            Self::Patch { subresource: None, .. } => "patch",
            Self::Patch { subresource: Some(Subresource::Status), .. } => "patch_status",
            Self::Delete { .. } => "delete",
        }
    }

    /// Returns whether it may change an object.
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::Discover { .. } | Self::Get { .. } | Self::GetLengths { .. } | Self::List { .. }
        )
    }

    /// Returns the object that it concerns, if it concerns one.
    pub fn target(&self) -> Option<&ObjectRef> {
        match self {
            Self::Discover { .. } | Self::List { .. } => None,
            Self::Get { target, .. }
            | Self::GetLengths { target }
            | Self::Apply { target, .. }
            | Self::Create { target, .. }
            | Self::CreateSecret { target, .. }
            | Self::Update { target, .. }
            | Self::Patch { target, .. }
            | Self::Delete { target, .. } => Some(target),
        }
    }
}

/// Which objects of a kind a watch or list returns, and which fields of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// The only object that is returned; `None` for all.
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

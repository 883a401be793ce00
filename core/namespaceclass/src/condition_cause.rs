//! The problems because of which a binding is not ready: their reasons, texts and retries.

use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::scheduler::Verdict;
use serde::{Deserialize, Serialize};

use super::names::reason::{self, Reason};

/// A problem because of which a binding is not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionCause {
    /// The condition's reason.
    #[serde(deserialize_with = "reason::read")]
    pub reason: Reason,
    /// What failed, on which object, and how to fix it.
    pub message: String,
    /// Whether a retry may help.
    pub retry: bool,
}

impl ConditionCause {
    /// Returns the rank of the reason; the lowest rank becomes the condition's reason. Problems that people must fix come
    /// first, then problems that may be temporary, then repeated drift and deletions in progress.
    pub fn rank(&self) -> usize {
        const ORDER: [&str; 10] = [
            reason::INVALID_RESOURCES,
            reason::UNRESOLVED_VARIABLE,
            reason::OWNERSHIP_CONFLICT,
            reason::FORBIDDEN,
            reason::REJECTED,
            reason::APPLY_FAILED,
            reason::PRUNE_FAILED,
            reason::DRIFTED,
            reason::CONTESTED,
            reason::WAITING_FOR_DELETION,
        ];
        ORDER.iter().position(|reason| *reason == self.reason).unwrap_or(ORDER.len())
    }

    /// Returns whether users must correct it or finish it. The administrator of the operator must grant missing permissions.
    pub fn is_users(&self) -> bool {
        matches!(
            self.reason,
            reason::INVALID_RESOURCES
                | reason::UNRESOLVED_VARIABLE
                | reason::OWNERSHIP_CONFLICT
                | reason::REJECTED
                | reason::CONTESTED
                | reason::DRIFTED
                | reason::WAITING_FOR_DELETION
        )
    }

    /// An action failed. `passing` is the reason if the failure may be temporary.
    pub fn failed(what: &str, passing: Reason, failure: &Failure) -> Self {
        let (reason, remedy) = match failure.class {
            ErrorKind::Forbidden => (
                reason::FORBIDDEN,
                "; if the operator lacks the permission, grant it (chart value namespaceclass.rbac.rules)",
            ),
            ErrorKind::Invalid => (reason::REJECTED, "; correct the resource in the class"),
            ErrorKind::NotFound
            | ErrorKind::KindNotServed
            | ErrorKind::AlreadyExists
            | ErrorKind::Conflict
            | ErrorKind::Gone
            | ErrorKind::Throttled
            | ErrorKind::Unavailable
            | ErrorKind::Unknown => (passing, ""),
        };
        Self { reason, message: format!("{what}: {failure}{remedy}"), retry: true }
    }

    /// A change of an existing object failed. Some fields can't be changed once they are set.
    pub fn change_failed(what: &str, failure: &Failure) -> Self {
        let mut problem = Self::failed(what, reason::APPLY_FAILED, failure);
        if failure.class == ErrorKind::Invalid {
            problem.message.push_str(
                ", or, if a field can't be changed in an object that exists, delete the object: it is created again",
            );
        }
        problem
    }

    /// Another client keeps changing a resource that was applied.
    pub fn contested(what: &str) -> Self {
        let message = format!(
            "{what}: another client keeps changing or removing it; stop that client, or remove the fields \
             that it changes from the class (metadata.managedFields names the writers)"
        );
        Self { reason: reason::CONTESTED, message, retry: false }
    }

    /// Another client has changed or removed a resource, and the class has that reported only.
    pub fn drifted(what: &str, difference: &str) -> Self {
        let message = format!(
            "{what}: {difference}; undo the change, or set spec.drift of the class to Repair \
             (metadata.managedFields names the writers)"
        );
        Self { reason: reason::DRIFTED, message, retry: false }
    }

    /// A resource that left the class stays, because the class has mistakes.
    pub fn kept(what: &str) -> Self {
        let message =
            format!("{what} is no longer in the class, but is kept until the errors in the class are fixed");
        Self { reason: reason::INVALID_RESOURCES, message, retry: false }
    }

    /// A resource is being deleted.
    pub fn waiting(what: &str) -> Self {
        let message = format!("{what} is being deleted; waiting until it is gone");
        Self { reason: reason::WAITING_FOR_DELETION, message, retry: true }
    }

    /// It is said that the API version of a resource to remove is not served.
    pub fn unserved(what: &str, api_version: &str) -> Self {
        let message = format!(
            "{what}: {api_version} is not served; if that lasts for a minute, the object counts as gone"
        );
        Self { reason: reason::PRUNE_FAILED, message, retry: true }
    }

    /// An object of that name belongs to another owner.
    pub fn conflict(what: &str, owner: &str) -> Self {
        let message = format!(
            "{what} exists and belongs to {owner}; rename it in the class, or remove the other owner's object"
        );
        Self { reason: reason::OWNERSHIP_CONFLICT, message, retry: true }
    }
}

/// Returns a verdict with a retry if that may resolve any of the causes.
pub fn verdict(causes: &[ConditionCause], recheck: Option<Duration>) -> Verdict {
    // A mistake that users must correct is not a failure of the operator, unless something else has failed.
    let retried = || causes.iter().filter(|problem| problem.retry);
    match retried().find(|problem| !problem.is_users()).or(retried().next()) {
        Some(first) => Verdict::Retry {
            reason: first.message.clone(),
            backoff: None,
            within: recheck,
            user_error: first.is_users(),
        },
        None => recheck.map_or(Verdict::Converged, Verdict::Requeue),
    }
}

//! The result of a cluster's reconcile: the server in its kubeconfig, and the state of its Secret for Argo CD.

use lockstep_engine::object::{Name, Uid};
use serde::{Deserialize, Serialize};

/// The stored result of the reconcile of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The cluster's uid.
    pub uid: Uid,
    /// The server in the kubeconfig when it was last usable.
    pub server: Option<String>,
    /// The other cluster that has that server already.
    pub rival: Option<Rival>,
    /// Why the Secret is not in its desired state.
    pub problem: Option<Problem>,
    /// Whether the last attempt failed. A failure is reported when the next attempt fails too.
    pub(crate) failing: bool,
    /// The version of the kubeconfig that was read, and of the Secret that it was compared with.
    pub(crate) compared: Option<Compared>,
}

impl Found {
    /// Returns the server that the cluster owns.
    pub fn used_server(&self) -> Option<String> {
        self.server.clone().filter(|_| self.rival.is_none())
    }

    /// Returns the result without the request for a server that the cluster never owned.
    pub(crate) fn unclaimed(self) -> Self {
        Self { server: self.used_server(), rival: None, ..self }
    }
}

/// Why a Secret is not in its desired state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// The message, for people.
    pub message: String,
    /// Whether it may be temporary.
    pub passes: bool,
}

impl Problem {
    /// Returns a problem that people have to fix.
    pub(crate) fn lasting(message: String) -> Self {
        Self { message, passes: false }
    }
}

/// The versions of the kubeconfig and of Argo CD's Secret.
pub(crate) type Compared = (String, Option<String>);

/// A server for which the Secret of a cluster is about to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The cluster's uid.
    pub(crate) uid: Uid,
    /// The server.
    pub(crate) server: String,
}

/// Another cluster with the same server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    /// Its name.
    pub(crate) cluster: Name,
    /// Whether it is not being deleted.
    pub(crate) stays: bool,
}

impl Rival {
    /// Returns why the server can't be used.
    pub(crate) fn describe(&self, server: &str) -> String {
        let cluster = &self.cluster;
        if self.stays {
            format!(
                "DPUCluster {cluster} has the same server {server}, but Argo CD identifies clusters by their server; change the server of one of them"
            )
        } else {
            format!(
                "DPUCluster {cluster}, which is being deleted, has the same server {server}; waiting until it is gone"
            )
        }
    }
}

//! Argo CD's repo-server, which renders charts. While it does not answer, Argo CD can compare no Application, and what runs on the
//! clusters stays as it is.

use lockstep_engine::object::ObjectRef;

use super::model::NAMESPACE;
use crate::kinds::config_map_kind;
use crate::read_view::ReadView;

/// The error of a comparison while it does not answer.
pub(super) const REFUSED: &str = "failed to generate manifest for source 1 of 1: rpc error: code = Unavailable desc = connection \
                                  error: desc = \"transport: Error while dialing: dial tcp 10.96.0.81:8081: connect: connection \
                                  refused\"";

/// Returns the ConfigMap that stops the repo-server as long as it exists.
pub fn repo_server_outage() -> ObjectRef {
    ObjectRef::namespaced(&config_map_kind(), NAMESPACE, "repo-server-outage")
}

/// Returns whether it does not answer.
pub(super) fn is_down(look: &ReadView<'_>) -> bool {
    look.get(&repo_server_outage()).is_some()
}

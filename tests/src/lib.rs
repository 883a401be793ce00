//! What the tests across crates share: a real Kubernetes control plane, and the comparison of the API server model
//! with it.

pub mod conformance;
pub mod control_plane;

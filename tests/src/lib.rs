//! What the tests across crates share: a real Kubernetes control plane.

pub mod control_plane;

//! The objects of the Sentinel, and the password of its broker.

/// The namespace of all objects.
pub(super) const NAMESPACE: &str = "hyperfleet-system";
/// The SentinelConfig.
pub(super) const CONFIG: &str = "cluster-sentinel-us-east";
/// The initial password of the broker.
pub(super) const PASSWORD: &str = "tops3cret-1";

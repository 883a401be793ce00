//! Tests the Bridge with models of the systems around it, on the embedded API server and on a real one. The real one has the
//! upstream CRDs if `LOCKSTEP_UPSTREAM_CRDS` names a folder with them.

#[path = "bridge/lifecycle.rs"]
mod lifecycle;
#[path = "bridge/validation.rs"]
mod validation;

use lockstep_tests::bridge::Site;

/// Runs each test on both backends, as a tenant of its own.
macro_rules! on_both_grounds {
    ($($module:ident::$test:ident = $number:literal),* $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$module::$test(super::Site::embedded(), $number).await
            })*
        }
        mod real {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$module::$test(super::Site::real(), $number).await
            })*
        }
    };
}

on_both_grounds!(
    lifecycle::a_bridge_is_created_changed_and_deleted = 10,
    lifecycle::a_bridge_on_node_ports = 15,
    lifecycle::a_bridge_with_a_pool_of_its_own = 16,
    validation::dpucluster_validation_end_to_end = 11,
    validation::dpucluster_deletion = 12,
    validation::field_indexing = 13,
    validation::dpucluster_validation_real_cluster = 14,
);

//! Tests bridges at the API server: what it accepts, rejects, defaults and shows, on the embedded one and on a real one.
//!
//! Each table of cases exists once and has one snapshot, so both servers give the same results in the same words.

use anyhow::ensure;
use kube::CustomResourceExt as _;
use lockstep_crds::bridge::DPFHCPBridge;
use lockstep_tests::admission::{Court, set, shown};
use serde_json::{Value, json};

#[path = "bridge_admission/exposure.rs"]
mod exposure;
#[path = "bridge_admission/fields.rs"]
mod fields;
#[path = "bridge_admission/serving.rs"]
mod serving;
#[path = "bridge_admission/status.rs"]
mod status;
#[path = "bridge_admission/update.rs"]
mod update;

/// Runs each test on both backends.
macro_rules! on_both_grounds {
    ($($module:ident::$test:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$module::$test(super::embedded(stringify!($test)).await?).await
            })*
        }
        mod real {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$module::$test(super::real(stringify!($test)).await?).await
            })*
        }
    };
}

on_both_grounds!(
    fields::fields_are_required_and_typed,
    fields::lengths_end_at_their_limits,
    fields::base_domains,
    fields::release_images,
    fields::networks_and_capabilities_are_those_that_hypershift_accepts,
    fields::etcd_encryption,
    fields::metallb_pools,
    fields::cluster_types,
    fields::policies,
    fields::references,
    exposure::addresses,
    exposure::exposure_and_address_go_together,
    exposure::a_pool_needs_a_load_balancer,
    exposure::several_mistakes_are_reported_at_once,
    update::what_is_immutable_stays,
    update::encryption_is_chosen_at_creation,
    update::a_pool_is_chosen_at_creation,
    update::what_is_mutable_changes,
    update::the_spec_cannot_be_dropped,
    status::the_status_has_an_endpoint_of_its_own,
    status::what_a_status_may_say,
    serving::what_is_left_out_is_filled_in,
    serving::unknown_fields_are_pruned_or_rejected,
    serving::tables_show_what_matters,
    serving::names_are_discovered,
    serving::the_documented_patterns_are_taken,
    serving::the_examples_are_taken,
    serving::the_infrastructure_is_taken,
);

async fn embedded(test: &str) -> anyhow::Result<Court> {
    Court::embedded(&DPFHCPBridge::crd(), bridge(Some(spec())), test).await
}

async fn real(test: &str) -> anyhow::Result<Court> {
    Court::real(&DPFHCPBridge::crd(), bridge(Some(spec())), test).await
}

/// Returns a valid spec with a load balancer.
fn spec() -> Value {
    json!({
        "dpuClusterRef": {"name": "dpu", "namespace": "dpf-operator-system"},
        "baseDomain": "clusters.example.com",
        "ocpReleaseImage": "quay.io/openshift-release-dev/ocp-release:4.19.0-multi",
        "sshKeySecretRef": {"name": "ssh"},
        "pullSecretRef": {"name": "pull"},
        "etcdStorageClass": "fast",
        "controlPlaneAvailabilityPolicy": "HighlyAvailable",
        "infrastructureAvailabilityPolicy": "SingleReplica",
        "exposeThroughLoadBalancer": true,
        "metalLBVirtualIP": "192.168.1.100",
        "clusterType": "dpf-test",
    })
}

/// Returns the DPFHCPBridge with a spec, or without one.
fn bridge(spec: Option<Value>) -> Value {
    let mut object = json!({
        "apiVersion": "dpf.hcp.bridge.com/v1alpha1",
        "kind": "DPFHCPBridge",
        "metadata": {"name": "bridge"},
    });
    if let Some(spec) = spec {
        object["spec"] = spec;
    }
    object
}

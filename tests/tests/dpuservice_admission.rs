//! Tests DPUServices at the API server: what it accepts, rejects and shows, on the embedded one and on a real one.
//!
//! Each table of cases exists once and has one snapshot, so both servers give the same results in the same words. A real server
//! validates the same values in the underlying kinds of Kubernetes.

use anyhow::ensure;
use kube::CustomResourceExt as _;
use lockstep_crds::dpuservice::DPUService;
use lockstep_tests::admission::Court;
use serde_json::{Value, json};

#[path = "dpuservice_admission/daemon_set.rs"]
mod daemon_set;
#[path = "dpuservice_admission/labels.rs"]
mod labels;
#[path = "dpuservice_admission/serving.rs"]
mod serving;
#[path = "dpuservice_admission/source.rs"]
mod source;
#[path = "dpuservice_admission/status.rs"]
mod status;
#[path = "dpuservice_admission/strategy.rs"]
mod strategy;
#[path = "dpuservice_admission/underlying.rs"]
mod underlying;
#[path = "dpuservice_admission/update.rs"]
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
    source::fields_are_required_and_typed,
    source::lengths_end_at_their_limits,
    source::repositories,
    source::versions,
    source::charts,
    source::an_oci_registry_has_its_own_rules,
    source::names,
    labels::names_of_labels,
    labels::values_of_labels,
    labels::names_and_sizes_of_annotations,
    labels::selectors,
    labels::service_ids,
    daemon_set::quantities,
    daemon_set::resources,
    daemon_set::requests_and_limits,
    strategy::update_strategies,
    strategy::limits_of_a_rollout,
    daemon_set::several_mistakes_are_reported_at_once,
    update::everything_may_change,
    update::the_spec_cannot_be_dropped,
    status::the_status_has_an_endpoint_of_its_own,
    status::what_a_status_may_say,
    serving::nothing_is_filled_in,
    serving::values_are_kept_as_they_are,
    serving::unknown_fields_are_pruned_or_rejected,
    serving::tables_show_what_matters,
    serving::names_are_discovered,
    serving::the_documented_example_is_taken,
    serving::the_examples_are_taken,
);

async fn embedded(test: &str) -> anyhow::Result<Court> {
    Court::embedded(&DPUService::crd(), service(), test).await
}

async fn real(test: &str) -> anyhow::Result<Court> {
    Court::real(&DPUService::crd(), service(), test).await
}

/// Returns a valid DPUService.
fn service() -> Value {
    json!({
        "apiVersion": "svc.dpu.nvidia.com/v1alpha1",
        "kind": "DPUService",
        "metadata": {"name": "service"},
        "spec": {
            "source": {
                "repoURL": "https://helm.ngc.nvidia.com/nvidia",
                "version": "v1.1.1",
                "chart": "dpu-service",
            },
        },
    })
}

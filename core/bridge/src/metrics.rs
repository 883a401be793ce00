//! The metrics of the Bridge.
//!
//! Source: "DPFHCPBridge DPUCluster Validation", "Metrics".

use std::borrow::Cow;
use std::time::Duration;

use lockstep_engine::machine::{Amount, Measure, Metric, MetricKind, Note};

const TOTAL: &str = "dpfhcpbridge_dpucluster_validation_total";
const DURATION: &str = "dpfhcpbridge_dpucluster_validation_duration_seconds";
const LABELS: &[&str] = &["result"];

/// All metrics of the Bridge.
pub const ALL: &[Metric] = &[
    Metric {
        name: TOTAL,
        help: "Total number of DPUCluster validations performed",
        labels: LABELS,
        kind: MetricKind::Counter,
    },
    Metric {
        name: DURATION,
        help: "Duration of DPUCluster validation operations",
        labels: LABELS,
        kind: MetricKind::Histogram(&[0.01, 0.05, 0.1, 0.5, 1.0, 5.0]),
    },
];

/// Returns the metrics of one validation of a DPUCluster: its result and its duration.
pub fn validated(result: &str, took: Duration) -> [Note; 2] {
    let measure = |metric, by| {
        Note::Measured(Measure { metric: Cow::Borrowed(metric), labels: vec![result.to_owned()], by })
    };
    [measure(TOTAL, Amount::Add(1)), measure(DURATION, Amount::Observe(took))]
}

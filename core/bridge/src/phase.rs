//! The phase of a bridge: it follows the conditions, one edge of the specification's table at a time.
//!
//! | from | to |
//! | --- | --- |
//! | (new) | `Pending` |
//! | `Pending` | `Provisioning`, `Failed` |
//! | `Provisioning` | `Ready`, `Failed` |
//! | `Ready` | `Failed` |
//! | `Failed` | `Provisioning` |
//! | any | `Deleting` |
//!
//! Source: "Status Phases".

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::names::{condition, reason};

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A prerequisite is missing that may still appear.
    Pending,
    /// The hosted cluster is being created.
    Provisioning,
    /// The hosted cluster works.
    Ready,
    /// Users have to fix something.
    Failed,
    /// The hosted cluster is being deleted.
    Deleting,
}

impl Phase {
    /// Returns the text that the status contains.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Provisioning => "Provisioning",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
        }
    }

    /// Parses the text of a status.
    pub fn read(text: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Provisioning, Self::Ready, Self::Failed, Self::Deleting];
        all.into_iter().find(|phase| phase.as_str() == text)
    }

    /// Returns the next phase on the way to another. It may be this one: not every phase can be reached from every other.
    pub const fn toward(before: Option<Self>, target: Self) -> Self {
        match (before, target) {
            (_, Self::Deleting) | (Some(Self::Deleting), _) => Self::Deleting,
            (None, _) | (Some(Self::Pending), Self::Pending) => Self::Pending,
            (Some(Self::Provisioning | Self::Ready), Self::Ready) => Self::Ready,
            (Some(Self::Pending | Self::Failed), Self::Provisioning | Self::Ready)
            | (Some(Self::Provisioning), Self::Pending | Self::Provisioning) => Self::Provisioning,
            (Some(Self::Pending | Self::Provisioning), Self::Failed)
            | (Some(Self::Ready), Self::Pending | Self::Provisioning | Self::Failed)
            | (Some(Self::Failed), Self::Pending | Self::Failed) => Self::Failed,
        }
    }
}

/// Returns the target phase for the conditions of a bridge that is not being deleted. It keeps its phase while objects that
/// decide about it can't be watched.
pub fn target(conditions: &[Condition], before: Option<Phase>) -> Phase {
    let find = |name: &str| conditions.iter().find(|condition| condition.type_ == name);
    let is = |name: &str, status: &str| find(name).is_some_and(|condition| condition.status == status);
    let says = |name: &str, reason: &str| find(name).is_some_and(|condition| condition.reason == reason);
    let because = |name: &str, reason: &str| is(name, "False") && says(name, reason);

    let is_created = is(condition::HOSTED_CLUSTER_CREATED, "True");
    let was_ready = is(condition::PROVISIONED, "True");
    // A control plane that has lost replicas still serves.
    let is_degraded = because(condition::READY, reason::WAITING_FOR_CONTROL_PLANE)
        && is(condition::HOSTED_CLUSTER_AVAILABLE, "True")
        && is(condition::HOSTED_CLUSTER_DEGRADED, "True");
    let is_broken = because(condition::PREREQUISITES_MET, reason::INVALID)
        || because(condition::DPU_CLUSTER_VALID, reason::DPU_CLUSTER_NOT_SPECIFIED)
        || because(condition::HOSTED_CLUSTER_CREATED, reason::CREATION_FAILED)
        || because(condition::NODE_POOL_READY, reason::NODE_POOL_CREATION_FAILED)
        || (because(condition::HOSTED_CLUSTER_PROGRESSING, reason::BLOCKED)
            && !is(condition::READY, "True")
            && !(was_ready && is_degraded))
        || (is_created && because(condition::READY, reason::VALIDATION_FAILED))
        || because(condition::PROVISIONED, reason::TIMED_OUT);
    let lacks_something =
        !is(condition::DPU_CLUSTER_VALID, "True") || !is(condition::PREREQUISITES_MET, "True");

    if is_broken {
        Phase::Failed
    } else if is(condition::READY, "True") {
        Phase::Ready
    } else if says(condition::READY, reason::WATCH_FAILED)
        && let Some(before) = before
    {
        before
    } else if was_ready && is_degraded {
        Phase::Ready
    } else if was_ready {
        Phase::Failed
    } else if lacks_something && !is_created {
        Phase::Pending
    } else if !is(condition::DPU_CLUSTER_VALID, "True") {
        Phase::Failed
    } else {
        Phase::Provisioning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Phase; 5] =
        [Phase::Pending, Phase::Provisioning, Phase::Ready, Phase::Failed, Phase::Deleting];

    /// The specification's table, line by line.
    const EDGES: [(Phase, Phase); 6] = [
        (Phase::Pending, Phase::Provisioning),
        (Phase::Pending, Phase::Failed),
        (Phase::Provisioning, Phase::Ready),
        (Phase::Provisioning, Phase::Failed),
        (Phase::Ready, Phase::Failed),
        (Phase::Failed, Phase::Provisioning),
    ];

    #[test]
    fn every_step_is_an_edge_of_the_table_and_every_edge_is_taken() {
        let mut taken = Vec::new();
        for before in ALL {
            for target in ALL {
                let next = Phase::toward(Some(before), target);
                let is_edge = EDGES.contains(&(before, next)) || next == Phase::Deleting || next == before;
                assert!(is_edge, "{before:?} went to {next:?} on the way to {target:?}");
                taken.push((before, next));
            }
        }
        assert!(EDGES.iter().all(|edge| taken.contains(edge)));
        assert!(
            ALL.iter()
                .all(|target| *target == Phase::Deleting || Phase::toward(None, *target) == Phase::Pending)
        );
    }

    #[test]
    fn a_phase_that_can_be_reached_is_reached_and_kept() {
        for before in ALL {
            for target in [Phase::Ready, Phase::Failed, Phase::Deleting] {
                let mut phase = before;
                for _ in 0..3 {
                    phase = Phase::toward(Some(phase), target);
                }
                let expected = if before == Phase::Deleting { Phase::Deleting } else { target };
                assert_eq!(phase, expected, "from {before:?} to {target:?}");
                assert_eq!(Phase::toward(Some(phase), target), phase);
            }
        }
    }

    /// Returns the target phase of a bridge with a ready cluster, of which some conditions have another status and reason.
    fn target_with(before: Option<Phase>, changes: &[(&str, &str, &str)]) -> Phase {
        let ready = [
            (condition::DPU_CLUSTER_VALID, "True", reason::DPU_CLUSTER_FOUND),
            (condition::PREREQUISITES_MET, "True", reason::ALL_MET),
            (condition::HOSTED_CLUSTER_CREATED, "True", reason::CREATED),
            (condition::HOSTED_CLUSTER_AVAILABLE, "True", "AsExpected"),
            (condition::HOSTED_CLUSTER_PROGRESSING, "False", "AsExpected"),
            (condition::HOSTED_CLUSTER_DEGRADED, "False", "AsExpected"),
            (condition::NODE_POOL_READY, "True", reason::NODES_READY),
            (condition::PROVISIONED, "True", reason::COMPLETED),
            (condition::READY, "True", "Ready"),
        ];
        let conditions = ready.map(|(name, status, reason)| {
            let change = changes.iter().find(|(changed, ..)| *changed == name);
            let (_, status, reason) = change.copied().unwrap_or((name, status, reason));
            let json = serde_json::json!({
                "type": name, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            serde_json::from_value(json).expect("a condition")
        });
        target(&conditions, before)
    }

    #[test]
    fn conditions_decide_about_the_phase() {
        use condition::{
            DPU_CLUSTER_VALID, HOSTED_CLUSTER_AVAILABLE, HOSTED_CLUSTER_CREATED, HOSTED_CLUSTER_DEGRADED,
            HOSTED_CLUSTER_PROGRESSING, NODE_POOL_READY, PREREQUISITES_MET, PROVISIONED, READY,
        };
        let waiting = (READY, "False", reason::WAITING_FOR_CONTROL_PLANE);
        let new = (PROVISIONED, "False", reason::IN_PROGRESS);
        let uncreated = (HOSTED_CLUSTER_CREATED, "False", reason::NOT_CREATED);
        let blocked = (HOSTED_CLUSTER_PROGRESSING, "False", reason::BLOCKED);
        let degraded = (HOSTED_CLUSTER_DEGRADED, "True", "Unavailable");
        let unmet = (PREREQUISITES_MET, "False", reason::WAITING);
        let lost = (DPU_CLUSTER_VALID, "False", reason::DPU_CLUSTER_NOT_FOUND);
        for (expected, changes) in [
            (Phase::Ready, &[][..]),
            (Phase::Pending, &[waiting, new, uncreated, unmet]),
            (Phase::Pending, &[waiting, new, uncreated, lost]),
            (Phase::Provisioning, &[waiting, new, uncreated]),
            (Phase::Provisioning, &[waiting, new]),
            (Phase::Provisioning, &[waiting, new, unmet]),
            (Phase::Failed, &[waiting, new, lost]),
            // What the specification calls a failure.
            (Phase::Failed, &[waiting, new, uncreated, (PREREQUISITES_MET, "False", reason::INVALID)]),
            (
                Phase::Failed,
                &[waiting, new, uncreated, (DPU_CLUSTER_VALID, "False", reason::DPU_CLUSTER_NOT_SPECIFIED)],
            ),
            (
                Phase::Pending,
                &[waiting, new, uncreated, (DPU_CLUSTER_VALID, "Unknown", reason::DPU_CLUSTER_NOT_SPECIFIED)],
            ),
            (Phase::Failed, &[waiting, new, (HOSTED_CLUSTER_CREATED, "False", reason::CREATION_FAILED)]),
            (Phase::Failed, &[waiting, new, (NODE_POOL_READY, "False", reason::NODE_POOL_CREATION_FAILED)]),
            (Phase::Failed, &[waiting, (PROVISIONED, "False", reason::TIMED_OUT)]),
            (Phase::Failed, &[new, (READY, "False", reason::VALIDATION_FAILED)]),
            (Phase::Pending, &[new, uncreated, unmet, (READY, "False", reason::VALIDATION_FAILED)]),
            // A cluster that has been ready.
            (Phase::Failed, &[waiting]),
            (Phase::Ready, &[waiting, degraded]),
            (Phase::Failed, &[waiting, degraded, (HOSTED_CLUSTER_AVAILABLE, "False", "Unavailable")]),
            (Phase::Failed, &[degraded, (READY, "False", reason::WAITING_FOR_NODES)]),
            (Phase::Provisioning, &[waiting, degraded, new]),
            // HyperShift can't continue.
            (Phase::Ready, &[blocked]),
            (Phase::Failed, &[waiting, blocked]),
            (Phase::Ready, &[waiting, blocked, degraded]),
            (Phase::Failed, &[waiting, blocked, degraded, new]),
        ] {
            assert_eq!(target_with(Some(Phase::Provisioning), changes), expected, "{changes:?}");
        }
        let unwatched = [(READY, "Unknown", reason::WATCH_FAILED)];
        assert_eq!(target_with(Some(Phase::Pending), &unwatched), Phase::Pending);
        assert_eq!(target_with(None, &unwatched), Phase::Failed, "it has been ready");
    }

    #[test]
    fn what_is_written_is_read() {
        assert!(ALL.iter().all(|phase| Phase::read(phase.as_str()) == Some(*phase)));
        assert_eq!(Phase::read("ready"), None);
    }
}

//! The bugs of the reporter.

use super::{Bug, Reporter};
use crate::exhibit::{Class, Exhibit};

/// The exhibits.
pub const ALL: &[Exhibit] = &[
    Exhibit {
        bug: "moves_every_transition_time",
        project: "knative/serving",
        issue: 1181,
        class: Class::HotLoop,
        story: "Each reconcile of a Route set its conditions again, with a new lastTransitionTime. The status differed, was written, and the \
                write triggered the next reconcile.",
        subject: &Reporter(Some(Bug::AlwaysMovesTransitionTime)),
    },
    Exhibit {
        bug: "lists_without_order",
        project: "RedHatInsights/clowder",
        issue: 148,
        class: Class::HotLoop,
        story: "The status contained lists in the order of a map, which differs each time. So the status changed in each reconcile, and its \
                write triggered the next one.",
        subject: &Reporter(Some(Bug::UnorderedList)),
    },
    Exhibit {
        bug: "stamps_every_reconcile",
        project: "rajsinghtech/garage-operator",
        issue: 351,
        class: Class::HotLoop,
        story: "Each reconcile set status.lastSeen to the current time and wrote the status without a comparison. The write triggered the next \
                reconcile, about once a second for each node, although one a minute was intended.",
        subject: &Reporter(Some(Bug::StampsEveryReconcile)),
    },
    Exhibit {
        bug: "toggles_the_phase",
        project: "kyverno/kyverno",
        issue: 4152,
        class: Class::HotLoop,
        story: "Completed update requests were processed again without end. Their status changed from Completed to Pending and back, and each \
                change was an event that started the next processing.",
        subject: &Reporter(Some(Bug::TogglesPhase)),
    },
    Exhibit {
        bug: "compares_the_state_only",
        project: "k8ssandra/cass-operator",
        issue: 657,
        class: Class::Status,
        story: "The observed generation was written only together with a change of the state. If a change of the specification left the state \
                at Ready, the status named the old generation forever.",
        subject: &Reporter(Some(Bug::ComparesStateOnly)),
    },
    Exhibit {
        bug: "reports_the_latest_generation",
        project: "nais/unleasherator",
        issue: 837,
        class: Class::Status,
        story: "If a status write failed with a conflict, the controller read the object again and wrote the same status to it. The \
                specification could have changed in between, so success of the old one was reported for the new one. The fix rejects this.",
        subject: &Reporter(Some(Bug::ReportsLatestGeneration)),
    },
    Exhibit {
        bug: "ignores_the_observed_generation_of_children",
        project: "multigres/multigres-operator",
        issue: 183,
        class: Class::Status,
        story: "After a change of a child the controller read the status of the child, which still described the old generation, and reported \
                Ready. The fix requires that the generations are equal.",
        subject: &Reporter(Some(Bug::IgnoresObservedGeneration)),
    },
    Exhibit {
        bug: "swallows_a_conflict",
        project: "DataDog/datadog-agent",
        issue: 55608,
        class: Class::SwallowedEvent,
        story: "A status write that failed with a conflict was logged, and the key was not enqueued again. The status remained old until the next \
                event of the object.",
        subject: &Reporter(Some(Bug::SwallowsConflict)),
    },
    Exhibit {
        bug: "fails_for_good_on_a_conflict",
        project: "akuity/kargo",
        issue: 564,
        class: Class::SwallowedEvent,
        story: "A conflict while the status was written counted as the failure of the promotion. The phase Failed is final, so the promotion \
                was never retried.",
        subject: &Reporter(Some(Bug::FailsForGoodOnConflict)),
    },
    Exhibit {
        bug: "overwrites_conditions_of_others",
        project: "stacklok/toolhive",
        issue: 5511,
        class: Class::TwoWriters,
        story: "Several controllers wrote the whole status of one object, each from the copy that it had read. So each of them could restore \
                old conditions of the controller that owns them.",
        subject: &Reporter(Some(Bug::OverwritesConditions)),
    },
    Exhibit {
        bug: "blocks_the_key_on_a_cache_miss",
        project: "operator-framework/java-operator-sdk",
        issue: 3416,
        class: Class::SwallowedEvent,
        story: "If a resource was missing from the cache for a moment, the executor returned early and left the key marked as in progress. All \
                later events of that resource were skipped until a restart.",
        subject: &Reporter(Some(Bug::BlocksKeyOnCacheMiss)),
    },
    Exhibit {
        bug: "loses_a_restarted_watch",
        project: "kyverno/kyverno",
        issue: 5322,
        class: Class::DeadWatch,
        story: "After some time no reports were created for new resources, until a restart. Once a watch had been retried, it had lost the kind \
                that it matched, so all of its events were ignored.",
        subject: &Reporter(Some(Bug::LosesRestartedWatch)),
    },
    Exhibit {
        bug: "swallows_a_failed_read",
        project: "chaos-mesh/chaos-mesh",
        issue: 5038,
        class: Class::FailedRead,
        story: "If an object could not be read, the controllers logged the failure and ended the reconcile without an error. It \
                was not retried before the next event of that object.",
        subject: &Reporter(Some(Bug::SwallowsFailedRead)),
    },
    Exhibit {
        bug: "counts_a_failed_read_as_zero",
        project: "slauger/openvox-operator",
        issue: 556,
        class: Class::FailedRead,
        story: "The function that reads the number of ready replicas returned zero if the read failed. So one failed request set \
                the condition Ready to False, although the workload had not changed.",
        subject: &Reporter(Some(Bug::CountsFailedReadAsZero)),
    },
    Exhibit {
        bug: "trusts_the_status_after_a_restart",
        project: "Twingate/kubernetes-operator",
        issue: 161,
        class: Class::MissedState,
        story: "If a pod was deleted while the operator was down, the operator got no event. After its start it did not check \
                that the pod existed, and took the connector for healthy.",
        subject: &Reporter(Some(Bug::TrustsStatusAfterRestart)),
    },
    Exhibit {
        bug: "resets_the_scale_of_an_autoscaler",
        project: "defilantech/LLMKube",
        issue: 485,
        class: Class::TwoWriters,
        story: "Each reconcile replaced the specification of a Deployment. It omitted the number of replicas, which then got the \
                default of 1, so the number that the autoscaler had set was lost each time.",
        subject: &Reporter(Some(Bug::ResetsScale)),
    },
];

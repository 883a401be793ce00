//! The bugs of the runner.

use super::{Bug, Runner};
use crate::exhibit::{Class, Exhibit};

/// The exhibits.
pub const ALL: &[Exhibit] = &[
    Exhibit {
        bug: "never_resumes_what_was_interrupted",
        project: "eclipse-theia/theia-cloud",
        issue: 221,
        class: Class::CrashBetweenWrites,
        story: "The operator marked a resource before it handled it, and did not handle a marked one, to avoid crashes in a \
                loop. If the operator was stopped in between, the resource was never handled.",
        subject: &Runner(Some(Bug::MarksBeforeStarting)),
    },
    Exhibit {
        bug: "deletes_a_job_before_its_result_is_recorded",
        project: "openstack-k8s-operators/lib-common",
        issue: 77,
        class: Class::CrashBetweenWrites,
        story: "The library deleted a Job as soon as it had finished, and the status recorded the result after that. If the \
                write of the status failed, the next reconcile found neither, and ran the Job again.",
        subject: &Runner(Some(Bug::DeletesBeforeRecording)),
    },
    Exhibit {
        bug: "runs_a_cleaned_up_job_again",
        project: "ansible/awx-resource-operator",
        issue: 49,
        class: Class::MissedState,
        story: "A finished Job was deleted after its time to live. The operator did not look at the status that it had written, \
                created the missing Job again, and ran the automation every hour.",
        subject: &Runner(Some(Bug::RunsWhateverIsMissing)),
    },
    Exhibit {
        bug: "runs_a_completed_workflow_again",
        project: "argoproj/argo-workflows",
        issue: 16294,
        class: Class::StaleRead,
        story: "A stale version of a completed workflow was replayed to the controller. According to it a step had not run yet, \
                so the controller created the pod of that step again, hours later.",
        subject: &Runner(Some(Bug::ReadsStaleStatus)),
    },
    Exhibit {
        bug: "fails_for_good_on_an_existing_object",
        project: "tektoncd/pipeline",
        issue: 4741,
        class: Class::StaleRead,
        story: "The pod of a TaskRun was missing from the list that the controller had read, but existed. The create failed with \
                AlreadyExists, and the controller set the TaskRun to failed for good.",
        subject: &Runner(Some(Bug::FailsForGoodOnExisting)),
    },
    Exhibit {
        bug: "ignores_changes_during_its_own_write",
        project: "operator-framework/java-operator-sdk",
        issue: 3484,
        class: Class::SwallowedEvent,
        story: "The framework ignored events during its own updates, because these cause events too. If the update of a status \
                changed nothing and another client changed the specification in that time, no event reported that change.",
        subject: &Runner(Some(Bug::IgnoresEventsWhileWriting)),
    },
];

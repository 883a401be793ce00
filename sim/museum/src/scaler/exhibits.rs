//! The bugs of the scaler.

use super::{Bug, Scaler};
use crate::exhibit::{Class, Exhibit};

/// The exhibits.
pub const ALL: &[Exhibit] = &[
    Exhibit {
        bug: "scales_to_a_stale_number",
        project: "pravega/zookeeper-operator",
        issue: 314,
        class: Class::StaleRead,
        story: "A cluster was scaled down and up again. After a restart the operator read the specification of the time between from an API \
                server that was behind. It deleted the volume of a replica that was in use again.",
        subject: &Scaler(Some(Bug::ScalesToStaleNumber)),
    },
    Exhibit {
        bug: "deletes_volumes_by_stale_pods",
        project: "instaclustr/cassandra-operator",
        issue: 407,
        class: Class::StaleRead,
        story: "The operator deleted the volume of each pod with a deletion timestamp. A stale pod of an earlier scale-down had the name of a \
                pod that ran again, so the volume of the running pod was deleted.",
        subject: &Scaler(Some(Bug::DeletesVolumesByStaleWorkers)),
    },
    Exhibit {
        bug: "needs_to_see_the_termination",
        project: "instaclustr/cassandra-operator",
        issue: 398,
        class: Class::MissedState,
        story: "The operator deleted the volume of a pod while it saw the pod with a deletion timestamp. If the pod was gone before the next \
                reconcile, no reconcile ever saw the timestamp, and the volume remained.",
        subject: &Scaler(Some(Bug::NeedsToSeeTermination)),
    },
    Exhibit {
        bug: "counts_stale_pods",
        project: "ray-project/kuberay",
        issue: 715,
        class: Class::StaleRead,
        story: "The number of missing pods was the difference between the specification and the pods in the cache. The cache did not contain \
                the pods of the previous reconcile yet, so it created too many, and deleted some later, with the state in them.",
        subject: &Scaler(Some(Bug::CountsStaleWorkers)),
    },
    Exhibit {
        bug: "checks_one_of_two_objects",
        project: "percona/percona-xtradb-cluster-operator",
        issue: 1043,
        class: Class::CrashBetweenWrites,
        story: "The operator created two Secrets, one after the other, if the first one did not exist. After a crash between the \
                two writes the first one existed, so the second one was never created.",
        subject: &Scaler(Some(Bug::ChecksWorkerOnly)),
    },
    Exhibit {
        bug: "cleans_up_the_first_page_only",
        project: "instaclustr/cassandra-operator",
        issue: 148,
        class: Class::FirstPage,
        story: "The operator read only the first page of its lists. Resources on the other pages were not cleaned up.",
        subject: &Scaler(Some(Bug::CleansUpFirstPage)),
    },
];

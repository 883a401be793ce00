//! The bugs of the fleet.

use super::{Bug, Fleet};
use crate::exhibit::{Class, Exhibit};

/// The exhibits.
pub const ALL: &[Exhibit] = &[
    Exhibit {
        bug: "treats_a_failed_list_as_empty",
        project: "argoproj/argo-cd",
        issue: 18480,
        class: Class::FailedRead,
        story: "The API server failed once to list the Secrets that register clusters. The ApplicationSet controller took the result for \
                an empty list, and deleted the Applications of all clusters.",
        subject: &Fleet(Some(Bug::TakesFailedListForEmpty)),
    },
    Exhibit {
        bug: "needs_the_cluster_to_delete",
        project: "argoproj/argo-cd",
        issue: 6557,
        class: Class::Cleanup,
        story: "The deletion of an Application failed if its target cluster was no longer registered. The controller retried it without \
                end, and the Application remained. The fix deletes it without the cluster.",
        subject: &Fleet(Some(Bug::NeedsClusterToDelete)),
    },
    Exhibit {
        bug: "never_prunes",
        project: "stackabletech/nifi-operator",
        issue: 244,
        class: Class::Cleanup,
        story: "A role that was removed from the specification of a cluster kept its StatefulSet. The operator only created and updated \
                what the specification contained, and never compared it with what existed.",
        subject: &Fleet(Some(Bug::NeverPrunes)),
    },
    Exhibit {
        bug: "enqueues_the_first_match_only",
        project: "prometheus-operator/prometheus-operator",
        issue: 3552,
        class: Class::SwallowedEvent,
        story: "A change of a Secret must reconcile all Prometheus objects that depend on it. The event handler returned after the first \
                one that matched, so the others kept the old configuration.",
        subject: &Fleet(Some(Bug::EnqueuesFirstApp)),
    },
    Exhibit {
        bug: "generates_names_from_a_stale_cache",
        project: "cryostatio/cryostat-operator",
        issue: 163,
        class: Class::StaleRead,
        story: "A ConsoleLink was created with generateName if the cache contained none. The next reconcile ran before the cache contained \
                the new one, and created a second one. With a fixed name the second create fails.",
        subject: &Fleet(Some(Bug::GeneratesNames)),
    },
    Exhibit {
        bug: "purges_its_own_duplicates",
        project: "scylladb/scylla-operator",
        issue: 2492,
        class: Class::StaleRead,
        story: "Because of a stale cache the operator created a second root object with generateName. Once the cache contained both, it \
                deleted one as a duplicate, and with it all objects that depended on it: a whole datacenter.",
        subject: &Fleet(Some(Bug::PurgesDuplicates)),
    },
    Exhibit {
        bug: "collects_the_first_page_only",
        project: "dexidp/dex",
        issue: 4979,
        class: Class::FirstPage,
        story: "The garbage collector listed at most 500 objects of a kind, and ignored the token that continues the list. \
                Expired objects beyond the first page remained; more than 10,000 had accumulated.",
        subject: &Fleet(Some(Bug::PrunesFirstPage)),
    },
    Exhibit {
        bug: "gives_up_a_failed_watch",
        project: "dotnet/dotnet-operator-sdk",
        issue: 739,
        class: Class::DeadWatch,
        story: "If a watch could not be established, the operator did not try again. It received no event of that kind until a \
                restart.",
        subject: &Fleet(Some(Bug::GivesUpFailedWatch)),
    },
    Exhibit {
        bug: "gives_up_after_failures",
        project: "ovn-kubernetes/ovn-kubernetes",
        issue: 5061,
        class: Class::SwallowedEvent,
        story: "The network controllers gave up an object after 15 failures. If another controller took longer to provide what \
                they waited for, the network was never created, and its pods never started.",
        subject: &Fleet(Some(Bug::GivesUpAfterFailures)),
    },
    Exhibit {
        bug: "ignores_deletions",
        project: "kube-rs/kube",
        issue: 1768,
        class: Class::SwallowedEvent,
        story: "A filter drops the events of a watch that change nothing it compares. A deletion changes nothing but the \
                resource version, so operators did not create a deleted object again.",
        subject: &Fleet(Some(Bug::IgnoresDeletedWorkers)),
    },
    Exhibit {
        bug: "swallows_failed_writes",
        project: "kubernetes-sigs/node-readiness-controller",
        issue: 228,
        class: Class::SwallowedEvent,
        story: "A write that failed for a node was logged, and the reconcile ended without an error. So it was not retried, and \
                the taints of the node remained wrong until an unrelated event.",
        subject: &Fleet(Some(Bug::SwallowsFailedWrites)),
    },
    Exhibit {
        bug: "misses_deletions_of_a_list",
        project: "dotnet/dotnet-operator-sdk",
        issue: 675,
        class: Class::MissedState,
        story: "After a watch was disconnected, the watcher subscribed again and got the existing objects. An object that was \
                deleted in between was not among them, and no event reported that.",
        subject: &Fleet(Some(Bug::MissesDeletionsOfLists)),
    },
];

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
];

//! The bugs of the mirror.

use super::{Bug, Mirror};
use crate::exhibit::{Class, Exhibit};

/// The exhibits.
pub const ALL: &[Exhibit] = &[
    Exhibit {
        bug: "ignores_cleanup_errors",
        project: "openkube-hub/KubeUser",
        issue: 54,
        class: Class::Cleanup,
        story: "The function that deletes the objects of a user returned no error, and its caller removed the finalizer in any case. \
                If a deletion failed, the object remained and no client knew of it.",
        subject: &Mirror(Some(Bug::IgnoresCleanupErrors)),
    },
    Exhibit {
        bug: "removes_finalizer_after_the_delete_request",
        project: "open-cluster-management-io/work",
        issue: 16,
        class: Class::Cleanup,
        story: "The finalizer of a work was removed as soon as the deletion of its resources was requested. A resource with a \
                finalizer of its own still existed then. The fix removes the finalizer only when no resource is found.",
        subject: &Mirror(Some(Bug::RemovesFinalizerEarly)),
    },
    Exhibit {
        bug: "trusts_the_cache_on_cleanup",
        project: "pingcap/tidb-operator",
        issue: 6532,
        class: Class::StaleRead,
        story: "The finalizer was removed if the cache contained none of the dependent resources. A resource that was created just \
                before was not in the cache yet, so it remained after its owner.",
        subject: &Mirror(Some(Bug::TrustsCacheOnCleanup)),
    },
    Exhibit {
        bug: "clears_all_finalizers",
        project: "ROCm/spur",
        issue: 75,
        class: Class::TwoWriters,
        story: "At the end of the cleanup the operator patched the list of finalizers to an empty list. This also removed the \
                finalizers of other controllers, so the object was gone before they had cleaned up.",
        subject: &Mirror(Some(Bug::ClearsFinalizers)),
    },
    Exhibit {
        bug: "drops_finalizers_of_generated_objects",
        project: "tigera/operator",
        issue: 3480,
        class: Class::TwoWriters,
        story: "Each update replaced the whole object by the generated one. A finalizer that another controller had added to a \
                generated object was removed by the next reconcile.",
        subject: &Mirror(Some(Bug::DropsFinalizersOfCopies)),
    },
    Exhibit {
        bug: "needs_a_secret_to_clean_up",
        project: "rabbitmq/messaging-topology-operator",
        issue: 277,
        class: Class::Cleanup,
        story: "The cleanup of a user read the Secret with its credentials first. If the Secret had been deleted before, the cleanup \
                failed, and the user stayed in Terminating, as did its namespace.",
        subject: &Mirror(Some(Bug::NeedsSecretToCleanUp)),
    },
    Exhibit {
        bug: "has_no_finalizer",
        project: "open-cluster-management-io/config-policy-controller",
        issue: 491,
        class: Class::Cleanup,
        story: "A reconcile of an OperatorPolicy that was not found returned at once, and no finalizer kept the policy until then. So \
                the objects of each deleted policy remained.",
        subject: &Mirror(Some(Bug::NeverAddsFinalizer)),
    },
    Exhibit {
        bug: "cleans_up_on_the_delete_event",
        project: "zalando/postgres-operator",
        issue: 941,
        class: Class::MissedState,
        story: "The operator cleaned up when it received the delete event of a cluster, without a finalizer. If it was not running at \
                that time, the event was lost, and StatefulSets and Secrets remained.",
        subject: &Mirror(Some(Bug::CleansUpOnEvent)),
    },
    Exhibit {
        bug: "owner_in_another_namespace",
        project: "banzaicloud/koperator",
        issue: 229,
        class: Class::Ownership,
        story: "A certificate in one namespace had an owner reference to a KafkaCluster in another. The garbage collector looks for the \
                owner in the namespace of the dependent, does not find it, and deletes the dependent.",
        subject: &Mirror(Some(Bug::OwnerInOtherNamespace)),
    },
    Exhibit {
        bug: "adopts_an_existing_object",
        project: "kelos-dev/kelos",
        issue: 1328,
        class: Class::Ownership,
        story: "If a create failed with AlreadyExists, the controller updated the existing ConfigMap without a check of its owner. A \
                ConfigMap of a user with the generated name was overwritten, and later deleted with the task. A review found it.",
        subject: &Mirror(Some(Bug::AdoptsExisting)),
    },
    Exhibit {
        bug: "name_lacks_the_namespace",
        project: "soda-cdm/kahu",
        issue: 78,
        class: Class::Names,
        story: "Resources of one name in two namespaces overwrote each other, because the name of the stored content did not \
                contain the namespace.",
        subject: &Mirror(Some(Bug::NamesWithoutNamespace)),
    },
    Exhibit {
        bug: "name_is_truncated",
        project: "jenkins-x/jx",
        issue: 6610,
        class: Class::Names,
        story: "Names of PipelineResources were cut to 31 characters. With a long name of the organization, the builds of several \
                repositories used one PipelineResource, and built the wrong repository.",
        subject: &Mirror(Some(Bug::TruncatesNames)),
    },
    Exhibit {
        bug: "ignores_referenced_secrets",
        project: "grafana/agent",
        issue: 655,
        class: Class::SwallowedEvent,
        story: "The operator did not watch the Secrets that its resources refer to. After a change of such a Secret, no reconcile \
                occurred, and the deployment kept the old configuration.",
        subject: &Mirror(Some(Bug::IgnoresSecrets)),
    },
    Exhibit {
        bug: "two_controllers_one_field_manager",
        project: "openshift/hypershift",
        issue: 5493,
        class: Class::TwoWriters,
        story: "Two controllers applied one condition each to the same object, with the same field manager. Server-side apply removes \
                what its manager no longer applies, so each of them removed the condition of the other.",
        subject: &Mirror(Some(Bug::AppliesTwice)),
    },
    Exhibit {
        bug: "adds_the_finalizer_last",
        project: "outscale/cluster-api-provider-outscale",
        issue: 917,
        class: Class::Cleanup,
        story: "The finalizer of a cluster was added in memory, and written at the end of the first reconcile. A cluster that \
                was deleted before that was gone at once, and the network that it had created remained.",
        subject: &Mirror(Some(Bug::AddsFinalizerLast)),
    },
    Exhibit {
        bug: "compares_the_generation_of_secrets",
        project: "envoyproxy/gateway",
        issue: 3499,
        class: Class::SwallowedEvent,
        story: "An update of a Secret or ConfigMap was ignored unless its generation changed. These kinds have no generation, so \
                no update of them was ever handled.",
        subject: &Mirror(Some(Bug::ComparesGenerationOfSecrets)),
    },
    Exhibit {
        bug: "compares_the_labels_of_its_objects",
        project: "konflux-ci/konflux-ci",
        issue: 6246,
        class: Class::SwallowedEvent,
        story: "Updates of the operator's own ConfigMaps were ignored unless labels or annotations changed. If another client \
                changed only the data, the operator never reverted it.",
        subject: &Mirror(Some(Bug::ComparesLabelsOfCopies)),
    },
    Exhibit {
        bug: "patches_a_stale_list_of_finalizers",
        project: "kubermatic/kubermatic",
        issue: 6759,
        class: Class::TwoWriters,
        story: "Each of several controllers added its finalizer with a merge patch, which replaces the whole list, without the \
                version that it had read. A finalizer that another controller had added in between was lost.",
        subject: &Mirror(Some(Bug::PatchesStaleFinalizers)),
    },
    Exhibit {
        bug: "drops_annotations_of_others",
        project: "arkmq-org/arkmq-org-broker-operator",
        issue: 745,
        class: Class::TwoWriters,
        story: "An annotation that another client set on a StatefulSet of the operator was lost on the next reconcile. The \
                operator compared and wrote only what it had generated itself.",
        subject: &Mirror(Some(Bug::DropsAnnotationsOfCopies)),
    },
];

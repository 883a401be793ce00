//! The bugs of the expander.

use super::{Bug, Expander};
use crate::exhibit::{Class, Exhibit};

/// The exhibits.
pub const ALL: &[Exhibit] = &[
    Exhibit {
        bug: "compares_only_the_template",
        project: "rabbitmq/cluster-operator",
        issue: 782,
        class: Class::CrashBetweenWrites,
        story: "To expand volumes the operator deletes the StatefulSet, resizes the volumes and creates the StatefulSet again, if its size \
                differs from the specification. After a crash between the first two steps, the next process creates the StatefulSet with \
                the new size, sees no difference, and never resizes the volumes.",
        subject: &Expander(Some(Bug::ComparesTemplateOnly)),
    },
    Exhibit {
        bug: "counts_after_the_update",
        project: "indeedeng/rabbitmq-operator",
        issue: 17,
        class: Class::Cleanup,
        story: "The operator read from the StatefulSet how many replicas existed, to delete the volumes beyond the new number. It updated \
                the StatefulSet first, so the numbers were equal and no volume was deleted.",
        subject: &Expander(Some(Bug::CountsAfterUpdate)),
    },
];

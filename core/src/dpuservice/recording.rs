//! How a run of the controller is recorded.

use crate::engine::recording::Traits;

/// What a recording must know of the controller.
pub(super) const TRAITS: Traits = Traits {
    mark: None,
    words: &[
        include_str!("../dpuservice.rs"),
        include_str!("application.rs"),
        include_str!("cluster.rs"),
        include_str!("kubeconfig.rs"),
        include_str!("names.rs"),
        include_str!("project.rs"),
        include_str!("removal.rs"),
        include_str!("report.rs"),
        include_str!("service.rs"),
        include_str!("status.rs"),
        include_str!("world.rs"),
    ],
    forms: &[],
};

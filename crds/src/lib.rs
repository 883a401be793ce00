//! The API types of Lockstep's controllers and the CustomResourceDefinitions generated from them. What users write and read belongs
//! here, with its validation; decisions do not.
//!
//! The YAML in `deploy/lockstep/{crds,files/crds}/` is printed by `lockstep crds` and kept equal to these types by a test.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt as _;

pub mod bridge;
pub mod dpuservice;
pub mod namespaceclass;
mod schema;
pub mod sentinel;

/// The CRDs of one controller.
#[derive(Debug, Clone)]
pub struct CrdSet {
    /// The controller's name, as in `--controllers`.
    pub controller: &'static str,
    /// Whether it runs in a process of its own for each configuration (`lockstep sentinel`) instead of `lockstep run`.
    pub runs_alone: bool,
    /// Its kinds.
    pub crds: Vec<CustomResourceDefinition>,
}

/// All CRDs, by controller.
pub fn all() -> Vec<CrdSet> {
    vec![
        CrdSet { controller: bridge::CONTROLLER, runs_alone: false, crds: vec![bridge::DPFHCPBridge::crd()] },
        CrdSet {
            controller: dpuservice::CONTROLLER,
            runs_alone: false,
            crds: vec![dpuservice::DPUService::crd()],
        },
        CrdSet {
            controller: namespaceclass::CONTROLLER,
            runs_alone: false,
            crds: vec![namespaceclass::NamespaceClass::crd(), namespaceclass::NamespaceClassBinding::crd()],
        },
        CrdSet {
            controller: sentinel::CONTROLLER,
            runs_alone: true,
            crds: vec![sentinel::SentinelConfig::crd()],
        },
    ]
}

/// Returns the kinds of a controller.
pub fn of(controller: &str) -> Vec<CustomResourceDefinition> {
    all().into_iter().filter(|set| set.controller == controller).flat_map(|set| set.crds).collect()
}

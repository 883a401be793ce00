//! The systems around our controllers: HyperShift, DPF and MetalLB, Argo CD and the clusters of DPUs, and a container
//! registry.
//!
//! All but the last are controllers on the same API server. Each is a [`Machine`], so that it can be hosted wherever one
//! can: by a [`Cluster`](crate::cluster::Cluster::start_foreign) in virtual time, or by the shell on any API server. They
//! do what others see of them: what they write, in which order, and for what they wait.
//!
//! | world | reads | writes |
//! | --- | --- | --- |
//! | [`hypershift`] | HostedClusters, NodePools, the Secrets that they name | their status, control-plane namespaces, Services and kubeconfigs |
//! | [`dpf`] | DPUClusters and their kubeconfigs | their status |
//! | [`metallb`] | IPAddressPools, Services, Namespaces | addresses of Services, how much of its pools is in use |
//! | [`argocd`] | Applications, AppProjects, the Secrets of clusters | their status, and what runs on clusters of DPUs |
//! | [`dpu_clusters`] | what runs on clusters of DPUs | how it fares |

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use lockstep_core::engine::machine::Machine;
use lockstep_core::object::{Kind, ObjectRef, metadata};
use lockstep_core::yaml;
use serde_json::Value;

mod addresses;
pub mod argocd;
pub mod dpf;
pub mod dpu_clusters;
pub mod hypershift;
mod labels;
mod level;
pub mod metallb;
mod pace;
mod read_view;
pub mod registry;
mod status;

pub use self::level::{Controller, Level};
pub use self::pace::Pace;
pub use self::read_view::ReadView;

/// A system that can be around one of our controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Hosted control planes.
    HyperShift,
    /// The provisioning of clusters of DPUs.
    Dpf,
    /// Addresses of load balancers.
    MetalLb,
    /// What runs on the clusters of DPUs.
    DpuClusters,
    /// Charts for clusters.
    ArgoCd,
}

/// What is around the DPF-HCP Bridge.
pub const BRIDGE: [System; 3] = [System::HyperShift, System::Dpf, System::MetalLb];
/// What is around the DPUService controller.
pub const DPUSERVICE: [System; 3] = [System::Dpf, System::DpuClusters, System::ArgoCd];

impl System {
    /// Its controller, at a pace. The jitter follows from the seed, which may be that of other systems too.
    pub fn controller(self, pace: Pace, seed: u64) -> Box<dyn Machine + Send> {
        let seed = seed.wrapping_add(self as u64);
        match self {
            Self::HyperShift => Box::new(Level::new(hypershift::HyperShift::default(), pace, seed)),
            Self::Dpf => Box::new(Level::new(dpf::Dpf::default(), pace, seed)),
            Self::MetalLb => Box::new(Level::new(metallb::MetalLb::default(), pace, seed)),
            Self::DpuClusters => Box::new(Level::new(dpu_clusters::DpuClusters, pace, seed)),
            Self::ArgoCd => Box::new(Level::new(argocd::ArgoCd::default(), pace, seed)),
        }
    }

    /// The definitions of the kinds that it serves, as text.
    fn texts(self) -> &'static [&'static str] {
        match self {
            Self::HyperShift => &[
                include_str!("external/definitions/hostedclusters.yaml"),
                include_str!("external/definitions/nodepools.yaml"),
            ],
            Self::Dpf => &[include_str!("external/definitions/dpuclusters.yaml")],
            Self::MetalLb => &[include_str!("external/definitions/ipaddresspools.yaml")],
            Self::DpuClusters => &[],
            Self::ArgoCd => &[
                include_str!("external/definitions/applications.yaml"),
                include_str!("external/definitions/appprojects.yaml"),
            ],
        }
    }
}

/// The controllers of these systems, at one pace. Their jitter follows from the seed.
pub fn controllers(systems: &[System], pace: Pace, seed: u64) -> Vec<Box<dyn Machine + Send>> {
    systems.iter().map(|system| system.controller(pace, seed)).collect()
}

/// The definitions of the kinds that these systems serve: as much of each as matters to who uses them, with upstream's
/// names, defaults and rules.
pub fn definitions(systems: &[System]) -> Vec<Value> {
    systems.iter().flat_map(|system| &DEFINITIONS[system]).cloned().collect()
}

/// What each system serves. A search asks for it thousands of times.
static DEFINITIONS: LazyLock<BTreeMap<System, Vec<Value>>> = LazyLock::new(|| {
    let systems = [System::HyperShift, System::Dpf, System::MetalLb, System::DpuClusters, System::ArgoCd];
    let read = |text: &&str| yaml::read(text).expect("a definition is YAML");
    systems.into_iter().map(|system| (system, system.texts().iter().map(read).collect())).collect()
});

fn service_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Service", "services", true)
}

fn secret_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
}

fn config_map_kind() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

fn namespace_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

/// The name of an object of a kind.
fn reference(kind: &Arc<Kind>, object: &Value) -> ObjectRef {
    let (namespace, name) = (metadata(object, "namespace"), metadata(object, "name"));
    if kind.namespaced {
        ObjectRef::namespaced(kind, namespace, name)
    } else {
        ObjectRef::cluster(kind, name)
    }
}

//! The systems around our controllers: HyperShift, DPF and MetalLB, Argo CD and the DPU clusters, a container registry, and the
//! HyperFleet API. A model of a foreign system belongs here; nothing here knows one of our controllers.
//!
//! All but the last are controllers on the same API server. Each is a [`Machine`], so any driver of machines can run it: a
//! [`Cluster`](lockstep_sim::cluster::Cluster::start_foreign) in virtual time, or the shell on any API server. The models cover what
//! other clients can observe: what the systems write, in which order, and what they wait for.
//!
//! | system | reads | writes |
//! | --- | --- | --- |
//! | [`hypershift`] | HostedClusters, NodePools, their Secrets | their status, control-plane namespaces, Services and kubeconfigs |
//! | [`dpf`] | DPUClusters and their kubeconfigs | their status |
//! | [`metallb`] | IPAddressPools, Services, Namespaces | addresses of Services, the usage of its pools |
//! | [`argocd`] | Applications, AppProjects, the Secrets of clusters | their status, and the releases on DPU clusters |
//! | [`dpu_clusters`] | the releases on DPU clusters | their health |

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lockstep_engine::machine::Machine;
use lockstep_engine::yaml;
use serde_json::Value;

mod addresses;
pub mod argocd;
pub mod dpf;
pub mod dpu_clusters;
pub mod hyperfleet;
pub mod hypershift;
mod kinds;
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

/// An external system around one of our controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Hosted control planes.
    HyperShift,
    /// The provisioning of DPU clusters.
    Dpf,
    /// Load balancer addresses.
    MetalLb,
    /// The releases on the DPU clusters.
    DpuClusters,
    /// The deployment of charts to clusters.
    ArgoCd,
}

/// The systems around the DPF-HCP Bridge.
pub const BRIDGE: [System; 3] = [System::HyperShift, System::Dpf, System::MetalLb];
/// The systems around the DPUService controller.
pub const DPUSERVICE: [System; 3] = [System::Dpf, System::DpuClusters, System::ArgoCd];

impl System {
    /// Returns its controller, with these delays. The jitter follows from the seed; several systems may have the same seed.
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

    /// Returns the CRDs of the kinds that it serves, as text.
    fn texts(self) -> &'static [&'static str] {
        match self {
            Self::HyperShift => {
                &[include_str!("definitions/hostedclusters.yaml"), include_str!("definitions/nodepools.yaml")]
            }
            Self::Dpf => &[include_str!("definitions/dpuclusters.yaml")],
            Self::MetalLb => &[
                include_str!("definitions/ipaddresspools.yaml"),
                include_str!("definitions/l2advertisements.yaml"),
            ],
            Self::DpuClusters => &[],
            Self::ArgoCd => {
                &[include_str!("definitions/applications.yaml"), include_str!("definitions/appprojects.yaml")]
            }
        }
    }
}

/// Returns the controllers of these systems, with the same delays. Their jitter follows from the seed.
pub fn controllers(systems: &[System], pace: Pace, seed: u64) -> Vec<Box<dyn Machine + Send>> {
    systems.iter().map(|system| system.controller(pace, seed)).collect()
}

/// Returns the CRDs of the kinds that these systems serve. They contain only what clients need, with upstream's names, defaults
/// and rules.
pub fn definitions(systems: &[System]) -> Vec<Value> {
    systems.iter().flat_map(|system| &DEFINITIONS[system]).cloned().collect()
}

/// Returns the CRDs of a HyperShift without the field `networking.allocateNodeCIDRs` (before openshift/hypershift#7278).
pub fn older_hypershift() -> Vec<Value> {
    let mut crds = definitions(&[System::HyperShift]);
    let networking = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/networking";
    for networking in crds.iter_mut().filter_map(|crd| crd.pointer_mut(networking)) {
        if let Some(fields) = networking["properties"].as_object_mut() {
            fields.remove("allocateNodeCIDRs");
        }
        if let Some(rules) = networking["x-kubernetes-validations"].as_array_mut() {
            let is_older = |rule: &str| !rule.contains("allocateNodeCIDRs");
            rules.retain(|rule| rule["rule"].as_str().is_some_and(is_older));
        }
    }
    crds
}

/// The CRDs of each system. A search reads them thousands of times.
static DEFINITIONS: LazyLock<BTreeMap<System, Vec<Value>>> = LazyLock::new(|| {
    let systems = [System::HyperShift, System::Dpf, System::MetalLb, System::DpuClusters, System::ArgoCd];
    let read = |text: &&str| yaml::read(text).expect("a definition is YAML");
    systems.into_iter().map(|system| (system, system.texts().iter().map(read).collect())).collect()
});

//! The systems around the DPF-HCP Bridge: HyperShift, DPF and MetalLB, and a container registry.
//!
//! The first three are controllers on the same API server. Each is a [`Machine`], so that it can be hosted wherever one
//! can: by a [`Cluster`](crate::cluster::Cluster::start_foreign) in virtual time, or by the shell on any API server. They
//! do what others see of them: what they write, in which order, and for what they wait.
//!
//! | world | reads | writes |
//! | --- | --- | --- |
//! | [`hypershift`] | HostedClusters, NodePools, the Secrets that they name | their status, control-plane namespaces, Services and kubeconfigs |
//! | [`dpf`] | DPUClusters and their kubeconfigs | their status |
//! | [`metallb`] | IPAddressPools, Services | addresses of Services |

use std::sync::Arc;

use lockstep_core::engine::machine::Machine;
use lockstep_core::object::{Kind, ObjectRef, metadata};
use serde_json::Value;

mod addresses;
pub mod dpf;
pub mod hypershift;
mod level;
mod look;
pub mod metallb;
mod pace;
pub mod registry;
mod status;

pub use self::level::{Controller, Level};
pub use self::look::Look;
pub use self::pace::Pace;

/// All three controllers, at one pace. Their jitter follows from the seed.
pub fn all(pace: Pace, seed: u64) -> Vec<Box<dyn Machine + Send>> {
    vec![
        Box::new(Level::new(hypershift::HyperShift::default(), pace, seed)),
        Box::new(Level::new(dpf::Dpf, pace, seed.wrapping_add(1))),
        Box::new(Level::new(metallb::MetalLb, pace, seed.wrapping_add(2))),
    ]
}

/// The definitions of the kinds that they serve: as much of each as matters to who uses them, with upstream's names,
/// defaults and rules.
pub fn definitions() -> Vec<Value> {
    let texts = [
        include_str!("worlds/definitions/hostedclusters.yaml"),
        include_str!("worlds/definitions/nodepools.yaml"),
        include_str!("worlds/definitions/dpuclusters.yaml"),
        include_str!("worlds/definitions/ipaddresspools.yaml"),
    ];
    texts.map(|text| serde_yaml::from_str(text).expect("a definition is YAML")).into()
}

fn service_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Service", "services", true)
}

fn secret_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
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

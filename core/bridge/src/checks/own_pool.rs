//! Whether the bridge's own IPAddressPool and L2Advertisement can be created and used.

use lockstep_engine::action::ErrorKind;

use super::unmet::Unmet;
use super::unwatched::unwatched;
use crate::model::source::Source;
use crate::snapshot::{BridgeSnapshot, OwnedObject};
use crate::store::pools;

/// Returns why they can't be created or used. Objects that are not created yet are no obstacle.
pub fn check(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let (name, address) = snapshot.own_pool()?;
    for source in [Source::Pools, Source::Advertisements] {
        let kind = source.kind();
        let title = format!("{} {name} for spec.metalLBPool", kind.kind);
        match snapshot.own_pool_object(source)? {
            OwnedObject::Unknown(failure) if failure.class == ErrorKind::KindNotServed => {
                return Some(Unmet::wait(format!(
                    "MetalLB is not installed: {}s are not served here; install MetalLB",
                    kind.kind
                )));
            }
            OwnedObject::Unknown(failure) => return Some(Unmet::wait(unwatched(source, failure).2)),
            OwnedObject::Foreign => {
                return Some(Unmet::user_action(format!(
                    "{title} exists and does not belong to this DPFHCPBridge; remove it if nothing uses it, or create the \
                     DPFHCPBridge under another name"
                )));
            }
            OwnedObject::Going => {
                return Some(Unmet::wait(format!(
                    "{title} is being deleted, and is created again when it is gone; check its finalizers if that takes long"
                )));
            }
            OwnedObject::Absent | OwnedObject::Ours(_) => {}
        }
    }
    if let Some(other) = pools::other_holder(snapshot.store, name, address) {
        return Some(Unmet::user_action(format!(
            "address {address} of spec.metalLBVirtualIP is in IPAddressPool {other}, so IPAddressPool {name} for \
             spec.metalLBPool can't contain it: MetalLB loads no configuration while two pools overlap; choose an address that \
             is in no pool, or create the DPFHCPBridge without spec.metalLBPool"
        )));
    }
    let own = pools::other_namespace(snapshot.store, &name.namespace)?;
    Some(Unmet::user_action(format!(
        "MetalLB does not use IPAddressPool {name} for spec.metalLBPool, because it runs in namespace {own}; create the \
         DPFHCPBridge with this namespace in spec.metalLBPool"
    )))
}

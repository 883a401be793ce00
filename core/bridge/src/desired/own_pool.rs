//! The IPAddressPool with the bridge's address, and the L2Advertisement that announces it. They are created before the
//! HostedCluster, and are in the namespace of MetalLB, so they have no owner.

use std::iter;
use std::net::IpAddr;

use lockstep_engine::action::Action;
use lockstep_engine::object::{Name, Uid};
use lockstep_engine::write::{covers, create_or_apply};
use serde_json::{Value, json};

use crate::model::pool;
use crate::model::service::assigned;
use crate::model::source::Source;
use crate::names::{self, control_plane_namespace};
use crate::snapshot::{BridgeSnapshot, OwnedObject};
use crate::store::pools;

/// Returns the write that brings the pool to its desired state; `None` if it is as wanted, or is not the bridge's. MetalLB takes
/// away an address that is no longer in a pool. So if the address changes, the pool contains the former one until the Service
/// has the new one, unless the Service may have it from another pool: two pools must not overlap.
pub fn pool(snapshot: &BridgeSnapshot<'_>) -> Option<Action> {
    let (name, address) = snapshot.own_pool()?;
    let existing = snapshot.own_pool_object(Source::Pools)?.ours();
    let (namespace, service) = (control_plane_namespace(snapshot.key), snapshot.service());
    let is_former = |given: &IpAddr| {
        *given != address
            && existing.is_some_and(|pool| pool::holds(pool, *given))
            && !pools::other_gives(snapshot.store, name, *given, &namespace, service)
    };
    let former = service.into_iter().flat_map(assigned).filter(is_former);
    let addresses: Vec<String> = iter::once(address).chain(former).map(|it| format!("{it}/32")).collect();
    bring(
        snapshot,
        name,
        Source::Pools,
        &json!({
            "addresses": addresses,
            "autoAssign": false,
            "avoidBuggyIPs": false,
            "serviceAllocation": { "namespaces": [namespace] },
        }),
    )
}

/// Returns the write that brings the advertisement to its desired state. Its other fields are left to users, such as the nodes
/// and interfaces that announce the address.
pub fn advertisement(snapshot: &BridgeSnapshot<'_>) -> Option<Action> {
    let (name, _) = snapshot.own_pool()?;
    bring(snapshot, name, Source::Advertisements, &json!({ "ipAddressPools": [name.name] }))
}

fn bring(snapshot: &BridgeSnapshot<'_>, name: &Name, source: Source, spec: &Value) -> Option<Action> {
    let existing = match snapshot.own_pool_object(source)? {
        OwnedObject::Absent => None,
        OwnedObject::Ours(object) => Some(object),
        OwnedObject::Unknown(_) | OwnedObject::Foreign | OwnedObject::Going => return None,
    };
    if existing.is_some_and(|existing| covers(&existing["spec"], spec)) {
        return None;
    }
    let kind = source.kind();
    let manifest = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "namespace": name.namespace,
            "name": name.name,
            "labels": names::labels(snapshot.key),
        },
        "spec": spec,
    });
    Some(create_or_apply(name.object(&kind), manifest, existing.map(Uid::of).as_ref()))
}

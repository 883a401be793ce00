//! The IPAddressPools and L2Advertisements that bridges have of their own.

use std::net::IpAddr;

use lockstep_bridge::model::pool::overlaps;
use lockstep_bridge::names::{self, BRIDGE_NAME};
use lockstep_engine::object::{Name, ObjectRef, controller_uid, is_deleting, label, metadata};
use lockstep_external::metallb;
use lockstep_sim::cluster::Change;
use lockstep_sim::invariant::{Moment, is_deletion};
use serde_json::Value;

use super::judged::{STALE, was};
use crate::bridge::setup::NAMESPACE;

/// Returns the addresses of a pool of the Bridge.
fn addresses(pool: &Value) -> impl Iterator<Item = IpAddr> {
    let ranges = pool["spec"]["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ranges.filter_map(|range| range.strip_suffix("/32")?.parse().ok())
}

/// Returns whether an object has matched all the time in the last minutes.
pub(super) fn has_long_been(moment: &Moment<'_>, object: &ObjectRef, is_so: impl Fn(&Value) -> bool) -> bool {
    let versions = moment.history.versions(object);
    let ends = versions.iter().skip(1).map(|next| next.at).chain([moment.entry.at]);
    let since = moment.entry.at.saturating_sub(STALE);
    let mut recent = versions.iter().zip(ends).filter(|(_, end)| *end >= since).peekable();
    recent.peek().is_some_and(|(first, _)| first.at <= since)
        && recent.all(|(version, _)| version.object.as_deref().is_some_and(&is_so))
}

pub(super) fn pools_do_not_overlap(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let before: Vec<IpAddr> = old.as_deref().into_iter().flat_map(addresses).collect();
    let Some(state) = moment.history.process(process).filter(|_| object.kind == names::pool()) else {
        return Ok(());
    };
    for address in addresses(new).filter(|address| !before.contains(address)) {
        let other = state.observed.iter().find(|(other, pool)| {
            other.kind == names::pool()
                && *other != object
                && other.namespace == object.namespace
                && overlaps(pool, address)
                && has_long_been(moment, other, |pool| overlaps(pool, address))
        });
        if let Some((other, _)) = other {
            return Err(format!("{object} has {address}, which is in {other}"));
        }
    }
    Ok(())
}

/// Returns the bridge's own pool and advertisement.
fn own(bridge: &Name) -> [ObjectRef; 2] {
    let name = names::control_plane_namespace(bridge);
    [names::pool(), names::advertisement()]
        .map(|kind| ObjectRef::namespaced(&kind, metallb::NAMESPACE, &name))
}

pub(super) fn a_cluster_is_created_after_its_pool(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: None, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let bridge = ObjectRef { kind: names::bridge(), ..object.clone() };
    let has_own_pool = |bridge: &Value| {
        Some(metadata(bridge, "uid")) == controller_uid(new) && bridge["spec"]["metalLBPool"].is_object()
    };
    if object.kind != names::hosted_cluster()
        || !moment.server.object(&bridge).is_some_and(|it| has_own_pool(it))
    {
        return Ok(());
    }
    // The request may have been in transit while a user deleted one of them.
    let is_missing = |own: &ObjectRef| moment.server.object(own).is_none() && !was(moment, own, |_| true);
    match own(&Name::of(new)).into_iter().find(is_missing) {
        Some(own) => Err(format!("{object} was created, and {own} was not")),
        None => Ok(()),
    }
}

pub(super) fn pools_are_deleted_last(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    let Change { object, old: Some(old), .. } = change else { return Ok(()) };
    let is_pool = object.kind == names::pool() || object.kind == names::advertisement();
    let Some(name) = label(old, BRIDGE_NAME).filter(|_| is_pool && is_deletion(change)) else {
        return Ok(());
    };
    let target = ObjectRef::namespaced(&names::bridge(), NAMESPACE, name);
    let Some(bridge) = moment.server.object(&target) else { return Ok(()) };
    // One that was deleted may have been created again while the request was in transit.
    if !is_deleting(bridge) {
        if was(moment, &target, is_deleting) {
            return Ok(());
        }
        return Err(format!("{object} was deleted, and its bridge is not"));
    }
    let cluster = ObjectRef::namespaced(&names::hosted_cluster(), NAMESPACE, name);
    let uid = metadata(bridge, "uid");
    match moment.server.object(&cluster) {
        Some(cluster) if controller_uid(cluster) == Some(uid) => {
            Err(format!("{object} was deleted, and the HostedCluster of its bridge exists"))
        }
        _ => Ok(()),
    }
}

//! The keys with which hosted clusters encrypt etcd.

use lockstep_bridge::model::encryption_key::{self, KEY};
use lockstep_bridge::names;
use lockstep_engine::object::Name;
use lockstep_sim::cluster::{Change, What};
use lockstep_sim::invariant::Moment;

use super::judged::was;
use crate::bridge::setup::NAMESPACE;

/// HyperShift copies the key into the namespace of the control plane. If it copies another one, the API server can't read what
/// it has encrypted.
pub(super) fn the_key_of_a_cluster_never_changes(moment: &Moment<'_>) -> Result<(), String> {
    let What::Changed(change) = &moment.entry.what else { return Ok(()) };
    let Change { object, old: Some(old), new: Some(new), .. } = change else { return Ok(()) };
    let is_copy = object.kind == names::secret()
        && object.name.ends_with("-etcd-encryption-key")
        && object.namespace.as_deref() != Some(NAMESPACE);
    if is_copy && old["data"][KEY] != new["data"][KEY] {
        return Err(format!("{object} is another key"));
    }
    Ok(())
}

pub(super) fn a_cluster_is_created_after_its_key(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: None, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let key = encryption_key::secret(&Name::of(new)).object(&names::secret());
    let is_encrypted = object.kind == names::hosted_cluster() && new["spec"]["secretEncryption"].is_object();
    // The request may have been in transit while a user deleted the key.
    if is_encrypted && moment.server.object(&key).is_none() && !was(moment, &key, |_| true) {
        return Err(format!("{object} was created, and {key} was not"));
    }
    Ok(())
}

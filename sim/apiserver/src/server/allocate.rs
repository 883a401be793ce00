//! The server's allocations: addresses and ports of services.

use serde_json::Value;

use super::meta;
use super::registry::Resource;
use super::status::Status;
use super::store::{Prefix, Store};
use crate::builtin::services::Allocations;

/// Allocates what an object neither requests explicitly nor already has.
pub(super) fn allocate(
    store: &Store,
    resource: &Resource,
    object: &mut Value,
    live: Option<&Value>,
) -> Result<(), Status> {
    if !resource.is("", "services") {
        return Ok(());
    }
    let all = Prefix::namespace("");
    let own = live.map(meta::uid);
    let others = store
        .list(resource.table, &all, None)
        .map(|(_, service)| &**service)
        .filter(|service| own != Some(meta::uid(service)));
    let refused = |cause| Status::invalid(resource.qualified_kind(), meta::name(object), &[cause]);
    let mut service = object.clone();
    Allocations::of(others).allocate(&mut service, live).map_err(refused)?;
    *object = service;
    Ok(())
}

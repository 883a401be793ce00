//! The owners of the replicas, translated between an object and its `Scale`.

use serde_json::Value;

use super::entries::{self, Entries, Entry};
use super::path::Step;
use super::set::Set;

/// Where the objects of an API version have their replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replicas {
    /// The server does not know the version: its entries are dropped.
    Unknown,
    /// The version has no scale.
    Nowhere,
    /// The JSON pointer of the field.
    At(String),
}

/// The API version of every `Scale`.
const API_VERSION: &str = "autoscaling/v1";

/// The replicas of a `Scale`.
const REPLICAS: &str = "/spec/replicas";

fn path(pointer: &str) -> Vec<Step> {
    pointer.split('/').skip(1).map(Step::field).collect()
}

fn only(pointer: &str) -> Set {
    let mut set = Set::default();
    set.insert(&path(pointer));
    set
}

/// Returns the path of the replicas, if the entry owns them.
fn owned(entry: &Entry, replicas: &impl Fn(&str) -> Replicas) -> Option<String> {
    match replicas(&entry.api_version) {
        Replicas::At(pointer) if entry.set.contains(&path(&pointer)) => Some(pointer),
        Replicas::At(_) | Replicas::Nowhere | Replicas::Unknown => None,
    }
}

/// Sets the managed fields of a `Scale` to the owners of the object's replicas.
pub(super) fn from_parent(parent: &Value, scale: &mut Value, replicas: impl Fn(&str) -> Replicas) {
    let mut shown = Entries::new();
    for entry in entries::decode(Some(parent)).unwrap_or_default().into_values() {
        if owned(&entry, &replicas).is_some() {
            let entry = Entry { api_version: API_VERSION.to_owned(), set: only(REPLICAS), ..entry };
            shown.insert(entry.id(), entry);
        }
    }
    entries::encode(scale, &shown);
}

/// Updates the managed fields of the object to those of its changed `Scale`, which `api_version` of the object served.
///
/// As on the real server, an update of the replicas gets an entry without time, beside the other fields of its manager.
pub(super) fn to_parent(
    parent: &mut Value,
    scale: &Value,
    api_version: &str,
    replicas: impl Fn(&str) -> Replicas,
) {
    let before = entries::decode(Some(parent)).unwrap_or_default();
    let mut shown = entries::decode(Some(scale)).unwrap_or_default();
    let mut after = Entries::new();
    for (id, entry) in &before {
        let Some(pointer) = owned(entry, &replicas) else {
            if replicas(&entry.api_version) != Replicas::Unknown {
                after.insert(id.clone(), entry.clone());
            }
            continue;
        };
        if shown.remove(id).is_some() {
            after.insert(id.clone(), entry.clone());
            continue;
        }
        let set = entry.set.difference(&only(&pointer));
        if !set.is_empty() {
            after.insert(id.clone(), Entry { set, ..entry.clone() });
        }
    }
    let Replicas::At(pointer) = replicas(api_version) else { return };
    for (id, entry) in shown {
        if entry.set.contains(&path(REPLICAS)) {
            let time = before.get(&id).and_then(|before| before.time.clone());
            let set = only(&pointer);
            after.insert(id, Entry { api_version: api_version.to_owned(), set, time, ..entry });
        }
    }
    entries::encode(parent, &after);
}

//! How an object terminates: its finalizers and its grace period decide what a deletion does with it.

use serde_json::Value;

use super::delete_options::{DeleteOptions, Propagation};
use super::grace::Grace;
use super::registry::Resource;
use super::{meta, strategy};

/// What a deletion does with an object.
pub(super) enum Effect {
    /// Nothing: the object is already being deleted.
    Unchanged,
    /// The object is removed.
    Removed,
    /// The object is marked as being deleted and then removed: a Pod that nothing has to stop.
    MarkedAndRemoved(Value),
    /// The object is marked as being deleted and waits for its finalizers or its grace period.
    Marked(Value),
}

/// Returns the effect of a deletion on an object.
pub(super) fn effect(resource: &Resource, live: &Value, options: &DeleteOptions) -> Effect {
    let grace = Grace::of(resource, live, options);
    if grace == Grace::Pending {
        return Effect::Unchanged;
    }
    let wanted = finalizers(resource, live, options.propagation);
    if wanted.is_empty() && grace.seconds() == 0 {
        let Grace::Seconds(_) = grace else { return Effect::Removed };
        let mut object = live.clone();
        grace.mark(&mut object, options.now);
        return Effect::MarkedAndRemoved(object);
    }
    let mut object = live.clone();
    meta::set_finalizers(&mut object, &wanted);
    grace.mark(&mut object, options.now);
    // A repeated deletion also writes an object whose definition has changed since it was stored.
    let object = resource.refreshed(object);
    if object == *live { Effect::Unchanged } else { Effect::Marked(object) }
}

/// Returns the finalizers with those of the propagation policy.
pub(super) fn finalizers(resource: &Resource, object: &Value, policy: Option<Propagation>) -> Vec<String> {
    let present = meta::finalizers(object);
    // Events have no dependents.
    let policy = policy.filter(|_| resource.plural != "events" || resource.is_custom());
    let policy = policy.or_else(|| {
        let has = |name: &str| present.contains(&name);
        if has(meta::ORPHAN) {
            Some(Propagation::Orphan)
        } else if has(meta::FOREGROUND) {
            Some(Propagation::Foreground)
        } else {
            strategy::orphans_by_default(resource).then_some(Propagation::Orphan)
        }
    });
    let own = |name: &&str| *name != meta::ORPHAN && *name != meta::FOREGROUND;
    let mut finalizers: Vec<String> = present.into_iter().filter(own).map(str::to_owned).collect();
    match policy {
        Some(Propagation::Orphan) => finalizers.push(meta::ORPHAN.to_owned()),
        Some(Propagation::Foreground) => finalizers.push(meta::FOREGROUND.to_owned()),
        Some(Propagation::Background) | None => {}
    }
    finalizers
}

//! Decides what to do about each resource of a namespace: leave, apply, remove, or report a problem.
//!
//! Source: NamespaceClass operator, "Declarative Pruning"; decisions on ownership in `docs/decisions`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::namespaceclass::AppliedResource;
use lockstep_engine::action::{Answer as _, Outcome};
use lockstep_engine::object::{Kind, ResourceVersion, Uid, is_deleting};
use lockstep_engine::repair_backoff::RepairBackoff;
use lockstep_engine::time::Monotonic;
use serde::{Deserialize, Serialize};

use super::condition_cause::ConditionCause;
use super::model::{Binding, Class as NamespaceClass, Resolved, Resource};
use super::names::{OBJECTS_ADOPTED, reason};
use super::ownership::{Found, Ownership, ownership};
use super::resolved_class::{ClassResource, id_of};
use super::store::Store;

/// An apply and its preconditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Apply {
    /// The entry to apply.
    pub entry: Arc<ClassResource>,
    /// The uid that the object must have, if it exists.
    pub uid: Option<Uid>,
    /// The resource version that it must have, if it isn't ours yet.
    pub version: Option<ResourceVersion>,
    /// Whether it repairs a resource that the status lists as applied already. The results of other entries do not affect
    /// this.
    pub repairs: bool,
    /// Whether the object existed before the binding applied it.
    pub existed: bool,
}

impl Apply {
    /// Returns whether it takes over an object that isn't ours yet.
    pub fn takes_over(&self) -> bool {
        self.version.is_some()
    }
}

/// A removal whose preconditions ensure that the object is ours: the object is deleted, or loses our labels and annotations.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Removal {
    /// The resource, as a status lists it.
    pub resource: AppliedResource,
    /// Its kind.
    pub kind: Arc<Kind>,
    /// Its uid.
    pub uid: Uid,
    /// The resource version in which it was seen to be ours.
    pub version: ResourceVersion,
    /// Whether it existed before, so that it is not deleted.
    pub keeps: bool,
}

/// One pass over the resources of a namespace, carried from stage to stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    /// The binding as last read or written.
    pub binding: Binding,
    /// The resolved resources of the class.
    pub resolved: Resolved,
    /// Entries whose objects must be read first.
    pub survey: Vec<Arc<ClassResource>>,
    /// Resources that are ours according to the status or the watch, and that no class entry names any more.
    pub stale: Vec<AppliedResource>,
    /// The entries to apply.
    pub applies: Vec<Apply>,
    /// The resources to remove.
    pub removals: Vec<Removal>,
    /// The resources that the status will list as applied.
    pub listed: BTreeSet<AppliedResource>,
    /// The resources that it will list as pending: it is not known whether they exist.
    pub pending: BTreeSet<AppliedResource>,
    /// The problems because of which the binding is not ready.
    pub causes: Vec<ConditionCause>,
    /// When to reconcile again although nothing is wrong.
    pub recheck: Option<Duration>,
    /// Whether drift is reported and not repaired.
    pub reports_drift: bool,
    /// Whether it changes a ready namespace in a rollout that limits how many are in change: then `Ready` becomes false first.
    pub in_rollout: bool,
    /// The objects that existed before they were applied, each with what happens to it when the class lets go of it.
    pub adopted: BTreeMap<String, String>,
    /// The objects of which that is not known now.
    pub unknown: BTreeSet<String>,
}

impl Work {
    /// Compares the desired resources with the known ones. The watches of all kinds must be settled.
    pub fn plan(namespace: &str, binding: &Binding, resolved: &Resolved, store: &Store) -> Self {
        let content = &resolved.content;
        let is_named = |resource: &AppliedResource| content.named.contains(&id_of(resource));
        let remembered: BTreeSet<AppliedResource> = binding.status.remembered().cloned().collect();
        let (named, mut stale): (Vec<_>, Vec<_>) = remembered.into_iter().partition(is_named);
        // Objects of applies that another leader sent, or this one before a crash, and whose results it did not see.
        for left in store.applied_in(namespace, binding) {
            // One that was applied in another version is the same object.
            let id = id_of(&left);
            if !is_named(&left) && !stale.iter().any(|known| id_of(known) == id) {
                stale.push(left);
            }
        }
        let mut work = Self {
            binding: binding.clone(),
            resolved: resolved.clone(),
            survey: Vec::new(),
            stale,
            applies: Vec::new(),
            removals: Vec::new(),
            listed: BTreeSet::new(),
            pending: BTreeSet::new(),
            causes: Vec::new(),
            recheck: None,
            reports_drift: store.classes.get(&binding.class).is_some_and(NamespaceClass::reports_drift),
            in_rollout: false,
            adopted: BTreeMap::new(),
            unknown: BTreeSet::new(),
        };
        for problem in &content.problems {
            let message = format!("spec.resources[{}]: {}", problem.index, problem.message);
            let reason = reason::INVALID_RESOURCES;
            work.causes.push(ConditionCause { reason, message, retry: false });
        }
        for message in &content.unresolved {
            let (reason, message) = (reason::UNRESOLVED_VARIABLE, message.clone());
            work.causes.push(ConditionCause { reason, message, retry: false });
        }
        for entry in &content.entries {
            work.plan_entry(namespace, entry, store);
        }
        // A resource that was applied once and whose entry now has a mistake, or a variable without a value, is not removed, and
        // stays listed.
        let valid: BTreeSet<_> = content.entries.iter().map(|entry| entry.id()).collect();
        for resource in named {
            if !valid.contains(&id_of(&resource)) {
                work.keep(resource);
            }
        }
        work
    }

    fn plan_entry(&mut self, namespace: &str, entry: &Arc<ClassResource>, store: &Store) {
        let Some(resources) = store.resources.get(&entry.kind) else { return };
        if let Some(failure) = &resources.refused {
            let what = format!("{}: watching the kind", entry.title());
            self.keep_if_listed(entry);
            self.causes.push(ConditionCause {
                retry: false,
                ..ConditionCause::failed(&what, reason::APPLY_FAILED, failure)
            });
            return;
        }
        let key = (namespace.to_owned(), entry.name.clone());
        let Some(resource) = resources.cache.get(&key) else {
            self.survey.push(Arc::clone(entry));
            return;
        };
        let adopted = resource.is_adopted_by(&self.binding);
        let existed = self.existed(entry, resource);
        let is_kept = adopted && entry.keeps_adopted;
        match ownership(resource, &self.binding) {
            // Every binding has another uid. So the owner reference is not among the fields that are compared.
            Ownership::Owned { .. }
                if resource.controller.is_some()
                    && !is_kept
                    && existed == adopted
                    && resource.is_intact(entry) =>
            {
                self.is_applied(entry, adopted);
            }
            Ownership::Adopted { .. } if is_kept && resource.is_intact(entry) => {
                self.is_applied(entry, adopted);
            }
            Ownership::Owned { .. } | Ownership::Adopted { .. } if self.leaves_drift(entry, resource) => {
                self.report_drift(entry, &resource.difference(entry), existed);
            }
            Ownership::Owned { uid, .. } | Ownership::Adopted { uid, .. } => {
                self.applies.push(self.apply(entry, Some(uid), None, existed));
            }
            Ownership::Adoptable { .. } | Ownership::Terminating | Ownership::OwnedByOther => {
                self.survey.push(Arc::clone(entry));
            }
        }
    }

    /// Returns whether an entry's object existed before it was applied. If its annotation is missing, because the apply that would have
    /// set it has failed or another client has removed it, the status shows that.
    fn existed(&self, entry: &ClassResource, resource: &Resource) -> bool {
        if resource.is_adopted_by(&self.binding) {
            return true;
        }
        let mut known = taken_over(&self.binding.status.conditions).map(|(object, _)| object).peekable();
        if known.peek().is_none() {
            return false;
        }
        let object = existed_before(&entry.kind.kind, &entry.name);
        known.any(|known| known == object)
    }

    /// Records that an entry's object exists. If it existed before it was applied, that is recorded too.
    pub fn is_applied(&mut self, entry: &ClassResource, adopted: bool) {
        self.listed.insert(entry.applied());
        if adopted {
            let end =
                if entry.keeps_adopted { "it stays" } else { "it is deleted, as its adoption-policy says" };
            let end = format!("{end} when the class lets go of it");
            self.adopted.insert(existed_before(&entry.kind.kind, &entry.name), end);
        }
    }

    /// Returns whether an entry was brought to the namespace, as far as the status shows. If another client has removed the status,
    /// its object shows it.
    fn was_applied(&self, entry: &ClassResource, ours: Option<&Resource>) -> bool {
        let status = &self.binding.status;
        let is_removed = status.conditions.is_empty();
        (self.binding.has_applied(&self.resolved) && status.applied_resources.contains(&entry.applied()))
            || (is_removed && ours.is_some_and(|resource| resource.was_applied(entry)))
    }

    /// Returns whether a resource that differs from its entry is left as it is. A change that the server has refused is listed as
    /// applied as well: it is tried again.
    fn leaves_drift(&self, entry: &ClassResource, resource: &Resource) -> bool {
        let has_ended_well = || {
            let ready = self.binding.ready();
            let reasons =
                [reason::RESOURCES_APPLIED, reason::DRIFTED, reason::CONTESTED, reason::WAITING_FOR_DELETION];
            ready.is_some_and(|ready| reasons.contains(&ready.reason.as_str()))
        };
        self.reports_drift
            && self.was_applied(entry, Some(resource))
            && !resource.is_of_another_apply(entry)
            && (resource.was_applied(entry) || has_ended_well())
    }

    fn report_drift(&mut self, entry: &ClassResource, difference: &str, adopted: bool) {
        self.is_applied(entry, adopted);
        self.causes.push(ConditionCause::drifted(&entry.title(), difference));
    }

    fn apply(
        &self,
        entry: &Arc<ClassResource>,
        uid: Option<Uid>,
        version: Option<ResourceVersion>,
        existed: bool,
    ) -> Apply {
        let repairs = self.was_applied(entry, None);
        Apply { entry: Arc::clone(entry), uid, version, repairs, existed }
    }

    /// Postpones the repairs whose backoff has not passed yet.
    pub fn postpone(&mut self, drift_backoff: &RepairBackoff<Arc<ClassResource>>, now: Monotonic) {
        for apply in std::mem::take(&mut self.applies) {
            match drift_backoff.wait(&apply.entry, now).filter(|_| apply.repairs) {
                Some(wait) => {
                    self.is_applied(&apply.entry, apply.existed && !apply.takes_over());
                    self.recheck_within(wait);
                }
                None => self.applies.push(apply),
            }
        }
    }

    /// Ensures that the next reconcile happens within this time.
    pub fn recheck_within(&mut self, wait: Duration) {
        self.recheck = Some(self.recheck.map_or(wait, |recheck| recheck.min(wait)));
    }

    /// Continues with an entry whose object has been read.
    pub fn surveyed(&mut self, entry: &Arc<ClassResource>, found: Option<Found>) {
        // A class that the namespace had for a moment may have removed it, or let go of it.
        let is_interrupted = self.binding.ready().is_some_and(|ready| ready.reason == reason::APPLYING);
        let leaves_drift = |ours: Option<&Resource>| {
            self.reports_drift
                && !is_interrupted
                && self.was_applied(entry, ours)
                && !ours.is_some_and(|resource| resource.is_of_another_apply(entry))
        };
        let Some(Found { ownership, owner, resource, .. }) = found else {
            if leaves_drift(None) {
                return self.report_drift(entry, "it is missing", false);
            }
            return self.applies.push(self.apply(entry, None, None, false));
        };
        let is_known = self.existed(entry, &resource);
        let is_left = match &ownership {
            Ownership::Owned { .. } | Ownership::Adopted { .. } => leaves_drift(Some(&resource)),
            Ownership::Adoptable { .. } => leaves_drift(None),
            Ownership::Terminating | Ownership::OwnedByOther => false,
        };
        match ownership {
            _ if is_left => self.report_drift(entry, "it lost its label or its owner", is_known),
            Ownership::Owned { uid, .. } | Ownership::Adopted { uid, .. } => {
                self.applies.push(self.apply(entry, Some(uid), None, is_known));
            }
            Ownership::Adoptable { uid, version, existed } => {
                self.applies.push(self.apply(entry, Some(uid), Some(version), existed || is_known));
            }
            Ownership::Terminating => {
                self.keep_if_listed(entry);
                self.causes.push(ConditionCause::waiting(&entry.title()));
            }
            Ownership::OwnedByOther => {
                self.causes.push(ConditionCause::conflict(&entry.title(), &owner));
            }
        }
    }

    /// Continues with a listed resource that no entry names and that has been read.
    pub fn surveyed_stale(&mut self, resource: AppliedResource, kind: &Arc<Kind>, found: Option<Found>) {
        // It is gone. So there is nothing to remove or to list.
        let Some(found) = found else { return };
        let what = format!("{} {}", resource.kind, resource.name);
        match found.ownership {
            // The entry that named it may be the one with the mistake.
            Ownership::Owned { .. } | Ownership::Adopted { .. }
                if self.has_mistakes() && found.class.as_ref() == Some(&self.binding.class) =>
            {
                self.causes.push(ConditionCause::kept(&what));
                self.listed.insert(resource);
            }
            Ownership::Owned { uid, version } => {
                self.removals.push(Removal { resource, kind: Arc::clone(kind), uid, version, keeps: false });
            }
            Ownership::Adopted { uid, version } => {
                self.removals.push(Removal { resource, kind: Arc::clone(kind), uid, version, keeps: true });
            }
            Ownership::Terminating => {
                self.causes.push(ConditionCause::waiting(&what));
                self.listed.insert(resource);
            }
            // It is no longer ours. So it is neither removed nor listed.
            Ownership::Adoptable { .. } | Ownership::OwnedByOther => {}
        }
    }

    /// Continues after the removals. What is not gone yet stays listed.
    pub fn pruned(&mut self, outcomes: Vec<Outcome>) {
        for (removal, outcome) in std::mem::take(&mut self.removals).into_iter().zip(outcomes) {
            let what = format!("{} {}", removal.resource.kind, removal.resource.name);
            let cause = match outcome.remaining() {
                Ok(Some(object)) if is_deleting(&object) => ConditionCause::waiting(&what),
                Ok(_) => continue,
                // It existed a moment ago. It is dropped from the status once a read has shown that it is gone.
                Err(failure) if failure.is_absence() => ConditionCause::waiting(&what),
                Err(failure) => {
                    ConditionCause::failed(&format!("{what}: removing it"), reason::PRUNE_FAILED, &failure)
                }
            };
            self.causes.push(cause);
            self.listed.insert(removal.resource);
        }
    }

    fn has_mistakes(&self) -> bool {
        !self.resolved.content.problems.is_empty()
    }

    /// Keeps an entry in the status list if it is listed there, although its object is unknown and not changed now.
    pub fn keep_if_listed(&mut self, entry: &ClassResource) {
        let applied = entry.applied();
        if self.binding.status.remembered().any(|known| *known == applied) {
            self.keep(applied);
        }
    }

    /// Keeps a resource, of which nothing more is known now, in the list that contains it. If only the watch has shown it, it
    /// exists and is listed as applied.
    pub fn keep(&mut self, resource: AppliedResource) {
        self.unknown.insert(existed_before(&resource.kind, &resource.name));
        let status = &self.binding.status;
        let is_applied = status.applied_resources.contains(&resource);
        let is_pending = !is_applied && status.pending_resources.contains(&resource);
        let list = if is_pending { &mut self.pending } else { &mut self.listed };
        list.insert(resource);
    }

    /// Returns everything that may exist once the writes have begun, beyond the resources listed as applied.
    pub fn pending_ahead(&self) -> BTreeSet<AppliedResource> {
        let status = &self.binding.status;
        let applies = self.applies.iter().map(|apply| apply.entry.applied());
        let known = status.pending_resources.iter().cloned();
        applies.chain(known).filter(|resource| !status.applied_resources.contains(resource)).collect()
    }

    /// Returns whether the status must be written before anything else. This lists every object before it is created. It also
    /// ensures, before anything is created or removed, that the binding still is the one that this plan was made from. That
    /// applies to resources that were created before, too. A stale view may show a resource as deleted by a user that another
    /// leader has pruned since; if it is created again, it must be listed.
    pub fn needs_fence(&self) -> bool {
        let status = &self.binding.status;
        let is_listed = |entry: &ClassResource| status.remembered().any(|known| *known == entry.applied());
        let creates = |apply: &Apply| apply.uid.is_none() || !is_listed(&apply.entry);
        let changes = !self.removals.is_empty() || !self.applies.is_empty();
        !self.removals.is_empty() || self.applies.iter().any(creates) || (self.in_rollout && changes)
    }
}

/// Between the sentences about objects that existed before.
pub const SEPARATOR: &str = "; ";

/// Returns what `ObjectsAdopted` says of each object: that it existed before, and what will happen to it. A sentence that was cut is
/// left out.
pub fn taken_over(conditions: &[Condition]) -> impl Iterator<Item = (&str, &str)> {
    let condition = conditions.iter().find(|condition| condition.type_ == OBJECTS_ADOPTED);
    let message = condition.map_or("", |condition| &condition.message);
    message.split(SEPARATOR).filter(|one| !one.ends_with(" ...")).filter_map(|one| one.split_once(": "))
}

/// Returns what `ObjectsAdopted` says of an object, up to the colon.
pub fn existed_before(kind: &str, name: &str) -> String {
    format!("{kind} {name:?} existed before, and was taken over")
}

#[cfg(test)]
mod tests {
    use lockstep_engine::conditions::{self, Finding};
    use serde_json::json;

    use super::super::names::READY;
    use super::super::resolved_class;
    use super::super::tests::at;
    use super::super::variables::Variables;
    use super::*;

    fn planned(drift: &str) -> (Work, Arc<ClassResource>) {
        let mut store = Store::default();
        store.kinds.learn("v1", vec![Kind::known("", "v1", "ConfigMap", "configmaps", true)]);
        let resource = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
        let content = resolved_class::resolve("web", &[resource], Variables::default(), &store.kinds);
        let content = Arc::new(content);
        let entry = Arc::clone(&content.entries[0]);
        let resolved = Resolved { uid: "class".into(), generation: 1, content };
        let listed = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a" }]);
        let status =
            json!({ "appliedResources": listed, "observedClassUid": "class", "observedClassGeneration": 1 });
        let binding = json!({ "metadata": { "uid": "binding" }, "status": status });
        let mut work = Work::plan("team", &Binding::read(&binding), &resolved, &store);
        work.reports_drift = drift == "Report";
        (work, entry)
    }

    fn found(ownership: Ownership) -> Found {
        let resource = Resource::read(&json!({}), None);
        Found { ownership, owner: String::new(), class: None, resource }
    }

    #[test]
    fn what_is_missing_while_the_namespace_is_being_changed_is_no_drift() {
        for (reason, applied) in [(reason::RESOURCES_APPLIED, 0), (reason::APPLYING, 1)] {
            let (mut work, entry) = planned("Report");
            let finding = Finding::broken(READY, reason, String::new());
            conditions::set(&mut work.binding.status.conditions, finding, 1, at(Duration::ZERO));
            work.surveyed(&entry, None);
            assert_eq!(work.applies.len(), applied, "{reason}");
        }
    }

    #[test]
    fn an_object_that_is_left_as_it_is_was_not_taken_over() {
        let foreign = || found(Ownership::Adoptable { uid: "a".into(), version: 1.into(), existed: true });
        let (mut work, entry) = planned("Report");
        work.surveyed(&entry, Some(foreign()));
        assert!(work.adopted.is_empty() && work.applies.is_empty(), "{:?}", work.adopted);

        let (mut work, entry) = planned("Repair");
        work.surveyed(&entry, Some(foreign()));
        assert!(work.applies[0].takes_over());
        let mut backoff = RepairBackoff::default();
        let now = Monotonic::START + Duration::from_mins(1);
        for _ in 0..2 {
            backoff.take_in(vec![Arc::clone(&entry)], &[], now);
        }
        work.postpone(&backoff, now);
        assert!(work.adopted.is_empty() && work.applies.is_empty(), "{:?}", work.adopted);
    }

    #[test]
    fn what_was_deleted_is_created_again_only_if_the_binding_has_not_changed() {
        let (mut work, entry) = planned("Repair");
        let ours = Ownership::Owned { uid: "a".into(), version: 1.into() };
        work.surveyed(&entry, Some(found(ours)));
        assert!(!work.needs_fence(), "to change what is there, its uid is proof enough");
        work.surveyed(&entry, None);
        assert!(work.needs_fence());
    }
}

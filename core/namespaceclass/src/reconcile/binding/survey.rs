//! What a pass reads before it writes: the kinds and objects of stale resources, and objects that are not ours according to the
//! cache.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_crds::namespaceclass::AppliedResource;
use lockstep_engine::action::{Action, Answer as _, ErrorKind, Failure, KubeRequest, Outcome, next};
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;

use super::{Stage, fence, prune, seek};
use crate::condition_cause::ConditionCause;
use crate::controller::Controller;
use crate::model::Binding;
use crate::names::{self, reason};
use crate::ownership::Found;
use crate::plan::Work;
use crate::requests::discoveries;
use crate::resolved_class;

impl Controller {
    pub(super) fn discover(&mut self, name: &str, work: Box<Work>, now: Now) -> Next<Stage> {
        let kinds = &self.store.kinds;
        let unknown = work.stale.iter().filter(|stale| kinds.find(&stale.api_version, &stale.kind).is_none());
        let asked: BTreeSet<String> = unknown.map(|stale| stale.api_version.clone()).collect();
        if asked.is_empty() {
            return self.survey(name, work, now);
        }
        Next::Await(discoveries(&asked), Stage::Discovering(work, asked))
    }

    pub(super) fn survey(&mut self, name: &str, mut work: Box<Work>, now: Now) -> Next<Stage> {
        // A watch may have found since that a kind of an API version is gone. Others of it may still be served.
        if work.stale.iter().any(|stale| !self.store.kinds.is_discovered(&stale.api_version)) {
            return self.discover(name, work, now);
        }
        let mut stale = Vec::new();
        for resource in std::mem::take(&mut work.stale) {
            let kinds = &self.store.kinds;
            match kinds.find(&resource.api_version, &resource.kind) {
                Some(kind) if resolved_class::may_be_held(&kind) => {
                    // An earlier leader may still create it after it was seen to be gone. So its kind is watched.
                    self.watch_resources(&kind, now);
                    stale.push((resource, kind));
                }
                // A later discovery of its version may have failed: what was found before remains known.
                Some(_) => {}
                None => {
                    let what = format!("{} {}", resource.kind, resource.name);
                    if let Some(failure) = kinds.failure(&resource.api_version) {
                        work.causes.push(ConditionCause::failed(
                            &format!("{what}: finding its kind"),
                            reason::PRUNE_FAILED,
                            failure,
                        ));
                        work.keep(resource);
                    } else if kinds.may_return(&resource.api_version) {
                        work.causes.push(ConditionCause::unserved(&what, &resource.api_version));
                        work.keep(resource);
                    }
                }
            }
            // A kind that is no longer served has no objects left. No object of a kind that classes can't hold is ours.
        }
        let object = |kind, resource| ObjectRef::namespaced(kind, name, resource);
        let entries = work.survey.iter().map(|entry| object(&entry.kind, &entry.name));
        // By now the class may list a resource that the cached class does not list yet.
        let class = (!stale.is_empty()).then(|| ObjectRef::cluster(&names::class(), &work.binding.class));
        let listed = stale.iter().map(|(resource, kind)| object(kind, &resource.name));
        let targets = entries.chain(class).chain(listed);
        let reads = targets.map(|target| Action::Kube(KubeRequest::Get { target, metadata_only: true }));
        Next::Await(reads.collect(), Stage::ReadingLive(work, stale))
    }

    pub(super) fn surveyed(
        &mut self,
        name: &str,
        mut work: Box<Work>,
        stale: Vec<(AppliedResource, Arc<Kind>)>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        let mut outcomes = outcomes.into_iter();
        for entry in std::mem::take(&mut work.survey) {
            let outcome = next(&mut outcomes);
            self.notice_missing_kind(&entry.kind, &outcome);
            match self.judge(name, &work.binding, outcome) {
                Ok(found) => work.surveyed(&entry, found),
                Err(failure) => {
                    let what = format!("{}: reading it", entry.title());
                    work.keep_if_listed(&entry);
                    work.causes.push(ConditionCause::failed(&what, reason::APPLY_FAILED, &failure));
                }
            }
        }
        if !stale.is_empty() {
            match next(&mut outcomes).found() {
                Ok(Some(class)) if work.resolved.is_of(&class) => {}
                Ok(_) => return seek(work.binding.class),
                Err(failure) => return Next::Done(Verdict::retry("reading the class", &failure)),
            }
        }
        for (resource, kind) in stale {
            let outcome = next(&mut outcomes);
            self.notice_missing_kind(&kind, &outcome);
            match self.judge(name, &work.binding, outcome) {
                Ok(found) => work.surveyed_stale(resource, &kind, found),
                Err(failure) => {
                    let what = format!("{} {}: reading it", resource.kind, resource.name);
                    work.causes.push(ConditionCause::failed(&what, reason::PRUNE_FAILED, &failure));
                    work.keep(resource);
                }
            }
        }
        self.pace_repairs(name, &mut work, now);
        if work.needs_fence() { fence(name, work, now) } else { prune(name, work) }
    }

    /// The watch of a kind may notice much later than a request that the kind is gone.
    pub(super) fn notice_missing_kind(&mut self, kind: &Kind, outcome: &Outcome) {
        if outcome.as_ref().is_err_and(|failure| failure.class == ErrorKind::KindNotServed) {
            self.not_served(kind);
        }
    }

    fn judge(&mut self, name: &str, binding: &Binding, outcome: Outcome) -> Result<Option<Found>, Failure> {
        let Some(object) = outcome.found()? else { return Ok(None) };
        let resource = self.store.read_resource(&object);
        Ok(Some(Found::new(name, binding, &object, resource)))
    }
}

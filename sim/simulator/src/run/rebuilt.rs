//! Checks that each status can be rebuilt: a controller must be able to write it again from everything else.
//!
//! Backups do not restore the status of an object, and other clients can remove it.

use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::ObjectRef;
use serde_json::{Value, json};

use super::outcome::Violation;
use super::running::Running;
use crate::conditions::untimed;
use crate::subject::{Client, ClusterClient, SystemUnderTest};

/// A process that takes over reconciles everything at once, and one that never becomes idle does so all the time.
const AT_ONCE: Duration = Duration::from_mins(2);
/// Any other process that leads need not notice that a status has changed until the next resync. This is no multiple of a minute, so
/// that leaders seldom change in the moment in which Argo CD attempts a sync again.
const AT_RESYNC: Duration = Duration::from_secs(690);
/// Time in which the watches of a standby deliver the removal. If it took over before, it could take the status for written.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

impl Running<'_> {
    /// Checks that the processes that lead write each status again as it was, if another client removes it, and write nothing else.
    pub(super) fn leaders_rebuild(&mut self) -> Result<(), Violation> {
        let becomes_idle = self.members.iter().any(|member| member.becomes_idle());
        self.rebuild(if becomes_idle { AT_RESYNC } else { AT_ONCE }, false)
    }

    /// Checks the same of processes that take over then.
    pub(super) fn new_leaders_rebuild(&mut self) -> Result<(), Violation> {
        self.rebuild(AT_ONCE, true)
    }

    fn rebuild(&mut self, time: Duration, take_over: bool) -> Result<(), Violation> {
        let reports = self.reports();
        if reports.is_empty() {
            return Ok(());
        }
        for (target, _) in &reports {
            let client: &mut dyn Client = &mut ClusterClient { cluster: &mut self.cluster, actor: "user" };
            client.merge_status(target, &Value::Null);
        }
        if take_over {
            if self.has_standbys() {
                self.stop_leaders();
                self.without_writes(SEEN_WITHIN, 7, |_| false)?;
            }
            self.replace_leaders();
        }
        self.without_writes(time, 7, is_report)?;
        let known = reports.iter().filter_map(|(target, before)| Some((target, before.as_ref()?)));
        let differences: Vec<String> =
            known.filter_map(|(target, before)| self.differs_from(target, before)).collect();
        if !differences.is_empty() {
            return Err(self.unmet(7, differences.join("; ")));
        }
        self.differs(0)
    }

    /// Returns every object whose status must be rebuilt, and that status if it is the same again.
    fn reports(&self) -> Vec<(ObjectRef, Option<Value>)> {
        let server = &self.cluster.server;
        let of_member = |member: &&'static dyn SystemUnderTest| {
            let status = |target: &ObjectRef| server.object(target).map(|object| untimed(&object["status"]));
            let is_same = member.becomes_idle();
            let targets = member.reports(server).into_iter();
            targets
                .map(move |target| (target.clone(), status(&target).filter(|_| is_same)))
                .collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of_member).collect()
    }

    /// Returns how the status of an object differs from the one before.
    fn differs_from(&self, target: &ObjectRef, before: &Value) -> Option<String> {
        let object = self.cluster.server.object(target);
        let now = object.map(|object| untimed(&object["status"])).unwrap_or_default();
        let fields = before.as_object().into_iter().chain(now.as_object()).flatten();
        let field = fields.map(|(field, _)| field).find(|field| before[*field] != now[*field])?;
        let (before, now) = (&before[field], &now[field]);
        let elements = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let [lost, new] = [(before, now), (now, before)].map(|(these, those)| {
            json!(elements(these).iter().filter(|it| !elements(those).contains(it)).collect::<Vec<_>>())
        });
        Some(if before.is_array() && now.is_array() {
            format!("{field} of {target} had {lost}, and is rebuilt with {new}")
        } else {
            format!("{field} of {target} was {before}, and is rebuilt as {now}")
        })
    }
}

/// Returns whether a write is of a status, or an Event.
fn is_report(action: &Action) -> bool {
    match action {
        Action::Kube(KubeRequest::Patch { subresource: Some(_), .. }) => true,
        action => action.target().is_some_and(|target| target.kind.kind == "Event"),
    }
}

//! Mistakes in what a status reports, without any other effect.

use std::collections::BTreeMap;

use lockstep_dpuservice::names::{condition, reason};
use lockstep_engine::action::{Action, KubeRequest, Outcome, Request};
use lockstep_engine::machine::Event;
use lockstep_engine::object::ObjectRef;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use lockstep_sim::conditions::untimed;
use serde_json::{Value, json};

use super::common::{Asked, HOST, as_if_done, retell};
use super::requests::written_conditions;

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "failures_stay_pending",
        sentence: "What Argo CD reports as degraded is reported as in progress.",
        controller: lockstep_crds::dpuservice::CONTROLLER,
        plant: plant::<TakesFailuresForProgress>,
        garble: None,
    },
    Bug {
        name: "progress_is_a_failure",
        sentence: "What Argo CD reports as in progress is reported as a failure.",
        controller: lockstep_crds::dpuservice::CONTROLLER,
        plant: plant::<TakesProgressForFailure>,
        garble: None,
    },
    Bug {
        name: "omits_what_argo_cd_compared",
        sentence: "The message about Applications does not say whether they are synced.",
        controller: lockstep_crds::dpuservice::CONTROLLER,
        plant: plant::<OmitsComparisons>,
        garble: None,
    },
    Bug {
        name: "hides_halts",
        sentence: "A rollout that failures have halted is reported as going on.",
        controller: lockstep_crds::dpuservice::CONTROLLER,
        plant: plant::<HidesHalts>,
        garble: None,
    },
    Bug {
        name: "halts_too_early",
        sentence: "A rollout that goes on is reported as halted.",
        controller: lockstep_crds::dpuservice::CONTROLLER,
        plant: plant::<HaltsTooEarly>,
        garble: None,
    },
    Bug {
        name: "problems_are_summed_up_as_pending",
        sentence: "Ready says that a service is pending although Argo CD or DPF reports a problem.",
        controller: lockstep_crds::dpuservice::CONTROLLER,
        plant: plant::<SumsUpProblemsAsPending>,
        garble: None,
    },
    Bug {
        name: "hides_pauses",
        sentence: "A class does not report that it is paused.",
        controller: HOST,
        plant: plant::<HidesPauses>,
        garble: None,
    },
    Bug {
        name: "releases_stay_pending",
        sentence: "The release of a NodePool is reported as not accepted, whatever HyperShift reports.",
        controller: lockstep_crds::bridge::CONTROLLER,
        plant: plant::<TakesReleasesForRefused>,
        garble: None,
    },
    Bug {
        name: "repeats_no_status",
        sentence: "A status is not written if only its times differ from the last one that was written, whatever another client has made of it.",
        controller: HOST,
        plant: plant::<RepeatsNoStatus>,
        garble: None,
    },
];

#[derive(Default)]
struct TakesFailuresForProgress;

impl Flaw for TakesFailuresForProgress {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "Application", |application| {
            let health = &mut application["status"]["health"]["status"];
            if *health == "Degraded" {
                *health = json!("Progressing");
            }
        }))
    }
}

/// Changes what a written status says about Applications, if `Ready` repeats it.
fn restate(request: &mut Request, change: impl Fn(&mut Value)) {
    let Some(conditions) = written_conditions(request) else { return };
    let name = condition::APPLICATIONS_READY;
    let repeats = |it: &Value| it["message"].as_str().is_some_and(|message| message.starts_with(name));
    if conditions.iter().any(repeats) {
        conditions.iter_mut().filter(|it| it["type"] == name || repeats(it)).for_each(change);
    }
}

#[derive(Default)]
struct TakesProgressForFailure;

impl Flaw for TakesProgressForFailure {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        restate(request, |found| {
            if found["reason"] == "Pending" {
                found["reason"] = json!("Failure");
            }
        });
        None
    }
}

#[derive(Default)]
struct OmitsComparisons;

impl Flaw for OmitsComparisons {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        restate(request, |found| {
            let message = found["message"].as_str().unwrap_or_default();
            found["message"] = message.replace("(OutOfSync, ", "(").replace("(Synced, ", "(").into();
        });
        None
    }
}

/// Returns the condition `RolledOut` of a status to write.
fn rolled_out(request: &mut Request) -> Option<&mut Value> {
    written_conditions(request)?.iter_mut().find(|it| it["type"] == condition::ROLLED_OUT)
}

#[derive(Default)]
struct HidesHalts;

impl Flaw for HidesHalts {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let found = rolled_out(request).filter(|found| found["reason"] == reason::HALTED)?;
        found["reason"] = json!(reason::ROLLING_OUT);
        None
    }
}

#[derive(Default)]
struct HaltsTooEarly;

impl Flaw for HaltsTooEarly {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let found = rolled_out(request).filter(|found| found["reason"] == reason::ROLLING_OUT)?;
        found["reason"] = json!(reason::HALTED);
        found["message"] = json!("as many are not ready as spec.rollout.maxUnavailable permits");
        None
    }
}

#[derive(Default)]
struct SumsUpProblemsAsPending;

impl Flaw for SumsUpProblemsAsPending {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let ready = written_conditions(request)?.iter_mut().find(|condition| condition["type"] == "Ready")?;
        if ["Failure", "NotReady"].iter().any(|problem| ready["reason"] == **problem) {
            ready["reason"] = json!("Pending");
        }
        None
    }
}

#[derive(Default)]
struct HidesPauses;

impl Flaw for HidesPauses {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        written_conditions(request)?.retain(|condition| condition["type"] != "Paused");
        None
    }
}

#[derive(Default)]
struct TakesReleasesForRefused;

impl Flaw for TakesReleasesForRefused {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "NodePool", |pool| {
            for condition in
                pool.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if condition["type"] == "ValidReleaseImage" {
                    (condition["status"], condition["reason"]) = (json!("False"), json!("NotFound"));
                }
            }
        }))
    }
}

#[derive(Default)]
struct RepeatsNoStatus {
    asked: Asked,
    written: BTreeMap<ObjectRef, Value>,
}

impl Flaw for RepeatsNoStatus {
    fn event(&mut self, event: Event) -> Option<Event> {
        let action = self.asked.answered(&event);
        if let Some(Action::Kube(KubeRequest::Patch { target, patch, .. })) = action
            && matches!(event, Event::Finished { outcome: Ok(_), .. })
        {
            self.written.insert(target, untimed(&patch["status"]));
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Patch { target, subresource: Some(_), patch }) = &request.action else {
            return None;
        };
        if self.written.get(target) == Some(&untimed(&patch["status"])) {
            return Some(Ok(as_if_done(&request.action)));
        }
        self.asked.note(request);
        None
    }
}

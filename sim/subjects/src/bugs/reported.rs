//! Mistakes in what a status reports, without any other effect: each is a wrong view of another system.

use lockstep_engine::machine::Event;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::json;

use super::common::retell;

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "failures_stay_pending",
        sentence: "What Argo CD reports as degraded is reported as in progress.",
        controller: lockstep_crds::dpuservice::CONTROLLER,
        plant: plant::<TakesFailuresForProgress>,
        garble: None,
    },
    Bug {
        name: "releases_stay_pending",
        sentence: "The release of a NodePool is reported as not accepted, whatever HyperShift reports.",
        controller: lockstep_crds::bridge::CONTROLLER,
        plant: plant::<TakesReleasesForRefused>,
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

#[derive(Default)]
struct TakesReleasesForRefused;

impl Flaw for TakesReleasesForRefused {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "NodePool", |pool| {
            for condition in pool["status"]["conditions"].as_array_mut().into_iter().flatten() {
                if condition["type"] == "ValidReleaseImage" {
                    (condition["status"], condition["reason"]) = (json!("False"), json!("NotFound"));
                }
            }
        }))
    }
}

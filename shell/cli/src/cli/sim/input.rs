//! The input of users: seeds, durations, plans.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockstep_engine::duration;
use lockstep_sim::plan::What;
use lockstep_sim::{Plan, SystemUnderTest};
use lockstep_subjects as subjects;
use lockstep_subjects::{bugs, together};
use serde_json::Value;

/// Selects all planted bugs.
pub(super) const ALL_BUGS: &str = "all";

/// A range of seeds.
pub(super) type Seeds = Range<u64>;

/// Readers of JSON may round larger numbers.
const SEED_MAX: u64 = 1 << 53;
/// The maximum duration of a fault or of fault injection, so that no sum of them exceeds the calendar.
const LONGEST: Duration = Duration::from_hours(24 * 7);

/// A plan, and the file that contains it.
#[derive(Debug, Clone)]
pub(super) struct PlanFile {
    pub(super) path: PathBuf,
    pub(super) plan: Plan,
}

impl PlanFile {
    /// Returns the name of the file, without its extension.
    pub(super) fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

pub(super) fn seeds(text: &str) -> Result<Seeds, String> {
    let numbers = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let (start, end): (u64, u64) = numbers.ok_or("expected a range such as 0..1000")?;
    if start >= end {
        return Err(format!("the range is empty: it goes up to but without {end}"));
    }
    if end > SEED_MAX {
        return Err(format!("seeds end at {SEED_MAX}"));
    }
    Ok(start..end)
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text)?;
    if !(Duration::from_secs(1)..=LONGEST).contains(&duration) {
        return Err("expected at least 1s and at most 7 days (168h)".to_owned());
    }
    Ok(duration)
}

/// Returns the names of everything that can be simulated.
pub(super) fn controllers() -> Vec<&'static str> {
    subjects::all().into_iter().map(SystemUnderTest::name).chain([together::NAME]).collect()
}

/// Returns the controller with that name.
pub(super) fn subject(name: &str) -> anyhow::Result<&'static dyn SystemUnderTest> {
    subjects::named(name)
        .with_context(|| format!("there is no controller {name:?}; there are: {}", controllers().join(", ")))
}

/// Returns the names of all planted bugs, and the one for all of them.
pub(super) fn bugs() -> Vec<&'static str> {
    bugs::all().into_iter().map(|bug| bug.name).chain([ALL_BUGS]).collect()
}

/// Returns the names of the bugs in the museum, and the one for all of them.
pub(super) fn exhibits() -> Vec<&'static str> {
    lockstep_museum::exhibits().map(|exhibit| exhibit.bug).chain([ALL_BUGS]).collect()
}

/// Reads a plan that the simulator can run. Clap adds the name of the file to an error.
pub(super) fn plan_file(path: &str) -> Result<PlanFile, String> {
    let read = || -> anyhow::Result<PlanFile> {
        let text = std::fs::read_to_string(path)?;
        let plan = serde_json::from_str(&text)?;
        check(&plan)?;
        Ok(PlanFile { path: path.into(), plan })
    };
    read().map_err(|error| format!("{error:#}"))
}

/// Checks that all names in the plan exist: a fault that is never injected would look like one that does no harm.
fn check(plan: &Plan) -> anyhow::Result<()> {
    let subject = subject(&plan.controller)?;
    let times = serde_json::to_value(plan)?;
    within(&times)?;
    for fault in &plan.faults {
        if let What::Operation { name, .. } = &fault.what {
            let names: Vec<&str> = subject.operations().iter().map(|act| act.name).collect();
            ensure!(
                names.contains(&name.as_str()),
                "there is no operation {name:?}; there are: {}",
                names.join(", ")
            );
        }
        if let Some(controller) = &fault.controller {
            let members: Vec<&str> = subject.members().iter().map(|member| member.name()).collect();
            ensure!(
                members.contains(&controller.as_str()),
                "there is no controller {controller:?} that a fault could affect; there are: {}",
                members.join(", ")
            );
        }
        if let Some(aim) = &fault.aim {
            let actions = subject.actions();
            ensure!(
                actions.contains(&aim.as_str()),
                "{} never asks for {aim:?}, which a fault is aimed at; it asks for: {}",
                plan.controller,
                actions.join(", ")
            );
        }
    }
    Ok(())
}

/// Checks the times of a plan. All of them are in milliseconds and named accordingly.
fn within(value: &Value) -> anyhow::Result<()> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            let is_time = name.ends_with("_ms") || name.ends_with("Ms");
            let is_short =
                value.as_i64().is_some_and(|ms| u128::from(ms.unsigned_abs()) <= LONGEST.as_millis());
            ensure!(!is_time || is_short, "{name} {value} is more than a week");
            within(value)
        }),
        Value::Array(items) => items.iter().try_for_each(within),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!(seeds("0..1000"), Ok(0..1000));
        assert_eq!(seeds("17..18"), Ok(17..18));
        for bad in
            ["", "17", "..", "1..", "..1", "1..1", "2..1", "-1..1", "a..b", "0..=1", "0..9007199254740993"]
        {
            assert!(seeds(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn durations_are_neither_nothing_nor_endless() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("168h"), Ok(LONGEST));
        for bad in ["", "10", "-5m", "0s", "999ms", "169h", "soon"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }
}

//! The timeline as text.

use std::fmt::Write as _;

use super::model::{Item, Timeline};

/// Minimum number of consecutive routine items that are folded into one line.
const FOLDED_FROM: usize = 3;

pub(super) fn text(timeline: &Timeline) -> String {
    let mut out = String::new();
    write_text(timeline, &mut out).expect("a string takes everything");
    out
}

fn write_text(timeline: &Timeline, out: &mut String) -> std::fmt::Result {
    let plan = &timeline.plan;
    writeln!(out, "controller  {}", plan.controller)?;
    writeln!(out, "seed        {}", plan.seed)?;
    match &timeline.violation {
        None => writeln!(out, "violated    nothing")?,
        Some(violation) => {
            writeln!(out, "violated    {}, after {:?}", violation.invariant, violation.at)?;
            writeln!(out, "it says     {}", violation.sentence)?;
            writeln!(out, "seen        {}", violation.seen)?;
        }
    }
    if let Some(replay) = &timeline.replay {
        writeln!(out, "replay      {replay}")?;
    }
    writeln!(
        out,
        "plan        {} s of storm, {} faults and acts{}",
        seconds(plan.stormy_ms),
        timeline.faults.len(),
        if plan.standby { ", with standbys" } else { "" }
    )?;
    for fault in &timeline.faults {
        writeln!(out, "            {fault}")?;
    }
    writeln!(out)?;
    let lanes: Vec<String> = timeline.lanes.iter().map(|lane| lane.title()).collect();
    let width = lanes.iter().map(String::len).max().unwrap_or(0);
    let mut rest = timeline.items.as_slice();
    while let Some(first) = rest.first() {
        let run = run_of_routine(rest);
        let (these, others) = rest.split_at(if run < FOLDED_FROM { 1 } else { run });
        rest = others;
        let text = if these.len() == 1 { first.text.replace('\n', " ") } else { folded(these) };
        let (at, lane, kind) = (seconds(first.at), &lanes[first.lane], first.kind.name());
        writeln!(out, "{at:>10}  {lane:<width$}  {kind:<9}  {text}")?;
    }
    Ok(())
}

/// Returns how many of the first items are routine items of one lane.
fn run_of_routine(items: &[Item]) -> usize {
    let same = |item: &&Item| item.routine.is_some() && item.lane == items[0].lane;
    items.iter().take_while(same).count()
}

/// Returns a summary such as `3 × sees Namespace, 1 × has listed Namespace (until 1.250)`.
fn folded(items: &[Item]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in items.iter().filter_map(|item| item.routine.as_deref()) {
        match counts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let counts: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} × {name}")).collect();
    let until = items.last().map_or(0, |item| item.at);
    let until = if until > items[0].at { format!(" (until {})", seconds(until)) } else { String::new() };
    format!("{}{until}", counts.join(", "))
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

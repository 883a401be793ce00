//! Tests the page of a timeline in a real browser.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lockstep_cli::controllers;
use lockstep_engine::machine::Event;
use lockstep_engine::recording::what_if::WhatIf;
use lockstep_engine::recording::{Line, Origin, Recordable, RecordedStep, read};
use lockstep_sim::draw::Range;
use lockstep_sim::timeline::Kind;
use lockstep_sim::{Search, Simulation, SystemUnderTest as _, Timeline, Violation, record};
use lockstep_subjects::namespaceclass::NamespaceClass;
use lockstep_tests::browser::Browser;
use serde_json::Value;

/// Returns the timeline of a run with the faults of this many seeds at once. A violation is added at its end.
fn stormy(seeds: u64) -> Timeline {
    let simulation = Simulation::new(&NamespaceClass);
    let range = Range {
        controller: NamespaceClass.name(),
        stormy: Duration::from_mins(20),
        faults: &[],
        acts: NamespaceClass.operations(),
        aims: NamespaceClass.actions(),
        members: Vec::new(),
    };
    let mut plan = range.plan(1);
    plan.faults = (1..=seeds).flat_map(|seed| range.plan(seed).faults).collect();
    plan.faults.sort_by_key(|fault| fault.from_ms);
    let mut run = simulation.run(&plan, true);
    run.violation = Some(Violation {
        invariant: "nothing_is_shown",
        sentence: "Whatever </script> says, <b>nothing</b> is shown.",
        seen: "a \u{2028} timeline".to_owned(),
        at: run.simulated,
    });
    Timeline::of(&plan, &run).with_replay("lockstep replay run.json")
}

/// Opens the page in a browser. Without a browser, it prints a line on standard error and returns `None`.
fn open(timeline: &Timeline) -> anyhow::Result<Option<Browser>> {
    let Some(mut browser) = Browser::start()? else {
        // Not the macro: its output is captured for tests that pass.
        writeln!(
            std::io::stderr(),
            "SKIPPED: no chromium on the PATH; the page of the timeline is not tested"
        )?;
        return Ok(None);
    };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("timeline.html");
    std::fs::write(&file, timeline.html())?;
    browser.open(&file)?;
    Ok(Some(browser))
}

fn number(browser: &mut Browser, expression: &str) -> anyhow::Result<usize> {
    let value = browser.evaluate(expression)?;
    let number = value.as_u64().with_context(|| format!("{expression} is {value}"))?;
    Ok(usize::try_from(number)?)
}

fn text(browser: &mut Browser, expression: &str) -> anyhow::Result<String> {
    match browser.evaluate(expression)? {
        Value::String(text) => Ok(text),
        other => bail!("{expression} is {other}"),
    }
}

const ITEMS: &str = "document.querySelectorAll('#chart .item').length";
const DETAILS: &str = "document.getElementById('details').innerText";

/// Scrolls an item into the window and moves the mouse over it.
fn hover(browser: &mut Browser, item: usize) -> anyhow::Result<()> {
    let place = browser.evaluate(&format!(
        "(() => {{ const mark = document.querySelector('[data-item=\"{item}\"]');
           mark.scrollIntoView({{block: 'center', inline: 'center'}});
           const box = mark.getBoundingClientRect();
           return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
    ))?;
    let [x, y] = [0, 1].map(|side| place[side].as_f64());
    browser.point_at(x.context("an item has a place")?, y.context("an item has a place")?)
}

#[test]
fn the_page_shows_a_run_and_its_violation() -> anyhow::Result<()> {
    let timeline = stormy(30);
    ensure!(timeline.items.len() >= 5000, "{} items are too few for a comparison", timeline.items.len());
    let Some(mut browser) = open(&timeline)? else { return Ok(()) };
    assert_eq!(number(&mut browser, ITEMS)?, timeline.items.len());
    assert_eq!(number(&mut browser, "document.querySelectorAll('label.lane').length")?, timeline.lanes.len());
    let drawn = "document.querySelectorAll('#chart .bar').length";
    assert_eq!(number(&mut browser, drawn)?, timeline.conditions.len());
    let head = text(&mut browser, "document.querySelector('header').innerText")?;
    for part in ["Whatever </script> says, <b>nothing</b> is shown.", "lockstep replay run.json", "acts"] {
        assert!(head.contains(part), "{part}: {head}");
    }
    let is_visible = "(() => { const box = document.querySelector('.item.violation').getBoundingClientRect();
        return box.left > 0 && box.right < innerWidth; })()";
    assert_eq!(browser.evaluate(is_visible)?, true, "the violation is in the window at the start");
    assert!(text(&mut browser, DETAILS)?.contains("nothing_is_shown"));
    assert_eq!(browser.complaints()?, [] as [Value; 0]);
    Ok(())
}

#[test]
fn the_page_shows_a_recording_beside_its_counterfactual() -> anyhow::Result<()> {
    let simulation = Simulation::new(&NamespaceClass);
    let plan = Search::default().range(&simulation).plan(1);
    let recording = record(&NamespaceClass, &plan, &simulation.run(&plan, true))?.context("a recording")?;
    let (header, lines) = read::open(&recording)?;
    let lines: Vec<Line> = lines.collect::<Result<_, _>>()?;
    let make = |origin: Origin<'_>| {
        let revived = controllers::revive("namespaceclass", origin);
        revived.map(|machine| machine as Box<dyn Recordable>)
    };
    // Without leadership there is no decision.
    let is_lead = |line: &&Line| {
        matches!(line, Line::Step(RecordedStep { event: Event::LeadershipChanged { leading: true }, .. }))
    };
    let Some(Line::Step(step)) = lines.iter().find(is_lead) else { bail!("no process leads") };
    let number = step.number;
    let mut runs = WhatIf::new(&header, number, None, make)?;
    let mut steps = Vec::new();
    for line in lines {
        steps.extend(runs.take(line)?);
    }
    let timeline = Timeline::compared("namespaceclass", number, "<b>:drop", &steps);
    let Some(mut browser) = open(&timeline)? else { return Ok(()) };
    assert_eq!(self::number(&mut browser, ITEMS)?, timeline.items.len());
    let lanes = "[...document.querySelectorAll('label.lane')].map(it => it.innerText.trim()).join()";
    assert_eq!(text(&mut browser, lanes)?, "edit,recorded,what if");
    let drawn = "document.querySelectorAll('#chart .bar').length";
    assert_eq!(self::number(&mut browser, drawn)?, timeline.conditions.len());
    let head = text(&mut browser, "document.querySelector('header').innerText")?;
    for part in ["namespaceclass: what if <b>:drop", "steps differ"] {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(!head.contains("of storm"), "there is no plan: {head}");
    assert_eq!(browser.complaints()?, [] as [Value; 0]);
    Ok(())
}

#[test]
fn pointing_at_an_item_shows_its_object_and_what_changed() -> anyhow::Result<()> {
    let timeline = stormy(1);
    let Some(mut browser) = open(&timeline)? else { return Ok(()) };
    let is_update = |item: &&lockstep_sim::timeline::Item| {
        item.kind == Kind::Change && item.before.is_some() && item.before != item.object
    };
    let place = timeline.items.iter().position(|item| is_update(&item)).context("an object is changed")?;
    let item = &timeline.items[place];
    hover(&mut browser, place)?;
    let details = text(&mut browser, DETAILS)?;
    assert!(details.contains(&item.text), "{details}");
    let [object, before] = [item.object, item.before].map(|place| &timeline.objects[place.unwrap_or(0)]);
    for (state, class) in [(object, "added"), (before, "removed")] {
        let version = state["metadata"]["resourceVersion"].to_string();
        let marked = format!(
            "[...document.querySelectorAll('#details .{class}')].map(it => it.innerText).join('\\n')"
        );
        let marked = text(&mut browser, &marked)?;
        assert!(marked.contains(&version), "{version} is not marked as {class}: {marked}");
    }
    // The keyboard selects the next item.
    browser.evaluate(&format!("goTo({place})"))?;
    browser.press("ArrowRight")?;
    assert_ne!(text(&mut browser, DETAILS)?, details);
    assert_eq!(browser.complaints()?, [] as [Value; 0]);
    Ok(())
}

#[test]
fn filters_leave_what_was_asked_for() -> anyhow::Result<()> {
    let timeline = stormy(1);
    let Some(mut browser) = open(&timeline)? else { return Ok(()) };
    let wanted = |text: &str| text.to_lowercase().contains("namespaceclass");
    let matching = timeline.items.iter().filter(|item| wanted(&item.text)).count();
    ensure!(matching > 0 && matching < timeline.items.len(), "the filter must have something to do");
    browser.evaluate("document.getElementById('search').focus()")?;
    browser.type_in("NamespaceClass")?;
    assert_eq!(number(&mut browser, ITEMS)?, matching);
    let lane = timeline.items.iter().find(|item| wanted(&item.text)).map_or(0, |item| item.lane);
    browser.evaluate(&format!("document.querySelector('[data-lane=\"{lane}\"]').click()"))?;
    let left = timeline.items.iter().filter(|item| wanted(&item.text) && item.lane != lane).count();
    assert_eq!(number(&mut browser, ITEMS)?, left);
    let count = text(&mut browser, "document.getElementById('count').innerText")?;
    assert_eq!(count, format!("{left} of {} items", timeline.items.len()));
    assert_eq!(browser.complaints()?, [] as [Value; 0]);
    Ok(())
}

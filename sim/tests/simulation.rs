//! Searches.
use lockstep_sim::simulation::subjects::namespaceclass::NamespaceClass;
use lockstep_sim::simulation::{Search, Simulation, shrink};
use std::time::{Duration, Instant};

#[test]
fn search() {
    let env =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let simulation = Simulation::new(&NamespaceClass);
    let search = Search {
        seeds: env("A", 0)..env("B", 100),
        stormy: Duration::from_mins(env("MIN", 60)),
        faults: std::env::var("F")
            .ok()
            .map(|f| f.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
        threads: env("T", 2) as usize,
        keep_going: true,
    };
    let began = Instant::now();
    let summary = search.run(&simulation, &|_| ());
    let took = began.elapsed();
    println!(
        "{} runs, {} steps, {} requests, {:?} simulated, {:?} took: {:.0} h/min",
        summary.runs,
        summary.steps,
        summary.requests,
        summary.simulated,
        took,
        summary.simulated.as_secs_f64() / 3600.0 / (took.as_secs_f64() / 60.0)
    );
    let mut by = std::collections::BTreeMap::<&str, Vec<u64>>::new();
    for (seed, v) in &summary.failures {
        by.entry(v.invariant).or_default().push(*seed);
    }
    for (name, seeds) in &by {
        println!("{name}: {} of them {:?}", seeds.len(), &seeds[..seeds.len().min(12)]);
        println!("    {}", summary.failures[&seeds[0]].seen);
    }
    if std::env::var("SHRINK").is_ok()
        && let Some(seed) = summary.failures.keys().next()
    {
        let plan = search.range(&simulation).plan(*seed);
        let shrunk = shrink::shrink(&simulation, &plan).expect("fails");
        println!("seed {seed}, {} runs: {:#?}", shrunk.runs, shrunk.run.violation);
        for fault in &shrunk.plan.faults {
            println!("  {fault}");
        }
        for strike in &shrunk.run.strikes {
            println!("  struck {:?} {} {}", strike.at, shrunk.plan.faults[strike.fault].what, strike.befell);
        }
        if std::env::var("JOURNAL").is_ok() {
            for entry in &shrunk.run.journal {
                println!("{}", line(entry));
            }
        }
    }
}

fn line(entry: &lockstep_sim::cluster::Entry) -> String {
    use lockstep_core::engine::machine::Event;
    use lockstep_sim::cluster::What;
    let t = entry.at.as_secs_f64();
    match &entry.what {
        What::Started { process } => format!("{t:>10.3} p{process} STARTED"),
        What::Died { process } => format!("{t:>10.3} p{process} DIED"),
        What::Stepped { process, event, step, .. } => {
            let e = match event {
                Event::Observed { kind, object } => format!(
                    "observed {kind} {} rv{}",
                    object["metadata"]["name"], object["metadata"]["resourceVersion"]
                ),
                Event::Vanished { kind, object } => format!("vanished {kind} {}", object["metadata"]["name"]),
                Event::Finished { id, outcome } => format!(
                    "finished {} {}",
                    id.0,
                    match outcome {
                        Ok(_) => "ok".to_owned(),
                        Err(f) => f.to_string(),
                    }
                ),
                other => format!("{other:?}"),
            };
            let asks: Vec<String> = step
                .requests
                .iter()
                .map(|r| {
                    format!(
                        "{}:{} {}",
                        r.id.0,
                        r.action.name(),
                        r.action.target().map(ToString::to_string).unwrap_or_default()
                    )
                })
                .collect();
            let notes: Vec<String> = step
                .notes
                .iter()
                .map(|n| {
                    let mut s = format!("{n:?}");
                    s.truncate(200);
                    s
                })
                .collect();
            format!("{t:>10.3} p{process} {e} -> {} {}", asks.join(", "), notes.join("; "))
        }
        What::Carried(c) => format!(
            "{t:>10.3} p{} carried {} {} {} {:?} {:?}",
            c.process,
            c.id.0,
            c.action.name(),
            c.action.target().map(ToString::to_string).unwrap_or_default(),
            c.fate,
            c.failed
        ),
        What::Changed(c) => format!(
            "{t:>10.3} {} changed {} {}",
            c.by.title(),
            c.object,
            match &c.new {
                None => "GONE".to_owned(),
                Some(o) => format!(
                    "rv{} del={} {}",
                    o["metadata"]["resourceVersion"],
                    o["metadata"]["deletionTimestamp"],
                    if c.object.kind.kind.starts_with("Namespace") {
                        format!("{} {} {}", o["metadata"]["labels"], o["spec"], o["status"])
                    } else {
                        String::new()
                    }
                ),
            }
        ),
    }
}

#[test]
fn planted() {
    use lockstep_sim::simulation::{bugs, search::hunt};
    let simulation = Simulation::new(&NamespaceClass);
    let search = Search {
        seeds: 0..std::env::var("B").ok().and_then(|v| v.parse().ok()).unwrap_or(300),
        stormy: Duration::from_hours(1),
        faults: Vec::new(),
        threads: 2,
        keep_going: true,
    };
    let only = std::env::var("BUG").ok();
    for bug in bugs::all() {
        if only.as_deref().is_some_and(|only| only != bug.name) {
            continue;
        }
        let found = hunt(&simulation, bug, &search);
        match found.found {
            Some((seeds, violation)) => println!(
                "{:<34} {seeds:>5} {} | {}",
                bug.name,
                violation.invariant,
                violation.seen.chars().take(110).collect::<String>()
            ),
            None => println!("{:<34} NOT FOUND", bug.name),
        }
    }
}

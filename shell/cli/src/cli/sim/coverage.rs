//! The coverage of a search: the combinations that it reached, and those that it did not reach.

use std::collections::BTreeMap;
use std::fmt;

use lockstep_sim::SystemUnderTest;
use lockstep_sim::coverage::{Combination, Gap, Reached, Reason, View, gaps};
use serde::Serialize;

/// The coverage of one search.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Coverage {
    subject: &'static str,
    reached: Vec<Row>,
    never: Vec<Gap>,
}

/// A combination and how often it was reached.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    combination: Combination,
    times: u64,
}

impl Coverage {
    /// `faults` are the faults that the search drew, by name; empty for all.
    pub(super) fn new(subject: &'static dyn SystemUnderTest, reached: &Reached, faults: &[String]) -> Self {
        let never = gaps(subject, reached, faults);
        let row = |(combination, times): (&Combination, &u64)| Row {
            combination: combination.clone(),
            times: *times,
        };
        Self { subject: subject.name(), reached: reached.iter().map(row).collect(), never }
    }

    /// Prints a line for each request, view and answer, with what the request met.
    fn reached(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        type Line<'a> = (&'a str, &'a str, View, &'a str);
        let mut lines: BTreeMap<Line<'_>, Vec<(&str, u64)>> = BTreeMap::new();
        for Row { combination: it, times } in &self.reached {
            let line = (it.controller, it.request.as_str(), it.view, it.answer);
            lines.entry(line).or_default().push((it.met, *times));
        }
        let width = self.reached.iter().map(|row| row.combination.request.len()).max().unwrap_or_default();
        let mut before = None;
        for ((controller, request, view, answer), met) in lines {
            if before != Some(controller) {
                writeln!(f, "\n{controller}: combinations reached")?;
                writeln!(f, "  {:width$}  {:7}  {:15}  {:>8}  met", "request", "view", "answer", "times")?;
                before = Some(controller);
            }
            let all: u64 = met.iter().map(|(_, times)| times).sum();
            let met = met.iter().filter(|(met, _)| *met != "-");
            let met: Vec<String> = met.map(|(met, times)| format!("{met} {times}")).collect();
            let line = format!("  {request:width$}  {view:7}  {answer:15}  {all:>8}  {}", met.join(", "));
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Prints the combinations that were not reached, by reason.
    fn never(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: BTreeMap<(&str, Reason, &str), Vec<&str>> = BTreeMap::new();
        for Gap { controller, request, never, reason } in &self.never {
            lines.entry((controller, *reason, request)).or_default().push(never);
        }
        let mut before = None;
        for ((controller, reason, request), never) in lines {
            if before != Some((controller, reason)) {
                writeln!(f, "\n{controller}: never reached ({reason})")?;
                before = Some((controller, reason));
            }
            let line = format!("  {request}: {}", never.join(", "));
            writeln!(f, "{}", line.trim_end_matches([':', ' ', '-']))?;
        }
        Ok(())
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reached(f)?;
        self.never(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_sim::{Search, Simulation};
    use lockstep_subjects::namespaceclass::NamespaceClass;

    use super::*;

    #[test]
    fn the_coverage_names_what_was_reached_and_why_the_rest_was_not() {
        let search =
            Search { seeds: 0..5, stormy: Duration::from_mins(10), keep_going: true, ..Search::default() };
        let faults = vec!["conflict".to_owned(), "not_found".to_owned()];
        let search = Search { faults, ..search };
        let summary = search.run(&Simulation::new(&NamespaceClass).covering(), &|_| ());
        let coverage = Coverage::new(&NamespaceClass, &summary.reached, &search.faults);
        let text = coverage.to_string();
        for part in [
            "namespaceclass: combinations reached",
            "apply ConfigMap",
            "namespaceclass: never reached (the search does not draw this fault)",
            "never reached (no API server answers a read like this)",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let json = serde_json::to_value(&coverage).unwrap();
        assert_eq!(json["reached"][0]["controller"], "namespaceclass", "{json}");
        assert!(json["reached"][0]["times"].as_u64() > Some(0), "{json}");
        assert!(json["never"][0]["reason"].is_string(), "{json}");
    }
}

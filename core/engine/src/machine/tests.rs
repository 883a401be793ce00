use super::*;
use crate::time::Wall;

const METRICS: &[Metric] =
    &[Metric { name: "inner_total", help: "How often.", labels: &[], kind: MetricKind::Counter }];

/// A machine that says something of its own about everything.
struct Inner;

impl Machine for Inner {
    fn name(&self) -> &'static str {
        "inner"
    }

    fn step(&mut self, _: Event, _: Now) -> Step {
        Step::default()
    }

    fn deadline(&self) -> Option<Deadline> {
        Some(Deadline { at: Monotonic::START, reason: DeadlineReason::Work("queue") })
    }

    fn workload(&self) -> Workload {
        Workload { concurrency: Some(3), ..Workload::default() }
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn patience(&self) -> Option<Duration> {
        Some(Duration::from_secs(7))
    }
}

struct Outer(Inner);

impl Wrapper for Outer {
    fn inner(&self) -> &dyn Machine {
        &self.0
    }

    fn step(&mut self, _: Event, _: Now) -> Step {
        Step { notes: vec![Note::info("outer".to_owned())], ..Step::default() }
    }
}

#[test]
fn a_wrapper_is_as_its_inner_machine_in_everything_that_it_does_not_change() {
    let mut outer = Outer(Inner);
    let machine: &dyn Machine = &outer;
    assert_eq!((machine.name(), machine.is_synced()), ("inner", true));
    assert_eq!((machine.deadline(), machine.workload()), (Inner.deadline(), Inner.workload()));
    assert_eq!(machine.patience(), Some(Duration::from_secs(7)));
    assert_eq!(machine.metrics().iter().map(|metric| metric.name).collect::<Vec<_>>(), ["inner_total"]);
    let now = Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START };
    let step = Machine::step(&mut outer, Event::Started, now);
    assert_eq!(step.notes, [Note::info("outer".to_owned())]);
}

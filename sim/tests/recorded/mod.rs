//! Checks that a run is recorded without its secrets, and that the recording leads to the same decisions.

use lockstep_engine::machine::{Event, Machine};
use lockstep_engine::operator::{Config, Control, Operator};
use lockstep_engine::recording::learn::{SecretTracker, TrackerUpdate};
use lockstep_engine::recording::{FORMAT, Header, Line, Origin, Recordable, RecordedStep, Replay};
use lockstep_engine::time::Now;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Records a machine with this input, searches for the secrets, and replays the steps. Returns the number of lines of the
/// recording.
pub(crate) fn replays<C>(config: &Config, taken: Vec<(Now, Event)>, secrets: &[&str]) -> usize
where
    Operator<C>: Recordable,
    C: Control + DeserializeOwned + 'static,
    C::Key: DeserializeOwned,
    C::Stage: DeserializeOwned,
{
    let mut machine = Operator::<C>::new(config.clone());
    let mut learner = SecretTracker::new([7; 32], machine.traits());
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for (number, (now, event)) in (1..).zip(taken) {
        if let Some(TrackerUpdate { rewrites: true, .. }) = learner.learn(&event) {
            let state = machine.checkpoint()().expect("a state is JSON");
            lines.push(learner.redactor().line(&Line::Checkpoint(state)).expect("a line is JSON"));
        }
        let gave = machine.step(event.clone(), now);
        let line = Line::Step(RecordedStep { number, now, event, gave });
        lines.push(learner.redactor().line(&line).expect("a line is JSON"));
    }
    let text = String::from_utf8(lines.concat()).expect("a recording is text");
    for secret in secrets {
        assert!(!text.contains(secret), "{secret} is in the recording");
    }
    let header = Header {
        format: FORMAT,
        program: String::new(),
        machine: machine.name().to_owned(),
        config: json!(config),
        segment: 0,
    };
    let revive = |origin: Origin<'_>| {
        Operator::<C>::revive(origin).map(|machine| Box::new(machine) as Box<dyn Machine>)
    };
    let mut replay = Replay::new(&header, revive).expect("a configuration");
    let read = text.lines().map(|line| serde_json::from_str::<Line>(line).expect("a line"));
    let differs = replay.run(read).expect("a state");
    let difference = differs.map(|again| json!({ "recorded": again.taken, "now": again.differs }));
    assert_eq!(difference.unwrap_or(Value::Null), Value::Null);
    lines.len()
}

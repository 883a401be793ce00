//! A run is recorded without its secrets, and the recording leads to the same decisions.

use lockstep_core::bridge::Operator;
use lockstep_core::engine::machine::Machine;
use lockstep_core::engine::recording::learn::{Learner, News};
use lockstep_core::engine::recording::{FORMAT, Header, Line, Origin, Recordable as _, Replay, Taken};
use serde_json::{Value, json};

use super::bench::{Bench, config};
use super::objects::{NAMESPACE, PASSWORD, UPGRADE, bridge, docker_config, secret};

/// Everything that the Bridge takes in while a bridge comes, changes, meets broken Secrets and goes.
fn lived() -> Bench {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.settle();
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.settle();
    for content in [docker_config("another-password"), "{\"auths\": ".to_owned(), docker_config(PASSWORD)] {
        let changed = secret("pull", ".dockerconfigjson", &content);
        bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": changed["data"] }));
        bench.settle();
    }
    let broken = secret("ssh", "ssh-publickey", "ssh-rsa but-no-key");
    bench.merge("Secret", NAMESPACE, "ssh", &json!({ "data": broken["data"] }));
    bench.settle();
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    bench.transitions();
    bench
}

#[test]
fn a_run_without_its_secrets_is_replayed_to_the_same_steps() {
    let bench = lived();
    let mut operator = Operator::new(config());
    let mut learner = Learner::new([7; 32], operator.traits());
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for (number, (now, event)) in (1..).zip(bench.taken) {
        if let Some(News { rewrites: true, .. }) = learner.learn(&event) {
            let state = operator.checkpoint()().expect("a state is JSON");
            lines.push(learner.redactor().line(&Line::Checkpoint(state)).expect("a line is JSON"));
        }
        let gave = operator.step(event.clone(), now);
        let line = Line::Step(Taken { number, now, event, gave });
        lines.push(learner.redactor().line(&line).expect("a line is JSON"));
    }
    let text = String::from_utf8(lines.concat()).expect("a recording is text");
    for secret in [PASSWORD, "another-password", "cHVsbGVyOmNvcnJlY3Q"] {
        assert!(!text.contains(secret), "{secret} stands in the recording");
    }
    let header = Header {
        format: FORMAT,
        program: String::new(),
        machine: "bridge".to_owned(),
        config: json!(config()),
        segment: 0,
    };
    let revive =
        |origin: Origin<'_>| Operator::revive(origin).map(|operator| Box::new(operator) as Box<dyn Machine>);
    let mut replay = Replay::new(&header, revive).expect("a configuration");
    let read = text.lines().map(|line| serde_json::from_str::<Line>(line).expect("a line"));
    let differs = replay.run(read).expect("a state");
    let told = differs.map(|again| json!({ "recorded": again.taken, "now": again.differs }));
    assert_eq!(told.unwrap_or(Value::Null), Value::Null);
    assert!(lines.len() > 200, "{} lines", lines.len());
}

//! A run is recorded without its secrets, and the recording leads to the same decisions.

use lockstep_core::dpuservice::Operator;
use lockstep_core::engine::machine::Machine;
use lockstep_core::engine::recording::learn::{Learner, News};
use lockstep_core::engine::recording::{FORMAT, Header, Line, Origin, Recordable as _, Replay, Taken};
use lockstep_sim::worlds::dpu_clusters::Access;
use serde_json::{Value, json};

use super::bench::{Bench, DPF, TOKEN, config, server, service};
use super::user::User as _;

/// Everything that the controller takes in while a service comes, clusters change their kubeconfigs, and all goes.
fn lived() -> Bench {
    let mut bench = Bench::without_controller();
    bench.cluster.start(super::bench::operator, true);
    bench.settle();
    bench.join("dpu-01");
    bench.join("dpu-02");
    bench.cluster.create(&service("hbn"));
    bench.settle();
    bench.rotate("dpu-01", &Access::by_certificate(&server("dpu-01"), "YW5vdGhlci1wYXNzd29yZA=="));
    bench.settle();
    let broken = json!({ "data": { "super-admin.conf": "YW5vdGhlci1wYXNzd29yZA==" } });
    bench.cluster.merge("Secret", DPF, "dpu-02-admin-kubeconfig", &broken);
    bench.settle();
    bench.rotate("dpu-02", &Access::by_token("https://elsewhere.example.com", TOKEN));
    bench.settle();
    bench.cluster.delete("DPUService", "default", "hbn");
    bench.settle();
    bench.story();
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
    for secret in [TOKEN, "another-password", "YW5vdGhlci1wYXNzd29yZA"] {
        assert!(!text.contains(secret), "{secret} stands in the recording");
    }
    let header = Header {
        format: FORMAT,
        program: String::new(),
        machine: "dpuservice".to_owned(),
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
    assert!(lines.len() > 150, "{} lines", lines.len());
}

//! Measures and prints what a decision costs, by the backoffs and by expressions: `cargo bench -p lockstep-sentinel`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a benchmark measures and prints"
)]

use std::hint::black_box;
use std::time::Instant;

use lockstep_engine::time::Wall;
use lockstep_sentinel::config::{self, Config};
use lockstep_sentinel::decision::judge;
use lockstep_sentinel::resource::Resource;
use lockstep_sentinel::rules::Evaluator;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let params = json!([
        { "name": "ref_time", "expr": "condition('Reconciled').last_updated_time" },
        { "name": "is_reconciled", "expr": "condition('Reconciled').status == 'True'" },
        { "name": "is_changed", "expr": "resource.generation > condition('Reconciled').observed_generation" },
        { "name": "age", "expr": "now - timestamp(ref_time)" },
    ]);
    let result = "is_changed || (is_reconciled ? age > duration('30m') : age > duration('10s'))";
    let configuration = json!({
        "metadata": { "name": "shard", "generation": 1 },
        "spec": {
            "resourceType": "clusters",
            "hyperfleetAPI": { "url": "http://api" },
            "broker": { "type": "rabbitmq", "topic": "events", "url": "amqp://broker" },
            "messageDecision": { "params": params, "result": result },
        },
    });
    let config: Config = config::read(&configuration).map_err(|problems| problems.join("; "))?;
    let document = json!({
        "id": "0198f0c2-7c1e-7b7a-9d52-6a4f0b1c2d3e", "generation": 3, "labels": { "region": "us-east" },
        "status": { "conditions": [
            { "type": "Reconciled", "status": "True", "observed_generation": 3, "last_updated_time": "2025-10-21T11:59:00Z" },
            { "type": "Applied", "status": "True", "observed_generation": 3, "last_updated_time": "2025-10-21T11:59:00Z" },
        ] },
    });
    let resource = Resource {
        is_ready: true,
        since: Some("2025-10-21T11:59:00Z".parse()?),
        document: Some(document.to_string().into()),
        ..Resource::default()
    };
    let now = Wall::from_timestamp("2025-10-21T12:00:00Z".parse()?);
    let rules = config.rules.as_deref().ok_or("no expressions were read")?;
    let evaluator = Evaluator::new(rules);
    for (name, evaluator, times) in
        [("backoffs", None, 1_000_000_u32), ("expressions", Some(&evaluator), 20_000)]
    {
        let began = Instant::now();
        for _ in 0..times {
            black_box(judge(black_box(&resource), &config.backoffs, evaluator, now));
        }
        println!("a decision by {name}: {:?}", began.elapsed() / times);
    }
    Ok(())
}

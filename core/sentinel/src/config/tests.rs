use proptest::prelude::*;
use serde_json::json;

use super::*;

fn valid() -> Value {
    json!({
        "resourceType": "clusters",
        "backoffNotReady": "10s",
        "backoffReady": "30m",
        "shardSelector": { "matchLabels": { "region": "us-east" } },
        "hyperfleetAPI": { "url": "http://hyperfleet-api.hyperfleet-system.svc.cluster.local:8080", "timeout": "10s" },
        "broker": { "type": "gcp-pubsub", "topic": "hyperfleet-events", "projectID": "hyperfleet-prod" },
        "pollInterval": "5s",
    })
}

/// Returns the valid configuration with some of its fields replaced; a null removes one.
fn with(changes: &Value) -> Value {
    fn merge(into: &mut Value, changes: &Value) {
        for (key, change) in changes.as_object().unwrap() {
            if change.is_object() && into[key].is_object() {
                merge(&mut into[key], change);
            } else {
                into[key] = change.clone();
            }
        }
    }
    let mut spec = valid();
    merge(&mut spec, changes);
    json!({ "spec": spec })
}

#[test]
fn the_documented_configuration_is_read() {
    insta::assert_debug_snapshot!(read(&with(&json!({}))).unwrap());
}

#[test]
fn what_is_left_out_has_the_documented_defaults() {
    let spec = json!({
        "resourceType": "nodepools",
        "hyperfleetAPI": { "url": "https://api" },
        "broker": { "type": "rabbitmq", "topic": "events", "url": "amqp://guest:guest@rabbitmq:5672/" },
    });
    let config = read(&json!({ "spec": spec })).unwrap();
    assert_eq!(config.backoffs.not_ready, Duration::from_secs(10));
    assert_eq!(config.backoffs.ready, Duration::from_mins(30));
    assert_eq!(config.poll_interval, Duration::from_secs(5));
    assert_eq!(config.timeout, Duration::from_secs(10));
    assert_eq!(config.dialect, Dialect::Labels);
    let Target::Known(Broker::RabbitMq { exchange, .. }) = &config.target else { panic!("{config:?}") };
    let routing_key = "events".to_owned();
    assert_eq!(*exchange, Exchange { name: "events".to_owned(), r#type: ExchangeType::Fanout, routing_key });
    assert!(!format!("{config:?}").contains("guest"));
}

#[test]
fn every_problem_is_reported_with_its_field_and_no_password() {
    let wrong = [
        json!({ "backoffReady": "soon", "backoffNotReady": "0s", "pollInterval": "-1s" }),
        json!({ "hyperfleetAPI": { "timeout": "10" } }),
        json!({ "hyperfleetAPI": { "url": "api:8080" } }),
        json!({ "hyperfleetAPI": { "url": "ftp://user:hunter2@api" } }),
        json!({ "hyperfleetAPI": { "dialect": "sql" } }),
        json!({ "hyperfleetAPI": { "headers": { "X Tenant": "a", "Authorization": "hunter2", "host": "a", "X-Tenant": "hunter2\n" } } }),
        json!({ "resourceType": "Pods" }),
        json!({ "resourceType": null }),
        json!({ "hyperfleetAPI": null }),
        json!({ "broker": { "projectID": null } }),
        json!({ "broker": { "type": "kafka" } }),
        json!({ "broker": { "topic": "" } }),
        json!({ "broker": { "type": "rabbitmq" } }),
        json!({ "broker": { "type": "rabbitmq", "url": "http://user:hunter2@rabbitmq" } }),
        json!({ "broker": { "type": "rabbitmq", "url": "amqp://a", "urlSecretRef": { "name": "a", "key": "b" } } }),
        json!({ "shardSelector": { "matchExpressions": [{ "key": "a", "operator": "Equals" }] }, "pollInterval": "" }),
    ];
    let reported =
        wrong.map(|changes| format!("{changes}\n  {}", read(&with(&changes)).unwrap_err().join("\n  ")));
    let reported = reported.join("\n");
    let answers = reported.lines().filter(|line| line.starts_with("  ")).collect::<String>();
    assert!(!answers.contains("hunter2"), "{answers}");
    insta::assert_snapshot!(reported);
}

#[test]
fn the_shortest_duration_is_1_ms() {
    let of =
        |interval: &str| read(&with(&json!({ "pollInterval": interval }))).map(|read| read.poll_interval);
    assert_eq!(of("1ms"), Ok(Duration::from_millis(1)));
    assert_eq!(
        of("999us"),
        Err(vec![r#"spec.pollInterval: "999us" is too short: at least 1ms is needed"#.to_owned()])
    );
}

#[test]
fn a_secret_is_named() {
    let broker =
        json!({ "type": "rabbitmq", "urlSecretRef": { "name": "rabbit", "key": "url" }, "exchange": "x" });
    let config = read(&with(&json!({ "broker": broker }))).unwrap();
    let secret = SecretKeyRef { name: "rabbit".to_owned(), key: "url".to_owned() };
    let (name, routing_key) = ("x".to_owned(), "hyperfleet-events".to_owned());
    let exchange = Exchange { name, r#type: ExchangeType::Fanout, routing_key };
    assert_eq!(config.target, Target::InSecret { secret, exchange });
}

#[test]
fn an_exchange_may_be_of_the_type_that_adapters_declare() {
    let of_type = |exchange_type: &str| {
        let broker = json!({ "type": "rabbitmq", "projectID": null, "url": "amqp://rabbit", "exchangeType": exchange_type });
        read(&with(&json!({ "broker": broker })))
    };
    let Target::Known(Broker::RabbitMq { exchange, .. }) = of_type("topic").unwrap().target else {
        panic!("it is of another type")
    };
    let (name, routing_key) = ("hyperfleet-events".to_owned(), String::new());
    assert_eq!(exchange, Exchange { name, r#type: ExchangeType::Topic, routing_key });
    assert_eq!(
        of_type("direct").unwrap_err(),
        [r#"spec.broker.exchangeType: "direct" is neither fanout nor topic"#]
    );
}

proptest! {
    #[test]
    fn nothing_panics(field in "[a-zA-Z]{1,12}", text in ".{0,20}") {
        let _ = read(&with(&json!({ field: text })));
        let _ = read(&with(&json!({ "hyperfleetAPI": { "url": text }, "broker": { "url": text, "type": "rabbitmq" } })));
    }
}

#[test]
fn a_url_has_a_scheme_and_a_host() {
    let schemes = ["http", "https"];
    for fine in
        ["http://a", "https://a:8080/b?c#d", "https://user:pin@a/b", "http://[::1]:80", "http://a?b://c"]
    {
        assert!(is_url(fine, &schemes), "{fine}");
    }
    for bad in [
        "a",
        "ftp://a",
        "http://",
        "http:///a",
        "http://?a",
        "http://user@",
        "http://:80",
        "http://a b",
        "http://a\n",
        "://a",
        // Passwords that are not percent-encoded.
        "http://user:/pin@a",
        "http://user:1#pin@a/b",
        "http://user:1?pin@a",
        "http://user:\\pin@a",
    ] {
        assert!(!is_url(bad, &schemes), "{bad:?}");
    }
}

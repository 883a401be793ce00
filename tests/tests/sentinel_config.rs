//! Tests the configurations of Sentinels: how the API server validates them, and how a Sentinel loads them, follows their
//! changes and survives their deletion, on the embedded API server and on a real one.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;
use kube::{Api, Client};
use lockstep_engine::yaml;
use lockstep_tests::chart::apply;
use lockstep_tests::ground::{Ground, eventually};
use lockstep_tests::program::{Program, program, sum};
use lockstep_tests::sentinel::{Config, spec};
use serde_json::{Value, json};

const CYCLES: &str = "hyperfleet_sentinel_reconcile_duration_seconds_count";
const API_ERRORS: &str = "hyperfleet_sentinel_api_errors_total";
const RELOADS: &str = "hyperfleet_sentinel_config_reloads_total";

/// Runs each test on both backends.
macro_rules! on_both_grounds {
    ($($test:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(super::World::new(super::Ground::embedded(), stringify!($test)).await?).await
            })*
        }
        mod real {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(super::World::new(super::Ground::real(), stringify!($test)).await?).await
            })*
        }
    };
}

on_both_grounds!(
    what_is_left_out_has_the_specified_default,
    what_makes_no_sense_is_refused,
    tables_show_what_matters,
    the_examples_are_taken_and_read,
    changes_are_followed,
    a_broken_configuration_leaves_the_one_before_in_force,
    a_deleted_configuration_stops_the_sentinel,
    a_sentinel_waits_for_its_configuration,
    the_url_of_the_broker_is_read_from_its_secret,
);

/// A namespace, its only configuration, and the Sentinel of that configuration.
struct World {
    ground: &'static Ground,
    client: Client,
    namespace: String,
    config: Config,
}

impl World {
    async fn new(ground: &'static Ground, test: &str) -> anyhow::Result<Self> {
        let (client, namespace) = (ground.client(), test.replace('_', "-"));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        namespaces.create(&PostParams::default(), &object).await?;
        let config = Config::new(&client, &namespace, "shard");
        Ok(Self { ground, client, namespace, config })
    }

    async fn sentinel(&self) -> anyhow::Result<Program> {
        let mut command = Command::new(program()?);
        command
            .args(["sentinel", "--config=shard", "--namespace", &self.namespace])
            .args(["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"])
            .env("LOCKSTEP_LOG_FORMAT", "json");
        Program::start(command, &self.ground.kubeconfig()?).await
    }

    async fn table(&self) -> anyhow::Result<Value> {
        let path =
            format!("/apis/hyperfleet.redhat.com/v1alpha1/namespaces/{}/sentinelconfigs", self.namespace);
        let request =
            http::Request::get(path).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        Ok(self.client.request(request.body(Vec::new())?).await?)
    }
}

/// Waits until the Sentinel has ended two more cycles of a shard.
async fn goes_on(sentinel: &Program, shard: &str) -> anyhow::Result<()> {
    let shard = format!("shard=\"{shard}\"");
    let before = sentinel.metric(CYCLES, &shard).await?;
    eventually("two more cycles have ended", async || {
        let now = sentinel.metric(CYCLES, &shard).await?;
        ensure!(now >= before + 2, "{before}, then {now}");
        Ok(())
    })
    .await
}

/// Waits for a log line.
async fn says(sentinel: &Program, text: &str) -> anyhow::Result<()> {
    eventually(text, async || sentinel.logged(text).map(drop).with_context(|| sentinel.log())).await
}

async fn what_is_left_out_has_the_specified_default(world: World) -> anyhow::Result<()> {
    let stored = world
        .config
        .create(&json!({
            "resourceType": "nodepools",
            "hyperfleetAPI": {"url": "https://api"},
            "broker": {"type": "gcp-pubsub", "topic": "events", "projectID": "prod"},
        }))
        .await?;
    let wanted = json!({
        "resourceType": "nodepools",
        "backoffNotReady": "10s",
        "backoffReady": "30m",
        "hyperfleetAPI": {"url": "https://api", "timeout": "10s", "dialect": "labels"},
        "broker": {"type": "gcp-pubsub", "topic": "events", "projectID": "prod"},
        "pollInterval": "5s",
    });
    assert_eq!(stored, wanted);
    Ok(())
}

/// Returns changes to a valid spec, each with the error of the API server.
fn refused() -> Vec<(Value, &'static str)> {
    let duration = "must be a duration of at least 1ms, such as 500ms, 10s, 30m or 1h30m";
    let term = |term: Value| json!({"shardSelector": {"matchExpressions": [term]}});
    vec![
        (json!({"resourceType": null}), "spec.resourceType: Required value"),
        (json!({"resourceType": "Pods"}), "spec.resourceType"),
        (
            json!({"hyperfleetAPI": {"url": "http://a", "headers": {"Authorization": "Bearer a"}}}),
            "a token goes into the file that HYPERFLEET_API_TOKEN_FILE names",
        ),
        (
            json!({"hyperfleetAPI": {"url": "http://a", "headers": {"X Tenant": "a"}}}),
            "names of headers have at most 64 letters, digits and hyphens",
        ),
        (json!({"messageData": {"id": "resource.id"}}), "are set by the Sentinel"),
        (json!({"messageData": {"a-b": "resource.id"}}), "letters, digits and underscores"),
        (json!({"messageDecision": {"params": []}}), "spec.messageDecision.result: Required value"),
        (
            json!({"messageDecision": {"result": "a", "params": [{"name": "a", "expr": "1"}, {"name": "a", "expr": "2"}]}}),
            "spec.messageDecision.params[1]: Duplicate value",
        ),
        (json!({"pollInterval": "soon"}), duration),
        (json!({"pollInterval": "0s"}), duration),
        (json!({"backoffReady": "-5s"}), duration),
        (json!({"backoffReady": "1d"}), duration),
        (json!({"backoffNotReady": "10"}), duration),
        (json!({"backoffNotReady": ""}), duration),
        (json!({"hyperfleetAPI": null}), "spec.hyperfleetAPI: Required value"),
        (json!({"hyperfleetAPI": {"timeout": "999us"}}), duration),
        (json!({"hyperfleetAPI": {"url": null}}), "spec.hyperfleetAPI.url: Required value"),
        (json!({"hyperfleetAPI": {"url": "ftp://api"}}), "must be an http:// or https:// URL"),
        (json!({"hyperfleetAPI": {"dialect": "grpc"}}), r#"supported values: "labels", "search""#),
        (json!({"broker": null}), "spec.broker: Required value"),
        (json!({"broker": {"type": "kafka"}}), r#"supported values: "gcp-pubsub", "rabbitmq""#),
        (json!({"broker": {"topic": null}}), "spec.broker.topic: Required value"),
        (json!({"broker": {"topic": ""}}), "spec.broker.topic"),
        (json!({"broker": {"type": "gcp-pubsub"}}), "projectID is required for the type gcp-pubsub"),
        (
            json!({"broker": {"type": "gcp-pubsub", "projectID": ""}}),
            "projectID is required for the type gcp-pubsub",
        ),
        (
            json!({"broker": {"url": null}}),
            "the type rabbitmq needs either url or urlSecretRef, and not both",
        ),
        (json!({"broker": {"url": ""}}), "the type rabbitmq needs either url or urlSecretRef, and not both"),
        (
            json!({"broker": {"urlSecretRef": {"name": "rabbitmq", "key": "url"}}}),
            "the type rabbitmq needs either url or urlSecretRef, and not both",
        ),
        (
            json!({"broker": {"url": null, "urlSecretRef": {"name": "rabbitmq"}}}),
            "spec.broker.urlSecretRef.key: Required value",
        ),
        (term(json!({"operator": "Exists"})), "key is missing: name the label"),
        (term(json!({"key": "a"})), "operator must be In, NotIn, Exists or DoesNotExist"),
        (
            term(json!({"key": "a", "operator": "Gt", "values": ["1"]})),
            "operator must be In, NotIn, Exists or DoesNotExist",
        ),
        (term(json!({"key": "a", "operator": "In"})), "In and NotIn need values"),
        (term(json!({"key": "a", "operator": "NotIn", "values": []})), "In and NotIn need values"),
        (
            term(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
            "Exists and DoesNotExist take no values",
        ),
        (
            term(json!({"key": "a", "operator": "DoesNotExist", "values": ["b"]})),
            "Exists and DoesNotExist take no values",
        ),
    ]
}

async fn what_makes_no_sense_is_refused(world: World) -> anyhow::Result<()> {
    for (change, message) in refused() {
        let mut wrong = spec();
        merge(&mut wrong, &change);
        let refusal =
            world.config.create(&wrong).await.err().with_context(|| format!("{change} was taken"))?;
        assert!(refusal.to_string().contains(message), "{change}: {refusal}");
    }
    let stored = world.config.create(&spec()).await?;
    assert_eq!(stored["broker"], spec()["broker"], "the spec that they differ from is in order");
    Ok(())
}

/// Applies a merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let (Some(fields), Some(changes)) = (target.as_object_mut(), patch.as_object()) else {
        target.clone_from(patch);
        return;
    };
    for (key, change) in changes {
        if change.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), change);
        }
    }
}

async fn tables_show_what_matters(world: World) -> anyhow::Result<()> {
    world.config.create(&spec()).await?;
    let table = world.table().await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let names = |priority: i64| {
        let of = columns.iter().filter(move |column| column["priority"] == priority);
        of.filter_map(|column| column["name"].as_str()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["Name", "Type", "Broker", "Interval", "Resources", "Publishing", "Age"]);
    assert_eq!(names(1), ["Message"]);
    assert_eq!(
        table["rows"][0]["cells"].as_array().context("no cells")?[..4],
        ["shard", "clusters", "rabbitmq", "100ms"]
    );
    Ok(())
}

async fn the_examples_are_taken_and_read(world: World) -> anyhow::Result<()> {
    for example in [
        include_str!("../../deploy/examples/sentinel/pubsub.yaml"),
        include_str!("../../deploy/examples/sentinel/rabbitmq.yaml"),
    ] {
        let mut object: Value = yaml::read(example)?;
        object["metadata"]["namespace"] = json!(world.namespace);
        let stored = apply(&world.client, &object).await?;
        let read = lockstep_sentinel::config::read(&stored.data);
        assert!(read.is_ok(), "{read:?}");
    }
    Ok(())
}

async fn changes_are_followed(world: World) -> anyhow::Result<()> {
    world.config.create(&spec()).await?;
    let sentinel = world.sentinel().await?;
    world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    world.config.until_condition("FleetReachable", "False", "Unreachable").await?;
    world.config.until_condition("BrokerConnected", "False", "ConnectionFailed").await?;
    goes_on(&sentinel, "").await?;

    world.config.change(&json!({"shardSelector": {"matchLabels": {"region": "us-east"}}})).await?;
    let valid = world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    assert_eq!(valid.observed_generation, Some(2));
    goes_on(&sentinel, "region=us-east").await?;
    let metrics = sentinel.metrics().await?;
    assert_eq!(sum(&metrics, RELOADS, r#"resource_type="clusters",shard="region=us-east""#), 1, "{metrics}");
    // No shard polls the whole fleet any more.
    assert!(!metrics.contains(r#"resource_type="clusters",shard="""#), "{metrics}");

    world.config.change(&json!({"resourceType": "nodepools"})).await?;
    let valid = world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    assert_eq!(valid.observed_generation, Some(3));
    let metrics = eventually("the third generation is polled by", async || {
        let metrics = sentinel.metrics().await?;
        ensure!(sum(&metrics, CYCLES, "nodepools") > 0, "{metrics}");
        Ok(metrics)
    })
    .await?;
    assert_eq!(sum(&metrics, RELOADS, r#"resource_type="nodepools",shard="region=us-east""#), 1, "{metrics}");
    assert!(!metrics.contains(r#"resource_type="clusters""#), "{metrics}");
    Ok(())
}

/// The validation rules of the CRD accept some values that only the Sentinel can check.
async fn a_broken_configuration_leaves_the_one_before_in_force(world: World) -> anyhow::Result<()> {
    world.config.create(&spec()).await?;
    let sentinel = world.sentinel().await?;
    world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;

    let wrong = json!({
        "hyperfleetAPI": {"url": "http://"},
        "broker": {"url": "http://user:secret@rabbitmq"},
        "shardSelector": {"matchLabels": {"": "us-east"}},
        "messageDecision": {"result": "resource.generation > age"},
    });
    world.config.change(&wrong).await?;
    let condition = world.config.until_condition("ConfigValid", "False", "InvalidConfig").await?;
    for part in [
        "spec.hyperfleetAPI.url: \"http://\" is no URL",
        "spec.broker.url: is no URL",
        "spec.shardSelector.matchLabels: the key \"\" is not a label key",
        "spec.messageDecision.result: \"resource.generation > age\" at 1:23: unknown variable \"age\"",
    ] {
        assert!(condition.message.contains(part), "{part}: {}", condition.message);
    }
    says(&sentinel, "the Sentinel goes on with generation 1").await?;
    assert!(sentinel.metric(API_ERRORS, "config_load").await? > 0);
    goes_on(&sentinel, "").await?;
    assert!(!sentinel.log().contains("secret"), "{}", sentinel.log());

    world.config.change(&json!({"hyperfleetAPI": {"url": "http://127.0.0.1:1"}, "broker": {"url": "amqp://127.0.0.1:1/"}, "shardSelector": null, "messageDecision": null})).await?;
    world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    assert_eq!(
        sentinel.metric(RELOADS, "").await?,
        0,
        "it is the configuration that was in force all the time"
    );
    Ok(())
}

async fn a_deleted_configuration_stops_the_sentinel(world: World) -> anyhow::Result<()> {
    world.config.create(&spec()).await?;
    let sentinel = world.sentinel().await?;
    world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;

    world.config.delete().await?;
    says(&sentinel, "was deleted; nothing is polled or published until it is created again").await?;
    assert!(sentinel.metric(API_ERRORS, "config_load").await? > 0);
    // Polls that were running at that moment may still be logged.
    eventually("it polls every 100 ms no more", async || {
        let polls = sentinel.log().matches("GET http").count();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let later = sentinel.log().matches("GET http").count();
        ensure!(later == polls, "{polls}, then {later}");
        Ok(())
    })
    .await?;

    let mut other = spec();
    other["resourceType"] = json!("nodepools");
    world.config.create(&other).await?;
    world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    goes_on(&sentinel, "").await?;
    assert!(sentinel.metric(CYCLES, "nodepools").await? > 0);
    Ok(())
}

async fn a_sentinel_waits_for_its_configuration(world: World) -> anyhow::Result<()> {
    let sentinel = world.sentinel().await?;
    says(&sentinel, "does not exist; create it, or name another one with --config").await?;
    assert_eq!(sentinel.probe("/healthz").await?, (200, "ok\n".to_owned()));
    assert_eq!(sentinel.probe("/readyz").await?.0, 503);

    world.config.create(&spec()).await?;
    world.config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    goes_on(&sentinel, "").await?;
    assert_eq!(sentinel.probe("/healthz").await?, (200, "ok\n".to_owned()));
    assert_eq!(sentinel.probe("/readyz").await?.0, 503, "neither fleet nor broker were ever reached");
    Ok(())
}

async fn the_url_of_the_broker_is_read_from_its_secret(world: World) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let secret = json!({"metadata": {"name": "rabbitmq"}, "stringData": {
        "url": "amqp://user:hush@127.0.0.1:1/\n", "page": "http://user:hush@127.0.0.1:1/",
    }});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    let named =
        |name: &str, key: &str| json!({"broker": {"url": null, "urlSecretRef": {"name": name, "key": key}}});
    let mut first = spec();
    merge(&mut first, &named("absent", "url"));
    world.config.create(&first).await?;
    let sentinel = world.sentinel().await?;

    let condition = world.config.until_condition("BrokerConnected", "False", "SecretUnusable").await?;
    assert!(condition.message.contains("absent"), "{}", condition.message);
    for (key, message) in
        [("uri", "there is no such key; add it"), ("page", "is no URL of a RabbitMQ broker")]
    {
        world.config.change(&named("rabbitmq", key)).await?;
        says(&sentinel, message).await?;
    }
    world.config.change(&named("rabbitmq", "url")).await?;
    world.config.until_condition("BrokerConnected", "False", "ConnectionFailed").await?;
    assert!(!sentinel.log().contains("hush"), "{}", sentinel.log());
    assert!(!serde_json::to_string(&world.config.status().await?)?.contains("hush"));
    Ok(())
}

/// Compares the fields of a schema that decide what is accepted and what is stored.
fn compare(place: &str, specified: &Value, ours: &Value, ours_alone: &mut BTreeSet<String>) {
    for part in ["type", "default"] {
        assert_eq!(specified[part], ours[part], "{part} of {place}");
    }
    for part in ["required", "enum"] {
        // The API serves more types than the two in the specification, and ours accepts all that it serves.
        if (place, part) == ("spec.resourceType", "enum") {
            continue;
        }
        let values = |schema: &Value| -> BTreeSet<String> {
            schema[part].as_array().into_iter().flatten().map(Value::to_string).collect()
        };
        assert_eq!(values(specified), values(ours), "{part} of {place}");
    }
    for part in ["items", "additionalProperties"] {
        assert_eq!(specified[part].is_null(), ours[part].is_null(), "{part} of {place}");
        if !specified[part].is_null() {
            compare(&format!("{place}[]"), &specified[part], &ours[part], ours_alone);
        }
    }
    let properties = |schema: &Value| schema["properties"].as_object().cloned().unwrap_or_default();
    let mut more = properties(ours);
    for (name, property) in properties(specified) {
        let ours = more.remove(&name).unwrap_or_default();
        compare(&format!("{place}.{name}"), &property, &ours, ours_alone);
    }
    ours_alone.extend(more.keys().map(|name| format!("{place}.{name}")));
}

#[test]
fn the_definition_is_the_specified_one() -> anyhow::Result<()> {
    let specified: Value = yaml::read(include_str!("sentinel/specified-crd.yaml"))?;
    let sets = lockstep_crds::all();
    let set = sets.iter().find(|set| set.controller == "sentinel").context("no set")?;
    let ours = serde_json::to_value(&set.crds[0])?;
    for part in [
        "/metadata/name",
        "/spec/group",
        "/spec/scope",
        "/spec/names/kind",
        "/spec/names/plural",
        "/spec/names/singular",
        "/spec/names/shortNames",
        "/spec/versions/0/name",
        "/spec/versions/0/served",
        "/spec/versions/0/storage",
    ] {
        assert_eq!(specified.pointer(part), ours.pointer(part), "{part}");
    }
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let mut ours_alone = BTreeSet::new();
    let schema = |crd: &Value| crd.pointer(spec).cloned().context("no schema");
    compare("spec", &schema(&specified)?, &schema(&ours)?, &mut ours_alone);
    assert_eq!(
        ours_alone.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "spec.broker.exchangeType",
            "spec.broker.urlSecretRef",
            "spec.hyperfleetAPI.dialect",
            "spec.hyperfleetAPI.headers",
            "spec.messageData",
            "spec.messageDecision",
        ]
    );
    Ok(())
}

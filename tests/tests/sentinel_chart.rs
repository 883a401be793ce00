//! Tests Sentinels in the Helm chart: the rendered objects match those of the specification, a real API server accepts them,
//! and a Sentinel works with the granted permissions.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use lockstep_engine::yaml;
use lockstep_tests::chart::{apply, install, install_crd, is_crd, is_foreign, named, only, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::eventually;
use lockstep_tests::program::Program;
use lockstep_tests::sentinel::{Config, spec};
use serde_json::{Value, json};

const CYCLES: &str = "hyperfleet_sentinel_reconcile_duration_seconds_count";
const SPECIFIED: &str = include_str!("sentinel/specified-deployment.yaml");

/// The shard of the specification.
const SHARD: &str = r"
namespaceclass: {enabled: false}
image: {repository: quay.io/hyperfleet/sentinel, tag: v1.0.0}
sentinels:
  cluster-sentinel:
    resourceType: clusters
    configName: cluster-sentinel-default
    googleCredentialsSecret: gcp-pubsub-credentials
";

/// Two shards with their configurations, and with every value set.
const EVERYTHING: &str = r#"
namespaceclass: {enabled: false}
commonLabels: {team: platform}
metrics:
  renderMode: alwaysRender
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
sentinels:
  east:
    config:
      resourceType: clusters
      shardSelector: {matchLabels: {region: us-east}}
      hyperfleetAPI: {url: "http://127.0.0.1:1", timeout: 1s}
      broker: {type: rabbitmq, topic: events, urlSecretRef: {name: rabbitmq, key: url}}
      pollInterval: 100ms
    apiToken: {secretName: hyperfleet-api}
    shutdownTimeoutSeconds: 20
    resources: {requests: {cpu: 500m}}
  west:
    resourceType: nodepools
    brokerSecret: elsewhere
    googleCredentialsSecret: gcp
    apiToken: {audience: hyperfleet-api, expirationSeconds: 600}
    trustedCertificates: {configMapName: service-ca}
  gone: null
sentinel:
  serviceAccount: {annotations: {iam.gke.io/gcp-service-account: sentinel@example.com}}
  env:
    - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4318"}
    - {name: OTEL_EXPORTER_OTLP_HEADERS, valueFrom: {secretKeyRef: {name: collector, key: headers}}}
  podAnnotations: {a: b}
  podLabels: {a: b}
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{operator: Exists}]
  affinity: {nodeAffinity: {}}
  priorityClassName: system-cluster-critical
"#;

/// Checks that all fields of the specification are rendered; named items of lists are compared by name.
fn holds(place: &str, specified: &Value, rendered: &Value) {
    match (specified, rendered) {
        (Value::Object(fields), _) => {
            for (field, value) in fields {
                holds(&format!("{place}.{field}"), value, &rendered[field]);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.iter().all(|item| item["name"].is_string()) => {
            for item in items {
                let other = others.iter().find(|other| other["name"] == item["name"]);
                holds(&format!("{place}[{}]", item["name"]), item, other.unwrap_or(&Value::Null));
            }
        }
        (Value::Array(items), Value::Array(others)) if place == "Role.rules" => {
            for item in items {
                assert!(others.contains(item), "{place} lacks {item}");
            }
        }
        _ => assert_eq!(specified, rendered, "{place}"),
    }
}

#[test]
fn what_the_specification_deploys_is_rendered() -> anyhow::Result<()> {
    let objects = render("hyperfleet-system", SHARD)?;
    for specified in yaml::read_all(SPECIFIED)? {
        let kind = specified["kind"].as_str().context("no kind")?;
        holds(kind, &specified, only(&objects, kind)?);
    }
    assert_eq!(only(&objects, "Deployment")?["spec"]["strategy"], json!({"type": "Recreate"}));
    Ok(())
}

#[test]
fn replicas_of_a_shard_elect_a_leader() -> anyhow::Result<()> {
    let values = "namespaceclass: {enabled: false}\nsentinels:\n  \
        one: {resourceType: clusters}\n  \
        two: {resourceType: clusters, configName: shard, replicas: 2}";
    let objects = render("sentinel-replicas", values)?;
    let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    for (name, replicas, strategy, elects) in [
        ("one", 1, json!({"type": "Recreate"}), false),
        ("two", 2, json!({"type": "RollingUpdate", "rollingUpdate": rolling}), true),
    ] {
        let spec = &named(&objects, "Deployment", name)?["spec"];
        let args = spec["template"]["spec"]["containers"][0]["args"].as_array().context("no arguments")?;
        assert_eq!((&spec["replicas"], &spec["strategy"]), (&json!(replicas), &strategy));
        assert_eq!(args.contains(&json!("--leader-elect")), elects, "{args:?}");
    }
    let rules = only(&objects, "Role")?["rules"].as_array().context("no rules")?;
    let of_leases: Vec<_> = rules.iter().filter(|rule| rule["resources"] == json!(["leases"])).collect();
    let wanted = [(json!(["shard"]), json!(["get", "update"])), (Value::Null, json!(["create"]))];
    let granted = of_leases.iter().map(|rule| (rule["resourceNames"].clone(), rule["verbs"].clone()));
    assert_eq!(granted.collect::<Vec<_>>(), wanted);
    Ok(())
}

#[test]
fn without_sentinels_nothing_is_made_for_them() -> anyhow::Result<()> {
    let objects = render("sentinel-none", "namespaceclass: {enabled: false}\nsentinels: {gone: null}")?;
    assert!(objects.iter().all(is_crd));
    Ok(())
}

#[test]
fn pods_meet_the_restricted_standard_and_outlive_their_last_confirms() -> anyhow::Result<()> {
    let objects = render("sentinel-pods", EVERYTHING)?;
    for (name, resources, shutdown) in [
        ("east", json!({"requests": {"cpu": "500m"}}), "20s"),
        (
            "west",
            json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}}),
            "5s",
        ),
    ] {
        let pod = &named(&objects, "Deployment", name)?["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(container["resources"], resources);
        assert_eq!(pod["terminationGracePeriodSeconds"], 30);
        assert_eq!(variables(container)["LOCKSTEP_SHUTDOWN_TIMEOUT"], json!(shutdown));
        assert_eq!(variables(container)["OTEL_EXPORTER_OTLP_ENDPOINT"], json!("http://collector:4318"));
        assert!(variables(container).contains_key("OTEL_EXPORTER_OTLP_HEADERS"));
    }
    Ok(())
}

/// Returns the environment variables of a container.
fn variables(container: &Value) -> BTreeMap<String, Value> {
    let variables = container["env"].as_array().into_iter().flatten();
    variables.map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), one["value"].clone())).collect()
}

#[test]
fn credentials_are_mounted_where_they_are_named() -> anyhow::Result<()> {
    let objects = render("sentinel-mounts", EVERYTHING)?;
    let pod =
        |name: &str| anyhow::Ok(named(&objects, "Deployment", name)?["spec"]["template"]["spec"].clone());
    let (east, west) = (pod("east")?, pod("west")?);
    let token = |source: Value| json!({"name": "hyperfleet-api-token", "projected": {"sources": [source]}});
    let items = json!([{"key": "token", "path": "token"}]);
    assert_eq!(
        east["volumes"],
        json!([token(json!({"secret": {"name": "hyperfleet-api", "items": items}}))])
    );
    let audience = json!({"audience": "hyperfleet-api", "expirationSeconds": 600, "path": "token"});
    assert_eq!(
        west["volumes"],
        json!([
            {"name": "gcp-credentials", "secret": {"secretName": "gcp"}},
            token(json!({"serviceAccountToken": audience})),
            {"name": "trusted-certificates", "projected": {"sources": [
                {"configMap": {"name": "service-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}},
        ])
    );
    for pod in [&east, &west] {
        let container = &pod["containers"][0];
        assert_eq!(variables(container)["HYPERFLEET_API_TOKEN_FILE"], json!("/var/secrets/hyperfleet/token"));
        let mounts = container["volumeMounts"].as_array().context("no mounts")?;
        assert!(mounts.iter().all(|mount| mount["readOnly"] == true));
        assert_eq!(mounts.len(), pod["volumes"].as_array().context("no volumes")?.len());
    }
    assert!(!variables(&east["containers"][0]).contains_key("GOOGLE_APPLICATION_CREDENTIALS"));
    assert!(!variables(&east["containers"][0]).contains_key("SSL_CERT_FILE"));
    let mounts = west["containers"][0]["volumeMounts"].as_array().context("no mounts")?;
    let trusted =
        mounts.iter().find(|mount| mount["name"] == "trusted-certificates").context("not mounted")?;
    let file = format!("{}/ca.crt", trusted["mountPath"].as_str().unwrap_or_default());
    assert_eq!(variables(&west["containers"][0])["SSL_CERT_FILE"], json!(file));
    let bare = render("sentinel-mounts", "sentinels: {bare: {resourceType: clusters}}")?;
    let bare = &named(&bare, "Deployment", "bare")?["spec"]["template"]["spec"];
    assert_eq!((&bare["volumes"], &bare["containers"][0]["volumeMounts"]), (&Value::Null, &Value::Null));
    Ok(())
}

#[test]
fn the_role_reads_the_named_secrets_and_no_others() -> anyhow::Result<()> {
    let rules = |values: &str| anyhow::Ok(only(&render("sentinel-role", values)?, "Role")?["rules"].clone());
    let secrets = |rules: &Value| -> Vec<Value> {
        let all = rules.as_array().into_iter().flatten();
        all.filter(|rule| rule["resources"] == json!(["secrets"])).cloned().collect()
    };
    assert_eq!(
        secrets(&rules(EVERYTHING)?),
        [
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["elsewhere", "rabbitmq"], "verbs": ["get"]})
        ]
    );
    // Null as in the CRD: what one file of values sets, another one can take away.
    let nothing = rules(
        "namespaceclass: {enabled: false}\nsentinels: {a: {config: {resourceType: clusters, hyperfleetAPI: {url: 'http://a'}, \
         broker: {type: rabbitmq, topic: t, url: 'amqp://b', urlSecretRef: null}}}}",
    )?;
    assert!(secrets(&nothing).is_empty(), "{nothing}");
    let specified = rules(SHARD)?;
    assert!(secrets(&specified).is_empty(), "{specified}");
    assert_eq!(
        specified.as_array().map(Vec::len),
        Some(3),
        "the specification's two, and the patch of the status"
    );
    Ok(())
}

#[test]
fn values_that_mean_nothing_are_refused_with_what_to_do() -> anyhow::Result<()> {
    let config =
        "config: {resourceType: clusters, hyperfleetAPI: {url: a}, broker: {type: rabbitmq, topic: t}}";
    for (shard, expected) in [
        (
            "{}".to_owned(),
            "sentinels.a: give config, or the resourceType of a SentinelConfig that is managed elsewhere",
        ),
        (
            format!("{{resourceType: nodepools, {config}}}"),
            "resourceType (nodepools) is not that of config (clusters)",
        ),
        ("{resourceType: Pods}".to_owned(), "/sentinels/a/resourceType"),
        ("{resourceTyp: clusters}".to_owned(), "resourceTyp"),
        ("{config: {resourceType: clusters}}".to_owned(), "hyperfleetAPI"),
        (
            "{resourceType: clusters, shutdownTimeoutSeconds: 30}".to_owned(),
            "terminationGracePeriodSeconds (30) must be more than shutdownTimeoutSeconds (30)",
        ),
        (
            "{resourceType: clusters, shutdownTimeoutSeconds: 0}".to_owned(),
            "/sentinels/a/shutdownTimeoutSeconds",
        ),
        (
            "{resourceType: clusters, apiToken: {key: token}}".to_owned(),
            "apiToken needs either secretName or audience",
        ),
        (
            "{resourceType: clusters, apiToken: {secretName: a, audience: b}}".to_owned(),
            "apiToken needs either secretName or audience",
        ),
        (
            "{resourceType: clusters, trustedCertificates: {key: ca.pem}}".to_owned(),
            "trustedCertificates needs either configMapName or secretName",
        ),
        (
            "{resourceType: clusters, apiToken: {audience: b, expirationSeconds: 60}}".to_owned(),
            "/sentinels/a/apiToken/expirationSeconds",
        ),
        ("{resourceType: clusters, replicas: 0}".to_owned(), "/sentinels/a/replicas"),
        ("{resourceType: clusters, rbac: {create: false}}".to_owned(), "rbac"),
    ] {
        let values = format!("sentinels: {{a: {shard}}}");
        let refusal =
            render("sentinel-refused", &values).err().with_context(|| format!("{values} was taken"))?;
        assert!(refusal.to_string().contains(expected), "{values}: {refusal}");
    }
    let refusal = render("sentinel-refused", "sentinels: {A_B: {resourceType: clusters}}").err();
    assert!(refusal.is_some_and(|refusal| refusal.to_string().contains("A_B")));
    Ok(())
}

#[tokio::test]
async fn the_api_server_takes_every_object_with_everything_switched_on() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    let objects = render("sentinel-everything", EVERYTHING)?;

    install(&client, "sentinel-everything", &objects).await?;

    let service = only(&objects, "Service")?;
    let monitor = only(&objects, "ServiceMonitor")?;
    for name in ["east", "west"] {
        let pod = &named(&objects, "Deployment", name)?["spec"]["template"]["metadata"];
        let wanted = service["spec"]["selector"].as_object().context("no selector")?;
        assert!(wanted.iter().all(|(label, value)| pod["labels"][label] == *value), "{name}");
    }
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().context("no selector")?;
    assert!(wanted.iter().all(|(label, value)| service["metadata"]["labels"][label] == *value));
    assert_eq!(monitor["spec"]["podTargetLabels"], json!(["app"]), "LockstepWithoutLeader uses it");
    assert!(objects.iter().any(is_foreign));
    let dashboard = only(&objects, "ConfigMap")?["data"]["sentinel.json"].as_str().context("no dashboard")?;
    let dashboard: Value = serde_json::from_str(dashboard)?;
    for metric in lockstep_sentinel::metrics::ALL {
        assert!(dashboard["panels"].to_string().contains(metric.name), "{} is shown nowhere", metric.name);
    }
    Ok(())
}

async fn may(client: &Client, verb: &str, resource: &str, name: &str) -> anyhow::Result<bool> {
    let review = json!({"spec": {
        "user": "system:serviceaccount:sentinel-lives:hyperfleet-sentinel",
        "resourceAttributes": {"namespace": "sentinel-lives", "verb": verb, "resource": resource, "name": name},
    }});
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Waits until the Sentinel has ended this many more cycles.
async fn goes_on(sentinel: &Program, cycles: u64) -> anyhow::Result<()> {
    let before = sentinel.metric(CYCLES, "").await?;
    eventually("more cycles have ended", async || {
        let now = sentinel.metric(CYCLES, "").await?;
        ensure!(now >= before + cycles, "{before}, then {now}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_sentinel_works_with_the_permissions_of_the_chart() -> anyhow::Result<()> {
    let (plane, release) = (ControlPlane::shared(), "sentinel-lives");
    let client = plane.client().await?;
    let objects = render(release, EVERYTHING)?;
    install(&client, release, &objects).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rabbitmq", "namespace": release},
        "stringData": {"url": "amqp://user:hush@127.0.0.1:1/"},
    });
    apply(&client, &secret).await?;
    let config = Config::new(&client, release, "east");
    let sentinel = start(plane, named(&objects, "Deployment", "east")?).await?;

    config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    config.until_condition("FleetReachable", "False", "Unreachable").await?;
    config.until_condition("BrokerConnected", "False", "ConnectionFailed").await?;
    config.change(&json!({"shardSelector": {"matchLabels": {"region": "us-west"}}})).await?;
    let valid = config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
    assert_eq!(valid.observed_generation, Some(2));
    config.delete().await?;
    eventually("it stops", async || {
        sentinel.logged("nothing is polled or published until it is created again").context("not logged")?;
        Ok(())
    })
    .await?;
    apply(&client, named(&objects, "SentinelConfig", "east")?).await?;
    config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;

    let metrics = sentinel.metrics().await?;
    sentinel.never_counted("lockstep_actions_total", "\"forbidden\"").await?;
    sentinel.never_counted("lockstep_watch_errors_total", "").await?;
    assert!(
        sentinel.metric("lockstep_actions_total", r#"kind="Secret",outcome="ok""#).await? > 0,
        "{metrics}"
    );
    assert!(
        sentinel
            .metric("lockstep_actions_total", r#"kind="SentinelConfig.hyperfleet.redhat.com",outcome="ok""#)
            .await?
            > 0,
        "{metrics}"
    );
    for (verb, resource, name, is_allowed) in [
        ("get", "secrets", "rabbitmq", true),
        ("get", "secrets", "other", false),
        ("list", "secrets", "", false),
        ("get", "configmaps", "rabbitmq", false),
    ] {
        assert_eq!(may(&client, verb, resource, name).await?, is_allowed, "{verb} {resource} {name}");
    }
    assert!(sentinel.terminate().await?.success());
    Ok(())
}

/// The Role of the specification does not permit writes of the status. The Sentinel tries once for each generation, not in
/// every cycle.
#[tokio::test]
async fn a_sentinel_works_with_the_role_of_the_specification() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let specified = yaml::read_all(SPECIFIED)?;
    let chart = render("hyperfleet-system", SHARD)?;
    let crds = chart.iter().filter(|object| is_crd(object)).cloned();
    install(&client, "hyperfleet-system", &crds.chain(specified.iter().cloned()).collect::<Vec<_>>()).await?;
    let config = Config::new(&client, "hyperfleet-system", "cluster-sentinel-default");
    config.create(&spec()).await?;

    let sentinel = start(&plane, only(&chart, "Deployment")?).await?;
    // There is one attempt for each generation: a user may have granted the permission in the meantime.
    let refusals = async |wanted: u64| {
        eventually("the status is refused", async || {
            let refused = sentinel.metric("lockstep_actions_total", "\"forbidden\"").await?;
            ensure!(refused == wanted, "{refused}");
            Ok(())
        })
        .await
    };
    refusals(1).await?;
    goes_on(&sentinel, 3).await?;
    config.change(&json!({"resourceType": "nodepools"})).await?;
    refusals(2).await?;
    eventually("node pools are polled", async || {
        ensure!(sentinel.metric(CYCLES, "nodepools").await? > 0);
        Ok(())
    })
    .await?;
    goes_on(&sentinel, 3).await?;

    let metrics = sentinel.metrics().await?;
    assert_eq!(sentinel.metric("lockstep_actions_total", "\"forbidden\"").await?, 2, "{metrics}");
    sentinel.never_counted("lockstep_watch_errors_total", "").await?;
    assert!(sentinel.logged("could not be written").is_some());
    assert!(config.status().await?.conditions.is_empty());
    Ok(())
}

/// The CRD of the specification has no status and no validation rules: the Sentinel validates the spec itself.
#[tokio::test]
async fn a_sentinel_works_with_the_definition_of_the_specification() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let crd: Value = yaml::read(include_str!("sentinel/specified-crd.yaml"))?;
    let chart = render("hyperfleet-system", SHARD)?;
    let rest = chart.iter().filter(|object| !is_crd(object)).cloned().collect::<Vec<_>>();
    install(&client, "hyperfleet-system", &rest).await?;
    install_crd(&client, &crd).await?;
    let config = Config::new(&client, "hyperfleet-system", "cluster-sentinel-default");
    config.create(&spec()).await?;
    let sentinel = start(&plane, only(&chart, "Deployment")?).await?;
    goes_on(&sentinel, 1).await?;

    for (wrong, expected) in [
        (json!({"pollInterval": "soon"}), "spec.pollInterval: "),
        (json!({"pollInterval": "0s"}), "spec.pollInterval: "),
        (json!({"backoffReady": "-5s"}), "spec.backoffReady: "),
        (json!({"hyperfleetAPI": {"timeout": ""}}), "spec.hyperfleetAPI.timeout: "),
        (json!({"broker": {"url": null}}), "spec.broker: the type rabbitmq needs url or urlSecretRef"),
        (json!({"broker": {"type": "gcp-pubsub"}}), "spec.broker.projectID: is missing"),
        (
            json!({"shardSelector": {"matchExpressions": [{"key": "a"}]}}),
            "spec.shardSelector.matchExpressions[0].operator: ",
        ),
    ] {
        let mut change = spec();
        change["shardSelector"] = Value::Null;
        change["backoffReady"] = Value::Null;
        change["broker"]["projectID"] = Value::Null;
        config.change(&change).await?;
        config.change(&wrong).await?;
        eventually(expected, async || sentinel.logged(expected).map(drop).with_context(|| sentinel.log()))
            .await?;
    }
    goes_on(&sentinel, 1).await?;
    Ok(())
}

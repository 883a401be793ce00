//! Tests the optional values that charts of other operators also have. Each renders what it says, and none is rendered by default.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};
use lockstep_engine::yaml;
use lockstep_tests::chart::{install, is_crd, named, render, template};
use lockstep_tests::control_plane::{self, ControlPlane};
use lockstep_tests::program::workspace;
use serde_json::{Value, json};

/// Values of a pod that controllers and Sentinels share, as a flow mapping without its braces.
const POD: &str = "
  env: [{name: EXTRA, value: yes-it-is}], volumes: [{name: extra, emptyDir: {}}],
  volumeMounts: [{name: extra, mountPath: /extra}],
  extraContainers: [{name: sidecar, image: sidecar}], initContainers: [{name: first, image: first}],
  revisionHistoryLimit: 0, runtimeClassName: gvisor, dnsPolicy: None,
  dnsConfig: {nameservers: [10.0.0.1], options: [{name: ndots, value: '2'}]},
  hostAliases: [{ip: 10.0.0.2, hostnames: [api.internal]}], terminationGracePeriodSeconds: 60";

/// All controllers and a Sentinel, without options.
const ALL: &str = "
bridge: {enabled: true}
dpuservice: {enabled: true}
sentinels: {east: {resourceType: clusters, googleCredentialsSecret: gcp}}
";

/// The alert that the tests disable.
const DISABLED: &str = "LockstepQueueGrows";

/// Returns the rendered objects of a kind.
fn all<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// Returns the names of the alerts in a rule file or in the spec of a `PrometheusRule`.
fn alerts(file: &Value) -> Vec<&str> {
    let groups = file["groups"].as_array().into_iter().flatten();
    let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    rules.filter_map(|rule| rule["alert"].as_str()).collect()
}

/// Renders the chart with more arguments of helm. An error contains helm's output.
fn render_with(arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let mut helm = Command::new(control_plane::helm()?);
    helm.args(["template", "options"]).arg(workspace().join("deploy/lockstep")).args(arguments);
    let output = helm.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(yaml::read_all(&String::from_utf8(output.stdout)?)?)
}

#[test]
fn nothing_optional_is_rendered_by_default() -> anyhow::Result<()> {
    let objects = render("options-default", ALL)?;
    ensure!(all(&objects, "NetworkPolicy").is_empty());
    for kind in ["ServiceMonitor", "PrometheusRule", "ConfigMap"] {
        ensure!(all(&objects, kind).is_empty(), "a {kind} was rendered");
    }
    for deployment in all(&objects, "Deployment") {
        let pod = &deployment["spec"]["template"]["spec"];
        ensure!(deployment["spec"]["revisionHistoryLimit"].is_null());
        for field in [
            "initContainers",
            "imagePullSecrets",
            "runtimeClassName",
            "dnsPolicy",
            "dnsConfig",
            "hostAliases",
        ] {
            ensure!(pod[field].is_null(), "{field} of {}", deployment["metadata"]["name"]);
        }
        ensure!(pod["containers"].as_array().map(Vec::len) == Some(1));
        ensure!(pod["terminationGracePeriodSeconds"] == 30);
        ensure!(pod["containers"][0]["image"] == concat!("lockstep:", env!("CARGO_PKG_VERSION")));
    }
    for service in all(&objects, "Service") {
        ensure!(service["metadata"]["annotations"].is_null());
    }
    Ok(())
}

#[test]
fn pods_have_the_given_fields() -> anyhow::Result<()> {
    let controllers = ["namespaceclass", "bridge", "dpuservice"];
    let blocks = controllers.map(|name| format!("{name}: {{enabled: true, {POD}\n}}\n")).concat();
    let sentinels = "sentinels: {east: {resourceType: clusters, googleCredentialsSecret: gcp}}";
    let values = format!("{blocks}sentinel: {{{POD}\n}}\n{sentinels}\n");
    let objects = render("options-pods", &values)?;
    let deployments = all(&objects, "Deployment");
    ensure!(deployments.len() == 4);
    for deployment in deployments {
        let (spec, name) = (&deployment["spec"], &deployment["metadata"]["name"]);
        let pod = &spec["template"]["spec"];
        let container = &pod["containers"][0];
        let holds = |list: &Value, item: Value| list.as_array().is_some_and(|list| list.contains(&item));
        ensure!(holds(&container["env"], json!({"name": "EXTRA", "value": "yes-it-is"})), "{name}: env");
        ensure!(holds(&container["volumeMounts"], json!({"name": "extra", "mountPath": "/extra"})), "{name}");
        ensure!(holds(&pod["volumes"], json!({"name": "extra", "emptyDir": {}})), "{name}: volumes");
        ensure!(pod["containers"][1] == json!({"name": "sidecar", "image": "sidecar"}), "{name}");
        ensure!(pod["initContainers"] == json!([{"name": "first", "image": "first"}]), "{name}");
        ensure!(spec["revisionHistoryLimit"] == 0, "{name}: revisionHistoryLimit");
        ensure!(pod["runtimeClassName"] == "gvisor", "{name}: runtimeClassName");
        ensure!(pod["dnsPolicy"] == "None", "{name}: dnsPolicy");
        ensure!(pod["dnsConfig"]["nameservers"] == json!(["10.0.0.1"]), "{name}: dnsConfig");
        ensure!(pod["hostAliases"] == json!([{"ip": "10.0.0.2", "hostnames": ["api.internal"]}]), "{name}");
        ensure!(pod["terminationGracePeriodSeconds"] == 60, "{name}: terminationGracePeriodSeconds");
    }
    let east = &named(&objects, "Deployment", "east")?["spec"]["template"]["spec"];
    ensure!(east["volumes"].as_array().map(Vec::len) == Some(2), "the volume of the chart is kept");
    Ok(())
}

#[test]
fn a_shard_replaces_the_values_of_all_sentinels() -> anyhow::Result<()> {
    let values = "
sentinel: {revisionHistoryLimit: 2, env: [{name: A, value: a}], dnsPolicy: Default}
sentinels:
  east: {resourceType: clusters}
  west: {resourceType: clusters, revisionHistoryLimit: 0, env: [], dnsPolicy: ''}
";
    let objects = render("options-shard", values)?;
    let spec = |name: &str| anyhow::Ok(&named(&objects, "Deployment", name)?["spec"]);
    let (east, west) = (spec("east")?, spec("west")?);
    ensure!(east["revisionHistoryLimit"] == 2 && west["revisionHistoryLimit"] == 0);
    let [east, west] = [east, west].map(|spec| &spec["template"]["spec"]);
    ensure!(east["dnsPolicy"] == "Default" && west["dnsPolicy"].is_null());
    let [east, west] = [east, west].map(|pod| pod["containers"][0]["env"].to_string().contains("\"A\""));
    ensure!(east && !west);
    Ok(())
}

/// A name that occurs twice is an error of a server-side apply, as that of Helm 4.
#[test]
fn a_variable_of_the_values_replaces_that_of_the_chart() -> anyhow::Result<()> {
    let values = "
sentinel: {googleCredentialsSecret: gcp, apiToken: {audience: a}, trustedCertificates: {configMapName: ca}}
sentinels: {east: {resourceType: clusters}}
";
    let variables = |values: &str| -> anyhow::Result<Vec<Value>> {
        let objects = render("options-env", values)?;
        let container = &named(&objects, "Deployment", "east")?["spec"]["template"]["spec"]["containers"][0];
        Ok(container["env"].as_array().context("no variables")?.clone())
    };
    let of_chart = variables(values)?;
    ensure!(of_chart.len() == 7, "{of_chart:?}");
    for variable in &of_chart {
        let own = json!({"name": variable["name"], "value": "own"});
        let east = json!({"resourceType": "clusters", "env": [own]});
        let replaced = variables(&values.replace("{resourceType: clusters}", &east.to_string()))?;
        let mut wanted: Vec<Value> = of_chart.iter().filter(|other| *other != variable).cloned().collect();
        wanted.push(own);
        assert_eq!(replaced, wanted);
    }
    Ok(())
}

/// Every field is rendered, so that a server-side apply can remove it later.
#[test]
fn the_update_strategy_is_rendered_in_full() -> anyhow::Result<()> {
    let rolling = |limits: Value| json!({"type": "RollingUpdate", "rollingUpdate": limits});
    let default = rolling(json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    for (given, rendered) in [
        ("{}", default.clone()),
        ("{type: RollingUpdate}", default),
        ("{rollingUpdate: {maxSurge: 0}}", rolling(json!({"maxSurge": 0, "maxUnavailable": "25%"}))),
        (
            "{type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 50%}}",
            rolling(json!({"maxSurge": 1, "maxUnavailable": "50%"})),
        ),
        ("{type: Recreate}", json!({"type": "Recreate"})),
    ] {
        let objects = render("options-strategy", &format!("namespaceclass: {{strategy: {given}}}"))?;
        let deployment = named(&objects, "Deployment", "options-strategy-lockstep-namespaceclass")?;
        assert_eq!(deployment["spec"]["strategy"], rendered, "{given}");
    }
    Ok(())
}

/// A drain of nodes must not end the leader and all of its standbys.
#[test]
fn replicas_of_a_shard_are_spread_and_evicted_one_at_a_time() -> anyhow::Result<()> {
    let values = "
sentinel: {podDisruptionBudget: null}
sentinels:
  one: {resourceType: clusters}
  two: {resourceType: clusters, replicas: 2}
  own:
    resourceType: clusters
    replicas: 3
    podDisruptionBudget: {maxUnavailable: 0}
    affinity: {nodeAffinity: {}}
    topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]
  off: {resourceType: clusters, replicas: 2, podDisruptionBudget: {enabled: false}}
";
    let objects = render("options-spread", values)?;
    let pod = |name: &str| anyhow::Ok(&named(&objects, "Deployment", name)?["spec"]["template"]);
    let (one, two, own) = (&pod("one")?["spec"], pod("two")?, &pod("own")?["spec"]);
    ensure!(one["affinity"].is_null() && one["topologySpreadConstraints"].is_null(), "a single pod");
    ensure!(own["affinity"] == json!({"nodeAffinity": {}}), "{}", own["affinity"]);
    ensure!(own["topologySpreadConstraints"][0]["topologyKey"] == "rack");

    let nodes = &two["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        [0]["podAffinityTerm"];
    let zones = &two["spec"]["topologySpreadConstraints"][0];
    ensure!(nodes["topologyKey"] == "kubernetes.io/hostname");
    ensure!(zones["topologyKey"] == "topology.kubernetes.io/zone");
    let budget = &named(&objects, "PodDisruptionBudget", "two")?["spec"];
    for selector in [&nodes["labelSelector"], &zones["labelSelector"], &budget["selector"]] {
        let selector = selector["matchLabels"].as_object().context("no selector")?;
        let selects =
            |pod: &Value| selector.iter().all(|(label, value)| pod["metadata"]["labels"][label] == *value);
        ensure!(selects(two) && !selects(pod("own")?), "{selector:?}");
    }
    ensure!(budget["maxUnavailable"] == 1);
    ensure!(named(&objects, "PodDisruptionBudget", "own")?["spec"]["maxUnavailable"] == 0);
    let budgets = all(&objects, "PodDisruptionBudget").into_iter().map(|budget| &budget["metadata"]["name"]);
    let budgets: BTreeSet<&str> = budgets.filter_map(Value::as_str).collect();
    assert_eq!(budgets, BTreeSet::from(["options-spread-lockstep-namespaceclass", "own", "two"]));
    Ok(())
}

#[test]
fn the_global_registry_replaces_that_of_the_image() -> anyhow::Result<()> {
    for (repository, image) in [
        ("lockstep", "mirror.example.com:5000/lockstep:1"),
        ("team/lockstep", "mirror.example.com:5000/team/lockstep:1"),
        ("registry.example.com/team/lockstep", "mirror.example.com:5000/team/lockstep:1"),
        ("registry:5000/lockstep", "mirror.example.com:5000/lockstep:1"),
        ("localhost/lockstep", "mirror.example.com:5000/lockstep:1"),
    ] {
        let image_values = format!("image: {{repository: '{repository}', tag: '1'}}");
        let global = "global: {imageRegistry: 'mirror.example.com:5000', someoneElses: 1}";
        let objects = render("options-registry", &format!("{ALL}{image_values}\n{global}"))?;
        for deployment in all(&objects, "Deployment") {
            assert_eq!(
                deployment["spec"]["template"]["spec"]["containers"][0]["image"], image,
                "{repository}"
            );
        }
    }
    Ok(())
}

#[test]
fn pull_secrets_are_those_of_all_charts_and_of_this_one() -> anyhow::Result<()> {
    let secrets = "
global: {imagePullSecrets: [{name: shared}]}
imagePullSecrets: [{name: own}, {name: shared}]
";
    let objects = render("options-secrets", &format!("{ALL}{secrets}"))?;
    for deployment in all(&objects, "Deployment") {
        let secrets = &deployment["spec"]["template"]["spec"]["imagePullSecrets"];
        assert_eq!(*secrets, json!([{"name": "shared"}, {"name": "own"}]));
    }
    Ok(())
}

#[test]
fn services_have_the_given_annotations() -> anyhow::Result<()> {
    let annotations = "metrics: {service: {annotations: {prometheus.io/scrape: 'true'}}}";
    let objects = render("options-services", &format!("{ALL}{annotations}"))?;
    let services = all(&objects, "Service");
    ensure!(services.len() == 4);
    for service in services {
        assert_eq!(service["metadata"]["annotations"], json!({"prometheus.io/scrape": "true"}));
    }
    Ok(())
}

/// Each Deployment has a policy that selects its pods and no others.
#[test]
fn network_policies_admit_metrics_and_probes_only() -> anyhow::Result<()> {
    let objects = render("options-policies", &format!("{ALL}networkPolicy: {{enabled: true}}"))?;
    let (policies, deployments) = (all(&objects, "NetworkPolicy"), all(&objects, "Deployment"));
    assert_eq!((policies.len(), deployments.len()), (4, 4));
    for policy in &policies {
        let (name, spec) = (&policy["metadata"]["name"], &policy["spec"]);
        let selector = spec["podSelector"]["matchLabels"].as_object().context("no selector")?;
        let selects = |deployment: &&&Value| {
            let labels = &deployment["spec"]["template"]["metadata"]["labels"];
            selector.iter().all(|(label, value)| labels[label] == *value)
        };
        let selected: Vec<&Value> =
            deployments.iter().filter(selects).map(|deployment| &deployment["metadata"]["name"]).collect();
        assert_eq!(selected, [name]);
        assert_eq!(spec["policyTypes"], json!(["Ingress"]));
        let ports = json!([{"port": 8080, "protocol": "TCP"}, {"port": 8081, "protocol": "TCP"}]);
        assert_eq!(spec["ingress"], json!([{"ports": ports}]));
        ensure!(spec["egress"].is_null());
    }
    let egress = "networkPolicy: {enabled: true, egress: [{ports: [{port: 53, protocol: UDP}]}]}";
    let objects = render("options-policies", &format!("{ALL}{egress}"))?;
    for policy in all(&objects, "NetworkPolicy") {
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(policy["spec"]["egress"], json!([{"ports": [{"port": 53, "protocol": "UDP"}]}]));
    }
    Ok(())
}

#[test]
fn extra_objects_are_templates() -> anyhow::Result<()> {
    let values = r#"
extraObjects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-object"}, data: {level: "{{ .Values.log.level }}"}}
  - |
    apiVersion: v1
    kind: Secret
    metadata:
      name: {{ .Release.Name }}-text
"#;
    let objects = render("options-extra", values)?;
    let object = named(&objects, "ConfigMap", "options-extra-object")?;
    assert_eq!(object["data"], json!({"level": "info"}));
    named(&objects, "Secret", "options-extra-text")?;
    Ok(())
}

#[test]
fn crds_are_kept_unless_the_values_say_otherwise() -> anyhow::Result<()> {
    for (keep, policy) in [(true, json!("keep")), (false, Value::Null)] {
        let objects = render("options-crds", &format!("{ALL}crds: {{keep: {keep}}}"))?;
        let crds: Vec<&Value> = objects.iter().filter(|object| is_crd(object)).collect();
        ensure!(crds.len() == 5, "{} CRDs", crds.len());
        // The CRD of SentinelConfigs is in `crds`, so Helm never deletes it.
        for crd in crds.iter().filter(|crd| crd["spec"]["group"] != "hyperfleet.redhat.com") {
            assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], policy);
        }
    }
    Ok(())
}

#[test]
fn monitoring_is_rendered_where_the_cluster_serves_it() -> anyhow::Result<()> {
    let kinds = ["ServiceMonitor", "PrometheusRule"];
    let on = "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true";
    let found = |arguments: &[&str]| {
        let mut full = vec!["--set", on];
        full.extend(arguments);
        let objects = render_with(&full)?;
        anyhow::Ok(kinds.map(|kind| all(&objects, kind).len()))
    };
    assert_eq!(found(&[])?, [0, 0]);
    assert_eq!(found(&["--api-versions", "monitoring.coreos.com/v1/ServiceMonitor"])?, [1, 0]);
    assert_eq!(found(&["--api-versions", "monitoring.coreos.com/v1/PrometheusRule"])?, [0, 1]);
    assert_eq!(found(&["--set", "metrics.renderMode=alwaysRender"])?, [1, 1]);
    let refused = found(&["--set", "metrics.renderMode=failIfMissing"]).err().context("it was rendered")?;
    ensure!(refused.to_string().contains("does not serve monitoring.coreos.com/v1"), "{refused}");
    render_with(&["--set", "metrics.renderMode=failIfMissing"])?;
    let sentinel =
        ["--set", "sentinels.east.resourceType=clusters", "--set", "metrics.renderMode=alwaysRender"];
    assert_eq!(found(&sentinel)?, [2, 1]);
    Ok(())
}

#[test]
fn alerts_are_disabled_by_name() -> anyhow::Result<()> {
    let file: Value =
        yaml::read(&fs::read_to_string(workspace().join("deploy/lockstep/files/alerts.yaml"))?)?;
    let rendered = |disabled: &[&str]| {
        let metrics = "metrics: {renderMode: alwaysRender, prometheusRule: {enabled: true}}";
        render("options-alerts", &format!("{metrics}\nalerts: {{disabled: {}}}", json!(disabled)))
    };
    let known = alerts(&file);
    ensure!(known.contains(&DISABLED));

    let objects = rendered(&[])?;
    assert_eq!(named(&objects, "PrometheusRule", "options-alerts-lockstep")?["spec"], file);

    let objects = rendered(&[DISABLED])?;
    let rule = &named(&objects, "PrometheusRule", "options-alerts-lockstep")?["spec"];
    let others: Vec<&str> = known.iter().copied().filter(|alert| *alert != DISABLED).collect();
    assert_eq!(alerts(rule), others);
    let expressions = |file: &Value| file["groups"][0]["rules"][0].clone();
    assert_eq!(expressions(rule), expressions(&file), "the other alerts do not change");

    let objects = rendered(&known)?;
    ensure!(all(&objects, "PrometheusRule").is_empty(), "a rule without alerts");

    let refused = rendered(&["LockstepQueueGrow"]).err().context("an unknown alert was accepted")?;
    let message = refused.to_string();
    ensure!(
        message.contains("unknown alert \"LockstepQueueGrow\"") && message.contains(DISABLED),
        "{message}"
    );
    Ok(())
}

#[test]
fn each_alert_links_to_its_section_of_the_published_runbooks() -> anyhow::Result<()> {
    let url = "https://git.example.com/runbooks.md";
    let values = format!(
        "metrics: {{renderMode: alwaysRender, prometheusRule: {{enabled: true}}}}\nalerts: {{runbookUrl: '{url}'}}"
    );
    let objects = render("options-runbooks", &values)?;
    let runbooks = fs::read_to_string(workspace().join("docs/runbooks.md"))?;
    let sections: BTreeSet<String> = runbooks
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| format!("{url}#{}", title.to_lowercase()))
        .collect();
    let rule = named(&objects, "PrometheusRule", "options-runbooks-lockstep")?;
    let groups = rule["spec"]["groups"].as_array().into_iter().flatten();
    let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let links: BTreeSet<String> = rules
        .map(|rule| rule["annotations"]["runbook_url"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(links, sections);
    Ok(())
}

/// `helm upgrade --reuse-values` uses the values of the old chart, which has no defaults for new values.
#[test]
fn missing_values_are_defaults() -> anyhow::Result<()> {
    let missing = "
alerts: null
crds: {keep: null}
extraObjects: null
global: null
metrics: {renderMode: null}
networkPolicy: null
namespaceclass: {env: null, env: null, volumes: null, volumeMounts: null, strategy: null}
sentinel: {env: null, extraContainers: null, revisionHistoryLimit: null}
";
    let expected = template("options-missing", ALL)?;
    assert_eq!(template("options-missing", &format!("{ALL}{missing}"))?, expected);
    Ok(())
}

/// A server rejects misspelled fields, because objects are applied with strict validation.
#[tokio::test]
async fn the_api_server_accepts_all_options() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    // The default of a new cluster has no RuntimeClass, but only pods need one.
    let values = format!(
        "
global: {{imageRegistry: mirror.example.com, imagePullSecrets: [{{name: shared}}]}}
metrics: {{service: {{annotations: {{a: b}}}}}}
networkPolicy: {{enabled: true, egress: [{{ports: [{{port: 53, protocol: UDP}}]}}]}}
extraObjects:
  - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: extra, namespace: options-accepted}}}}
namespaceclass: {{strategy: {{type: RollingUpdate, rollingUpdate: {{maxSurge: 0}}}}, {POD}
}}
sentinel: {{{POD}
}}
sentinels: {{east: {{resourceType: clusters, googleCredentialsSecret: gcp}}}}
"
    );
    install(&client, "options-accepted", &render("options-accepted", &values)?).await
}

#[test]
fn the_metadata_of_the_chart_lists_all_crds() -> anyhow::Result<()> {
    let chart: Value = yaml::read(&fs::read_to_string(workspace().join("deploy/lockstep/Chart.yaml"))?)?;
    let listed = chart["annotations"]["artifacthub.io/crds"].as_str().context("no CRDs are listed")?;
    let listed: Value = yaml::read(listed)?;
    let mut listed: Vec<[&str; 3]> = listed
        .as_array()
        .into_iter()
        .flatten()
        .map(|crd| ["name", "kind", "version"].map(|field| crd[field].as_str().unwrap_or_default()))
        .collect();
    listed.sort_unstable();
    let objects = render("options-metadata", ALL)?;
    let mut rendered: Vec<[&str; 3]> = objects
        .iter()
        .filter(|object| is_crd(object))
        .map(|crd| {
            [&crd["metadata"]["name"], &crd["spec"]["names"]["kind"], &crd["spec"]["versions"][0]["name"]]
        })
        .map(|fields| fields.map(|field| field.as_str().unwrap_or_default()))
        .collect();
    rendered.sort_unstable();
    assert_eq!(listed, rendered);
    assert_eq!(chart["maintainers"], json!([{"name": "Lockstep developers"}]));
    assert_eq!(chart["annotations"]["artifacthub.io/license"], "Apache-2.0");
    assert!(chart["icon"].as_str().is_some_and(|icon| icon.starts_with("data:image/svg+xml;base64,")));
    Ok(())
}

//! Tests that a real API server accepts what the chart renders for value files of different users.

use anyhow::Context as _;
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_tests::chart::{apply, install, install_crd, is_crd, is_foreign, render};
use lockstep_tests::control_plane::ControlPlane;
use serde_json::json;

/// All controllers and two Sentinels, to which each file adds values.
const ALL: &str = "
bridge: {enabled: true}
dpuservice: {enabled: true}
sentinels:
  east: {resourceType: clusters, googleCredentialsSecret: gcp}
  west:
    config:
      resourceType: nodepools
      shardSelector: {matchLabels: {region: west}}
      hyperfleetAPI: {url: 'http://hyperfleet-api:8080'}
      broker: {type: rabbitmq, topic: events, urlSecretRef: {name: rabbitmq, key: url}}
";

const FILES: [&str; 23] = [
    "",
    "networkPolicy: {enabled: true}\ncrds: {enabled: false}",
    "networkPolicy: {enabled: true, egress: [{ports: [{port: 53, protocol: UDP}, {port: 443}]}]}",
    "crds: {keep: false}\nfullnameOverride: short",
    "global: {imageRegistry: 'localhost:5000', imagePullSecrets: [{name: mirror}]}\nimage: {tag: latest}",
    "global: {imageRegistry: mirror.example.com/proxy}\ncommonLabels: {team: platform}",
    "image: {repository: registry.example.com/lockstep, pullPolicy: Always}\nimagePullSecrets: [{name: registry}]",
    "log: {level: 'warn,lockstep=debug', format: text}",
    "podSecurityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000}\nsecurityContext: {privileged: false}",
    "metrics: {service: {enabled: false}, serviceMonitor: {enabled: true}}\nnetworkPolicy: {enabled: true}",
    "metrics: {renderMode: alwaysRender, dashboard: {enabled: true}, prometheusRule: {enabled: true}}",
    "metrics: {service: {annotations: {prometheus.io/scrape: 'true'}}}",
    "metrics: {renderMode: alwaysRender, prometheusRule: {enabled: true}}\nalerts: {disabled: [LockstepQueueGrows]}",
    "extraObjects: ['{apiVersion: v1, kind: ConfigMap, metadata: {name: extra, namespace: \"{{ .Release.Namespace }}\"}}']",
    "namespaceclass: {enabled: false}\nnetworkPolicy: {enabled: true}",
    "namespaceclass: {replicas: 1, strategy: {type: Recreate}, dnsPolicy: Default, revisionHistoryLimit: 2}",
    "namespaceclass: {extraContainers: [{name: a, image: a}], podDisruptionBudget: {enabled: false}}",
    "namespaceclass: {rbac: {rules: {networking: null, apps: {apiGroups: [apps], resources: [deployments]}}}}",
    "namespaceclass: {serviceAccount: {name: own, annotations: {a: b}}, resources: {limits: {memory: 1Gi}}}",
    "namespaceclass: {podDisruptionBudget: {maxUnavailable: 50%}, affinity: {nodeAffinity: {}}, replicas: 5}",
    "sentinel: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}]}",
    "sentinel: {replicas: 2, podDisruptionBudget: {maxUnavailable: 50%}}",
    "sentinel: {apiToken: {audience: hyperfleet}, trustedCertificates: {configMapName: ca}, dnsConfig: {searches: [a.b]}}",
];

/// The server rejects misspelled fields, because objects are applied with strict validation.
#[tokio::test]
async fn the_api_server_accepts_every_value_file() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let create = async |name: &str| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&client, &namespace).await
    };
    create(ARGO_NAMESPACE).await?;
    for crd in render("applied", ALL)?.iter().filter(|object| is_crd(object)) {
        install_crd(&client, crd).await?;
    }
    for (index, values) in FILES.iter().enumerate() {
        let release = format!("applied-{index}");
        create(&release).await?;
        let objects = render(&release, &format!("{ALL}{values}")).with_context(|| (*values).to_owned())?;
        // The Prometheus operator is not installed. Helm creates the pods of `helm test` last, and so does this loop: they
        // need their accounts.
        for object in objects.iter().filter(|object| !is_foreign(object)) {
            apply(&client, object).await.with_context(|| format!("{values}: {object}"))?;
        }
    }
    Ok(())
}

/// Renders one release with the values of each step, and applies its Deployments over those of the step before, with the field
/// manager of the same release, as `helm upgrade` of Helm 4 does.
async fn upgrade(release: &str, steps: &[&str]) -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    for (index, values) in steps.iter().enumerate() {
        let objects = render(release, values).with_context(|| (*values).to_owned())?;
        if index == 0 {
            install(&client, release, &objects).await?;
        }
        for deployment in objects.iter().filter(|object| object["kind"] == "Deployment") {
            apply(&client, deployment).await.with_context(|| format!("step {index}: {values}"))?;
        }
    }
    Ok(())
}

/// The API server sets fields that an apply leaves out, for no field manager, and an apply with another type keeps them.
#[tokio::test]
async fn a_release_changes_between_update_strategies() -> anyhow::Result<()> {
    let values = |replicas: u8, strategy: &str| {
        format!(
            "namespaceclass: {{strategy: {strategy}}}\nsentinels: {{east: {{resourceType: clusters, replicas: {replicas}}}}}"
        )
    };
    let (two, one) = (values(2, "{}"), values(1, "{type: Recreate}"));
    let partly = values(2, "{rollingUpdate: {maxSurge: 0}}");
    upgrade("applied-strategies", &[&two, &one, &two, &one, &partly, &one]).await
}

#[tokio::test]
async fn a_release_replaces_variables_of_the_chart() -> anyhow::Result<()> {
    let values = |env: &str| format!("sentinels: {{east: {{resourceType: clusters, env: {env}}}}}");
    let variables = "[{name: LOCKSTEP_LOG_LEVEL, value: debug}, {name: POD_NAMESPACE, value: own}]";
    let (without, with) = (values("[]"), values(variables));
    upgrade("applied-variables", &[&without, &with, &without]).await
}

//! Tests that a real API server accepts what the chart renders for value files of different users.

use anyhow::Context as _;
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_tests::chart::{apply, install_crd, is_crd, is_foreign, render};
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

const FILES: [&str; 22] = [
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

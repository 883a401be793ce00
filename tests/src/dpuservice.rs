//! A management cluster around the DPUService controller: DPF, DPU clusters, Argo CD, and users.

use std::net::{Ipv4Addr, SocketAddr};

use kube::{Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_engine::object::metadata;
use lockstep_external as external;
use lockstep_external::Pace;
use lockstep_external::dpu_clusters::Access;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown::{self, Trigger};
use prometheus::Registry;
use serde_json::{Value, json};

use crate::chart::{apply, install_crd};
use crate::user::User;

pub mod lifecycle;

/// The namespace of DPUClusters.
pub const DPF: &str = "dpf-operator-system";
/// The namespace of services.
pub const SERVICES: &str = "default";
/// The secret that must appear in no output.
pub const TOKEN: &str = "hunter2-hunter2";

/// Starts the embedded API server, on a free port.
pub async fn embedded() -> anyhow::Result<(Host, Config)> {
    let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await?;
    let config = Config::new(host.url().parse()?);
    Ok((host, config))
}

/// Installs these CRDs and the namespaces.
pub async fn prepare(client: &Client, definitions: &[Value]) -> anyhow::Result<()> {
    for definition in definitions {
        install_crd(client, definition).await?;
    }
    for name in [DPF, ARGO_NAMESPACE] {
        apply(client, &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
            .await?;
    }
    Ok(())
}

/// Returns the CRD of services.
pub fn own_definitions() -> anyhow::Result<Vec<Value>> {
    let sets = lockstep_crds::all();
    let crds = sets.iter().filter(|set| set.controller == lockstep_crds::dpuservice::CONTROLLER);
    crds.flat_map(|set| &set.crds).map(|crd| Ok(serde_json::to_value(crd)?)).collect()
}

/// Runs the models of the external systems on the current runtime until the trigger is dropped.
pub fn surround(client: Client) -> anyhow::Result<Trigger> {
    let clock = Clock::start(jiff::Timestamp::now);
    let mut manager = Manager::new(client, clock, 1, Metrics::new(Registry::new())?);
    for world in external::controllers(&external::DPUSERVICE, Pace::BRISK, 1) {
        manager.add(world);
    }
    let (trigger, stopping) = shutdown::channel();
    tokio::spawn(manager.run(stopping));
    Ok(trigger)
}

/// Returns the server of a cluster.
pub fn server(cluster: &str) -> String {
    format!("https://{cluster}.example.com:6443")
}

/// Returns a service.
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "svc.dpu.nvidia.com/v1alpha1",
        "kind": "DPUService",
        "metadata": { "namespace": SERVICES, "name": name },
        "spec": {
            "source": { "repoURL": "https://helm.ngc.nvidia.com/nvidia", "version": "v1.1.1", "chart": name },
            "values": { "a": "value", "kept": null, "nested": { "list": [1, { "b": null }] } },
            "serviceDaemonSet": { "labels": { "tier": "critical" } },
        },
    })
}

/// Returns a DPUCluster and the Secret with its kubeconfig.
pub fn dpu_cluster(name: &str, access: &Access) -> [Value; 2] {
    let secret = format!("{name}-admin-kubeconfig");
    [
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "namespace": DPF, "name": secret },
            "data": access.secret_data(),
        }),
        json!({
            "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
            "kind": "DPUCluster",
            "metadata": { "namespace": DPF, "name": name },
            "spec": { "type": "kamaji", "kubeconfig": secret },
        }),
    ]
}

/// Adds a cluster that is accessed with a token.
pub async fn join(user: &User, name: &str) -> anyhow::Result<()> {
    for object in dpu_cluster(name, &Access::by_token(&server(name), TOKEN)) {
        user.create(&object).await?;
    }
    Ok(())
}

/// Returns the names of our objects of a kind in Argo CD's namespace; a real one has other Secrets as well.
pub async fn in_argo(user: &User, kind: &str) -> anyhow::Result<Vec<String>> {
    let objects = user.list(kind, ARGO_NAMESPACE).await?;
    let names = objects.iter().map(|object| metadata(object, "name").to_owned());
    Ok(names.filter(|name| kind != "Secret" || name.ends_with("-argocd")).collect())
}

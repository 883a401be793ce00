//! A cluster as a deployment target of Argo CD: a real API server that can be made unreachable.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt as _};
use lockstep_external::dpu_clusters::Access;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::control_plane::ControlPlane;
use crate::dpuservice::dpu_cluster;

/// Annotation on the Jobs of the chart: `complete` or `failed`. Jobs with other values never end.
const OUTCOME: &str = "lockstep.example.com/outcome";

/// The namespace of the accounts that are given access.
const ACCOUNTS: &str = "default";

/// Forwards connections to a server; refuses them while it is closed.
#[derive(Debug)]
struct Gate {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Gate {
    fn to(server: String) -> anyhow::Result<Self> {
        let socket = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = socket.local_addr()?;
        let (is_open, opened) = watch::channel(true);
        let serving = tokio::spawn(async move {
            if let Err(error) = serve(socket, address, server, opened).await {
                panic!("the gate at {address}: {error}");
            }
        });
        Ok(Self { address, is_open, serving })
    }
}

/// Binds a socket to reserve its port. Until it listens, connections are refused.
fn bound(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn serve(
    mut socket: TcpSocket,
    address: SocketAddr,
    server: String,
    mut opened: watch::Receiver<bool>,
) -> std::io::Result<()> {
    loop {
        // The sender is never dropped before this ends.
        let _ = opened.wait_for(|is_open| *is_open).await;
        let listener = socket.listen(1024)?;
        loop {
            let mut caller = tokio::select! {
                accepted = listener.accept() => accepted?.0,
                _ = opened.wait_for(|is_open| !is_open) => break,
            };
            let (server, mut opened) = (server.clone(), opened.clone());
            tokio::spawn(async move {
                let Ok(mut server) = TcpStream::connect(server).await else { return };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut caller, &mut server) => {}
                    _ = opened.wait_for(|is_open| !is_open) => {}
                }
            });
        }
        drop(listener);
        socket = bound(address)?;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A DPU cluster without nodes: a control plane, on which `DaemonSets` are ready at once.
pub struct DpuCluster {
    /// The name of its DPUCluster.
    pub name: String,
    client: Client,
    access: Access,
    gate: Gate,
    nodes: JoinHandle<()>,
    outcome: watch::Sender<Option<bool>>,
    plane: ControlPlane,
}

impl DpuCluster {
    /// Starts it.
    pub async fn start(name: &str) -> anyhow::Result<Self> {
        let plane = spawn_blocking(ControlPlane::start).await??;
        let client = plane.client().await?;
        let gate = Gate::to(plane.server().trim_start_matches("https://").to_owned())?;
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
        let cluster = kubeconfig.clusters.first().and_then(|cluster| cluster.cluster.clone());
        let access = Access {
            authority: cluster
                .and_then(|cluster| cluster.certificate_authority_data)
                .context("no authority")?,
            ..Access::by_token(&format!("https://{}", gate.address), "admin")
        };
        let (outcome, wanted) = watch::channel(None);
        let nodes = tokio::spawn(run_nodes(client.clone(), wanted));
        Ok(Self { name: name.to_owned(), client, access, gate, nodes, outcome, plane })
    }

    /// Returns its DPUCluster, and the Secret with its kubeconfig.
    pub fn objects(&self) -> [Value; 2] {
        dpu_cluster(&self.name, &self.access)
    }

    /// Returns the data to access it.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Creates a `ServiceAccount` with all permissions, and returns the data to access the cluster as this account.
    pub async fn admit(&self, account: &str) -> anyhow::Result<Access> {
        let metadata = || ObjectMeta { name: Some(account.to_owned()), ..Default::default() };
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), ACCOUNTS);
        let object = ServiceAccount { metadata: metadata(), ..Default::default() };
        accounts.create(&PostParams::default(), &object).await?;
        let binding = ClusterRoleBinding {
            metadata: metadata(),
            role_ref: RoleRef {
                kind: "ClusterRole".to_owned(),
                name: "cluster-admin".to_owned(),
                ..Default::default()
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                namespace: Some(ACCOUNTS.to_owned()),
                name: account.to_owned(),
                ..Default::default()
            }]),
        };
        Api::all(self.client.clone()).create(&PostParams::default(), &binding).await?;
        Ok(Access { token: self.plane.token(ACCOUNTS, account).await?, ..self.access.clone() })
    }

    /// Deletes a `ServiceAccount`. Its tokens are refused from then on.
    pub async fn revoke(&self, account: &str) -> anyhow::Result<()> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), ACCOUNTS);
        accounts.delete(account, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Refuses all new connections, and ends the existing ones.
    pub fn cut(&self) {
        self.gate.is_open.send_replace(false);
    }

    /// Accepts connections again.
    pub fn restore(&self) {
        self.gate.is_open.send_replace(true);
    }

    /// Makes all Jobs complete or fail from now on; with none, the annotation of each decides.
    pub fn let_jobs_complete(&self, outcome: Option<bool>) {
        self.outcome.send_replace(outcome);
    }

    /// Returns the version of the chart that is deployed as a release, and its values.
    pub async fn release(&self, namespace: &str, name: &str) -> anyhow::Result<(String, Value)> {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let data = maps.get(&format!("{name}-settings")).await?.data.unwrap_or_default();
        let text = |key: &str| data.get(key).with_context(|| format!("no {key} in {data:?}"));
        Ok((text("version")?.clone(), serde_json::from_str(text("values")?)?))
    }

    /// Deletes the `ConfigMap` of a release.
    pub async fn delete_settings(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        maps.delete(&format!("{name}-settings"), &DeleteParams::default()).await?;
        Ok(())
    }

    /// Lists the `DaemonSets`, Jobs and `ConfigMaps` in a namespace.
    pub async fn objects_in(&self, namespace: &str) -> anyhow::Result<Vec<String>> {
        let all = ListParams::default();
        let mut names = Vec::new();
        for set in Api::<DaemonSet>::namespaced(self.client.clone(), namespace).list(&all).await? {
            names.push(format!("DaemonSet {}", set.name_any()));
        }
        for job in Api::<Job>::namespaced(self.client.clone(), namespace).list(&all).await? {
            names.push(format!("Job {}", job.name_any()));
        }
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), namespace).list(&all).await?;
        let maps = maps.into_iter().filter(|map| map.name_any() != "kube-root-ca.crt");
        names.extend(maps.map(|map| format!("ConfigMap {}", map.name_any())));
        Ok(names)
    }
}

impl Drop for DpuCluster {
    fn drop(&mut self) {
        self.nodes.abort();
    }
}

/// Acts as the controllers of Jobs and `DaemonSets` on a cluster without nodes, and ends Jobs.
async fn run_nodes(client: Client, outcome: watch::Receiver<Option<bool>>) {
    loop {
        // An error is retried with the next round.
        let outcome = *outcome.borrow();
        let _ = update_statuses(&client, outcome).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn update_statuses(client: &Client, outcome: Option<bool>) -> kube::Result<()> {
    let parameters = PatchParams::default();
    for set in Api::<DaemonSet>::all(client.clone()).list(&ListParams::default()).await? {
        let observed = set.status.as_ref().and_then(|status| status.observed_generation);
        if observed != set.metadata.generation {
            let counts =
                ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"];
            let mut status: Value = counts.iter().map(|count| ((*count).to_owned(), json!(0))).collect();
            status["observedGeneration"] = json!(set.metadata.generation);
            let sets = Api::<DaemonSet>::namespaced(client.clone(), &set.namespace().unwrap_or_default());
            sets.patch_status(&set.name_any(), &parameters, &Patch::Merge(json!({ "status": status })))
                .await?;
        }
    }
    for job in Api::<Job>::all(client.clone()).list(&ListParams::default()).await? {
        let has_ended = job.status.as_ref().is_some_and(|status| status.conditions.is_some());
        let wanted = outcome.or_else(|| match job.annotations().get(OUTCOME).map(String::as_str) {
            Some("complete") => Some(true),
            Some("failed") => Some(false),
            _ => None,
        });
        let Some(completes) = wanted.filter(|_| !has_ended) else { continue };
        let jobs = Api::<Job>::namespaced(client.clone(), &job.namespace().unwrap_or_default());
        let status = json!({ "status": ended(completes) });
        jobs.patch_status(&job.name_any(), &parameters, &Patch::Merge(status)).await?;
    }
    Ok(())
}

/// Returns the status of a Job that has completed or failed.
fn ended(completes: bool) -> Value {
    let now = jiff::Timestamp::now().to_string();
    let (types, reason, message) = if completes {
        (
            ["SuccessCriteriaMet", "Complete"],
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
    } else {
        (["FailureTarget", "Failed"], "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    };
    let conditions = types.map(|kind| {
        json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now })
    });
    let mut status = json!({ "startTime": now, "conditions": conditions });
    if completes {
        status["succeeded"] = json!(1);
        status["completionTime"] = json!(now);
    } else {
        status["failed"] = json!(1);
    }
    status
}

//! Tests the models of the systems around the Bridge, driven by the shell, on the embedded API server and on a real one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use kube::{Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_engine::action::{Action, Answer as _, ErrorKind, KubeRequest, Success};
use lockstep_engine::object::{Kind, ObjectRef, Uid, is_deleting, metadata};
use lockstep_external as external;
use lockstep_external::dpu_clusters::Access;
use lockstep_external::hypershift::{self, hosted_cluster_kind, node_pool_kind};
use lockstep_external::{Pace, dpu_clusters, metallb};
use lockstep_runtime::clock::Clock;
use lockstep_runtime::execute::Executor;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown;
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::eventually;
use serde_json::{Value, json};

const NAMESPACE: &str = "worlds-clusters";

fn core_kind(kind: &str, plural: &str, namespaced: bool) -> Arc<Kind> {
    Kind::known("", "v1", kind, plural, namespaced)
}

/// A user of the API.
struct User(Executor);

impl User {
    async fn apply(&self, kind: &Arc<Kind>, mut object: Value) -> anyhow::Result<()> {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.clone().into();
        let target = match metadata(&object, "namespace") {
            "" => ObjectRef::cluster(kind, metadata(&object, "name")),
            namespace => ObjectRef::namespaced(kind, namespace, metadata(&object, "name")),
        };
        let manifest = Arc::new(object);
        // A new CRD is served after a short delay.
        eventually("it is applied", async || {
            let action =
                Action::Kube(KubeRequest::Apply { target: target.clone(), manifest: Arc::clone(&manifest) });
            Ok(self.0.execute(&action).await.map(drop)?)
        })
        .await
    }

    async fn get(&self, kind: &Arc<Kind>, name: &str) -> anyhow::Result<Option<Arc<Value>>> {
        let target = ObjectRef::namespaced(kind, NAMESPACE, name);
        let get = Action::Kube(KubeRequest::Get { target, metadata_only: false });
        Ok(self.0.execute(&get).await.found()?)
    }

    /// Waits until an object has a condition.
    async fn has(&self, kind: &Arc<Kind>, name: &str, condition: &str) -> anyhow::Result<Arc<Value>> {
        eventually(&format!("{name} is {condition}"), async || {
            let object = self.get(kind, name).await?.context("there is none")?;
            let conditions = object["status"]["conditions"].as_array();
            let holds =
                conditions.into_iter().flatten().any(|it| it["type"] == condition && it["status"] == "True");
            ensure!(holds, "{}", object["status"]);
            Ok(object)
        })
        .await
    }

    async fn delete(&self, kind: &Arc<Kind>, name: &str) -> anyhow::Result<()> {
        let object = self.get(kind, name).await?.context("there is none")?;
        let target = ObjectRef::namespaced(kind, NAMESPACE, name);
        let uid = Uid::of(&object);
        self.0.execute(&Action::Kube(KubeRequest::Delete { target, uid, resource_version: None })).await?;
        eventually(&format!("{name} is gone"), async || match self.get(kind, name).await? {
            None => Ok(()),
            Some(object) => bail!("{object}"),
        })
        .await
    }
}

/// Installs the CRDs of the models, and runs the models until the trigger is dropped.
async fn start(client: Client) -> anyhow::Result<(User, shutdown::Trigger)> {
    let user = User(Executor::new(client.clone(), "tests"));
    let definition = Kind::known(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    );
    for object in external::definitions(&external::BRIDGE) {
        user.apply(&definition, object).await?;
    }
    let clock = Clock::start(jiff::Timestamp::now);
    let mut manager = Manager::new(client, clock, 1, Metrics::new(prometheus::Registry::new())?);
    for world in external::controllers(&external::BRIDGE, Pace::BRISK, 1) {
        manager.add(world);
    }
    let (trigger, stopping) = shutdown::channel();
    tokio::spawn(manager.run(stopping));
    Ok((user, trigger))
}

fn named(name: &str, spec: &Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec })
}

async fn set_up(user: &User) -> anyhow::Result<()> {
    for name in [NAMESPACE, metallb::NAMESPACE] {
        let namespaces = core_kind("Namespace", "namespaces", false);
        user.apply(&namespaces, json!({ "metadata": { "name": name } })).await?;
    }
    let secrets = core_kind("Secret", "secrets", true);
    for (name, key) in [("pull-secret", ".dockerconfigjson"), ("ssh-key", "id_rsa.pub")] {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        user.apply(&secrets, json!({ "metadata": metadata, "stringData": { key: "{}" } })).await?;
    }
    let metadata = json!({ "name": "dpus", "namespace": NAMESPACE });
    let data = Access::by_token("https://192.0.2.1:6443", "token").secret_data();
    user.apply(&secrets, json!({ "metadata": metadata, "data": data })).await?;
    let mut pool = named("vips", &json!({ "addresses": ["192.0.2.10/32"] }));
    pool["metadata"]["namespace"] = json!(metallb::NAMESPACE);
    user.apply(&metallb::pool_kind(), pool).await?;
    let kubeconfig = json!({ "type": "static", "kubeconfig": "dpus" });
    user.apply(&dpu_clusters::cluster_kind(), named("dpus", &kubeconfig)).await?;
    let release = json!({ "image": "registry.example.com/ocp-release:4.19.0-multi" });
    let publish = |(service, strategy)| json!({ "service": service, "servicePublishingStrategy": { "type": strategy } });
    let services = [
        ("APIServer", "LoadBalancer"),
        ("OAuthServer", "Route"),
        ("Konnectivity", "Route"),
        ("Ignition", "Route"),
    ];
    let cluster = json!({
        "release": release,
        "pullSecret": { "name": "pull-secret" },
        "sshKey": { "name": "ssh-key" },
        "platform": { "type": "None" },
        "services": services.map(publish),
    });
    user.apply(&hosted_cluster_kind(), named("prod", &cluster)).await?;
    let pool = json!({
        "clusterName": "prod",
        "replicas": 0,
        "release": release,
        "platform": { "type": "None" },
        "management": { "upgradeType": "Replace" },
    });
    user.apply(&node_pool_kind(), named("prod", &pool)).await
}

async fn a_hosted_cluster_comes_and_goes(client: Client) -> anyhow::Result<()> {
    let (user, _trigger) = start(client).await?;
    set_up(&user).await?;
    let cluster = user.has(&hosted_cluster_kind(), "prod", "Available").await?;
    ensure!(cluster["status"]["controlPlaneEndpoint"] == json!({ "host": "192.0.2.10", "port": 6443 }));
    ensure!(cluster["status"]["kubeconfig"]["name"] == "prod-admin-kubeconfig");
    user.has(&node_pool_kind(), "prod", "ValidReleaseImage").await?;
    user.has(&dpu_clusters::cluster_kind(), "dpus", "Ready").await?;
    user.delete(&hosted_cluster_kind(), "prod").await?;
    ensure!(user.get(&node_pool_kind(), "prod").await?.is_none());
    let name = hypershift::control_plane_namespace(NAMESPACE, "prod");
    let target = ObjectRef::cluster(&core_kind("Namespace", "namespaces", false), &name);
    match user.0.execute(&Action::Kube(KubeRequest::Get { target, metadata_only: true })).await {
        Ok(Success::Object(namespace)) => ensure!(is_deleting(&namespace), "{namespace}"),
        Err(failure) => ensure!(failure.class == ErrorKind::NotFound, "{failure}"),
        other => bail!("{other:?}"),
    }
    user.delete(&dpu_clusters::cluster_kind(), "dpus").await
}

#[tokio::test]
async fn on_the_embedded_server() -> anyhow::Result<()> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let host = Host::bind(any_port, Options::default()).await?;
    a_hosted_cluster_comes_and_goes(Client::try_from(Config::new(host.url().parse()?))?).await?;
    host.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn on_a_real_server() -> anyhow::Result<()> {
    a_hosted_cluster_comes_and_goes(ControlPlane::shared().client().await?).await
}

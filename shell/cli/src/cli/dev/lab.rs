//! The example for the Bridge: a registry, and the objects of an example bridge.
//!
//! The bridge first waits for its DPUCluster, which is created a little later: this shows how a bridge goes from Pending to
//! Ready.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_external::hypershift;
use lockstep_runtime::serve;
use lockstep_runtime::shutdown::Shutdown;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The namespace of the example.
pub(super) const NAMESPACE: &str = "dpf-hcp-bridge-system";
/// The name of the example bridge.
pub(super) const BRIDGE: &str = "prod-cluster";
/// The delay before its DPUCluster is created.
pub(super) const LATER: Duration = Duration::from_secs(3);

const DPF: &str = "dpf-operator-system";
const METALLB: &str = "metallb-system";
/// The releases in the registry: an initial one, and one for an upgrade.
const RELEASES: [&str; 2] = ["4.19.0-multi", "4.20.1-multi"];
/// The public SSH key of the example; no one has its private key.
const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1vbnRhZ25lIGVzdCBoYXV0ZSBldCBsb2ludGFpbmUu dev@example.com";

/// The example, with its registry.
pub(super) struct Lab {
    registry: SocketAddr,
}

impl Lab {
    /// Serves the registry until shutdown is requested.
    pub(super) async fn start(stopping: Shutdown) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let registry = listener.local_addr()?;
        let routes = Router::new().route("/v2/{*document}", get(manifest));
        tokio::spawn(serve::serve(listener, routes, stopping));
        Ok(Self { registry })
    }

    /// Returns a release image by its number.
    pub(super) fn image(&self, release: usize) -> String {
        format!("{}/ocp-release:{}", self.registry, RELEASES[release])
    }

    /// Returns the example and all its prerequisites except the DPUCluster, in the order in which they are applied.
    pub(super) fn objects(&self) -> Vec<Value> {
        let namespace =
            |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let secret = |name: &str, key: &str, content: &str| {
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "namespace": NAMESPACE, "name": name },
                "data": { key: STANDARD.encode(content) },
            })
        };
        let auths = json!({ "auths": { self.registry.to_string(): { "auth": STANDARD.encode("dev:dev") } } });
        let mut objects = vec![namespace(NAMESPACE), namespace(DPF), namespace(METALLB)];
        objects.extend(hypershift::installation());
        objects.extend([
            json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": { "name": "ceph-rbd" },
                "provisioner": "rbd.csi.ceph.com",
            }),
            json!({
                "apiVersion": "metallb.io/v1beta1",
                "kind": "IPAddressPool",
                "metadata": { "namespace": METALLB, "name": "hosted-clusters" },
                "spec": { "addresses": ["192.168.1.100-192.168.1.199"], "autoAssign": false },
            }),
            secret("prod-pull-secret", ".dockerconfigjson", &auths.to_string()),
            secret("prod-ssh-key", "ssh-publickey", SSH_KEY),
            self.bridge(),
        ]);
        objects
    }

    fn bridge(&self) -> Value {
        json!({
            "apiVersion": "dpf.hcp.bridge.com/v1alpha1",
            "kind": "DPFHCPBridge",
            "metadata": { "namespace": NAMESPACE, "name": BRIDGE },
            "spec": {
                "dpuClusterRef": { "namespace": DPF, "name": "prod-dpu-cluster" },
                "baseDomain": "clusters.example.com",
                "ocpReleaseImage": self.image(0),
                "sshKeySecretRef": { "name": "prod-ssh-key" },
                "pullSecretRef": { "name": "prod-pull-secret" },
                "etcdStorageClass": "ceph-rbd",
                "controlPlaneAvailabilityPolicy": "HighlyAvailable",
                "infrastructureAvailabilityPolicy": "HighlyAvailable",
                "exposeThroughLoadBalancer": true,
                "metalLBVirtualIP": "192.168.1.100",
                "clusterType": "dpf-production",
            },
        })
    }

    /// Returns the DPUCluster of the example.
    pub(super) fn dpu_cluster() -> Value {
        json!({
            "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
            "kind": "DPUCluster",
            "metadata": { "namespace": DPF, "name": "prod-dpu-cluster" },
            "spec": { "type": "static" },
        })
    }
}

/// Answers requests for the manifests of the releases.
async fn manifest(Path(document): Path<String>) -> Response {
    let release = RELEASES.iter().position(|tag| document == format!("ocp-release/manifests/{tag}"));
    match release {
        Some(release) => {
            let digest = format!("sha256:{release:064x}");
            let headers = [
                (CONTENT_TYPE, "application/vnd.oci.image.index.v1+json".to_owned()),
                (HeaderName::from_static("docker-content-digest"), digest),
            ];
            (headers, "{}").into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

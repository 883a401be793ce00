//! The lifecycle of a bridge, step by step. Each step waits for its result and checks it from outside.

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::objects::{SSH_KEY, dpu_cluster, secret};
use super::{NODE_ADDRESS, Tenant};

/// The secrets in the lifecycle of a bridge, which must appear in no output: both passwords, also in the form of a pull secret,
/// the SSH key, and the client key that the model of HyperShift writes into a kubeconfig.
const HUSH: [&str; 6] = [
    "hunter2",
    "hunter3",
    "dXNlcjpodW50ZXIy",
    "dXNlcjpodW50ZXIz",
    "E1vbnRhZ25lIGVzdCBoYXV0ZSBldCBsb2ludGFpbmUu",
    "tops3cretAAA",
];

/// The name of the bridge.
pub const NAME: &str = "prod";
pub(super) const DPUS: &str = "dpus";
const METALLB: &str = "metallb-system";

/// Creates a bridge that is reached through the load balancer, and encrypts etcd.
pub async fn comes(tenant: &Tenant) -> anyhow::Result<()> {
    let mut bridge = tenant.bridge(NAME, DPUS);
    bridge["spec"]["etcdEncryption"] = json!("Generated");
    let endpoint = becomes_ready(tenant, &bridge).await?;
    key(tenant).await?;
    ensure!(endpoint == format!("https://{}:6443", tenant.address), "{endpoint}");
    tenant.until_condition(NAME, "ServiceExposureReady", "True/LoadBalancerReady").await?;
    Ok(())
}

/// Creates a bridge that is reached through the load balancer, at an address from a pool of its own.
pub async fn comes_with_pool(tenant: &Tenant) -> anyhow::Result<()> {
    let mut bridge = tenant.bridge(NAME, DPUS);
    bridge["spec"]["metalLBPool"] = json!({ "namespace": METALLB });
    let endpoint = becomes_ready(tenant, &bridge).await?;
    ensure!(endpoint == format!("https://{}:6443", tenant.address), "{endpoint}");
    has_pool(tenant).await
}

/// Waits until the bridge's own pool and advertisement are as they should be.
async fn has_pool(tenant: &Tenant) -> anyhow::Result<()> {
    let name = place(tenant);
    let pool = json!({
        "addresses": [format!("{}/32", tenant.address)],
        "autoAssign": false,
        "avoidBuggyIPs": false,
        "serviceAllocation": { "namespaces": [name] },
    });
    for (kind, spec) in [("IPAddressPool", pool), ("L2Advertisement", json!({ "ipAddressPools": [name] }))] {
        let is_wanted = |object: &Value| object["spec"] == spec;
        tenant.until(&format!("{kind} {name} is as wanted"), (kind, METALLB, &name), is_wanted).await?;
    }
    Ok(())
}

/// Changes and deletes the bridge's own pool and advertisement, which are restored.
pub async fn has_pool_restored(tenant: &Tenant) -> anyhow::Result<()> {
    let name = place(tenant);
    for (kind, edit) in [
        ("IPAddressPool", json!({ "spec": { "autoAssign": true } })),
        ("L2Advertisement", json!({ "spec": { "ipAddressPools": ["others"] } })),
    ] {
        tenant.merge(kind, METALLB, &name, &edit).await?;
        has_pool(tenant).await?;
        tenant.delete(kind, METALLB, &name).await?;
        has_pool(tenant).await?;
    }
    tenant.until_condition(NAME, "ServiceExposureReady", "True/LoadBalancerReady").await?;
    tenant.phase(NAME, "Ready").await?;
    Ok(())
}

/// Returns the namespace of the control plane.
fn place(tenant: &Tenant) -> String {
    format!("{}-{NAME}", tenant.namespace)
}

/// Creates a bridge that is reached at the Node.
pub async fn comes_on_node_ports(tenant: &Tenant) -> anyhow::Result<()> {
    let endpoint = becomes_ready(tenant, &tenant.bridge_on_node_ports(NAME, DPUS)).await?;
    let place = format!("{}-{NAME}", tenant.namespace);
    let service = tenant.get("Service", &place, "kube-apiserver").await?.unwrap_or_default();
    let port = &service["spec"]["ports"][0]["nodePort"];
    ensure!(port.is_u64() && endpoint == format!("https://{NODE_ADDRESS}:{port}"), "{endpoint}: {service:#}");
    ensure!(service["metadata"]["annotations"]["metallb.io/loadBalancerIPs"].is_null(), "{service:#}");
    tenant.until_condition(NAME, "ServiceExposureReady", "True/NodePortReady").await?;
    Ok(())
}

/// Creates a bridge before its DPUCluster, and waits until it is ready after the DPUCluster exists. Returns the address of its
/// API server.
async fn becomes_ready(tenant: &Tenant, bridge: &Value) -> anyhow::Result<String> {
    if bridge["spec"]["metalLBPool"].is_object() {
        tenant.provide_all_but_pool().await?;
    } else {
        tenant.provide().await?;
    }
    tenant.create(bridge).await?;
    tenant.until_condition(NAME, "DPUClusterValid", "False/DPUClusterNotFound").await?;
    tenant.phase(NAME, "Pending").await?;
    ensure!(tenant.get("HostedCluster", &tenant.namespace, NAME).await?.is_none());
    tenant.create(&dpu_cluster(&tenant.dpus(), DPUS)).await?;
    tenant.phase(NAME, "Provisioning").await?;
    let bridge = tenant.phase(NAME, "Ready").await?;
    let status = &bridge["status"];
    ensure!(
        status["hostedClusterRef"]["name"] == NAME && status["nodePoolRef"]["name"] == NAME,
        "{status:#}"
    );
    ensure!(status["kubeconfigSecretRef"]["name"] == format!("{NAME}-admin-kubeconfig"), "{status:#}");
    has_kubeconfig(tenant).await?;
    Ok(status["apiEndpoint"].as_str().unwrap_or_default().to_owned())
}

/// Checks that the DPUCluster has the kubeconfig of the hosted cluster, with which DPF reaches it.
pub(super) async fn has_kubeconfig(tenant: &Tenant) -> anyhow::Result<()> {
    let (dpus, copy) = (tenant.dpus(), copy_of_kubeconfig(tenant));
    let place = ("DPUCluster", dpus.as_str(), DPUS);
    tenant
        .until("the DPUCluster is Ready", place, |object| {
            object["spec"]["kubeconfig"] == *copy && object["status"]["phase"] == "Ready"
        })
        .await?;
    let source = tenant
        .get("Secret", &tenant.namespace, &format!("{NAME}-admin-kubeconfig"))
        .await?
        .unwrap_or_default();
    let copy = tenant.get("Secret", &dpus, &copy).await?.unwrap_or_default();
    ensure!(source["data"]["kubeconfig"].is_string());
    for key in ["super-admin.conf", "admin.conf"] {
        ensure!(copy["data"][key] == source["data"]["kubeconfig"], "{key}");
    }
    Ok(())
}

fn copy_of_kubeconfig(tenant: &Tenant) -> String {
    format!("{}-{NAME}-dpucluster-kubeconfig", tenant.namespace)
}

/// Returns the key for etcd, as it is in the Secret. HyperShift has the same one.
pub async fn key(tenant: &Tenant) -> anyhow::Result<String> {
    let name = format!("{NAME}-etcd-encryption-key");
    let secret = tenant.get("Secret", &tenant.namespace, &name).await?.unwrap_or_default();
    let key = secret["data"]["key"].as_str().unwrap_or_default().to_owned();
    ensure!(STANDARD.decode(&key)?.len() == 32 && secret["immutable"] == true, "{name} has no key");
    let place = format!("{}-{NAME}", tenant.namespace);
    let copy = tenant.get("Secret", &place, &name).await?.unwrap_or_default();
    ensure!(copy["data"]["key"] == *key, "HyperShift has another key");
    Ok(key)
}

/// Rolls out another image. The bridge stays ready.
pub async fn is_upgraded(tenant: &Tenant) -> anyhow::Result<()> {
    let image = tenant.image("4.20.1");
    tenant.change(NAME, &json!({ "ocpReleaseImage": image })).await?;
    let place = |kind| (kind, tenant.namespace.as_str(), NAME);
    tenant
        .until("the HostedCluster is upgraded", place("HostedCluster"), |object| {
            let newest = &object["status"]["controlPlaneVersion"]["history"][0];
            newest["version"] == "4.20.1" && newest["state"] == "Completed"
        })
        .await?;
    tenant
        .until("the NodePool is upgraded", place("NodePool"), |object| {
            object["spec"]["release"]["image"] == *image
        })
        .await?;
    tenant.until_condition(NAME, "HostedClusterProgressing", "False/AsExpected").await?;
    tenant.phase(NAME, "Ready").await?;
    Ok(())
}

/// Changes both Secrets of the user. The Secrets that HyperShift reads change as well.
pub async fn has_secrets_rotated(tenant: &Tenant) -> anyhow::Result<()> {
    let pull = tenant.pull_secret("hunter3");
    let ssh = secret(&tenant.namespace, "ssh", "ssh-publickey", &format!("# rotated\n{SSH_KEY}\n"));
    for (changed, copy, (from, to)) in [
        (pull, "pull-secret", (".dockerconfigjson", ".dockerconfigjson")),
        (ssh, "ssh-key", ("ssh-publickey", "id_rsa.pub")),
    ] {
        let name = changed["metadata"]["name"].as_str().unwrap_or_default();
        tenant.merge("Secret", &tenant.namespace, name, &json!({ "data": changed["data"] })).await?;
        let copy = format!("{NAME}-{copy}");
        let place = ("Secret", tenant.namespace.as_str(), copy.as_str());
        tenant
            .until(&format!("{copy} is rotated"), place, |object| object["data"][to] == changed["data"][from])
            .await?;
    }
    tenant.phase(NAME, "Ready").await?;
    Ok(())
}

/// Deletes the DPUCluster, which only the bridge reports, and creates it again.
pub async fn loses_its_dpu_cluster(tenant: &Tenant) -> anyhow::Result<()> {
    tenant.delete("DPUCluster", &tenant.dpus(), DPUS).await?;
    tenant.until_condition(NAME, "DPUClusterValid", "False/DPUClusterNotFound").await?;
    tenant.phase(NAME, "Failed").await?;
    let cluster = tenant.get("HostedCluster", &tenant.namespace, NAME).await?.unwrap_or_default();
    ensure!(cluster["metadata"]["deletionTimestamp"].is_null() && cluster["kind"] == "HostedCluster");
    tenant.create(&dpu_cluster(&tenant.dpus(), DPUS)).await?;
    tenant.phase(NAME, "Ready").await?;
    has_kubeconfig(tenant).await
}

/// Deletes the bridge, and checks that no object is left.
pub async fn goes(tenant: &Tenant) -> anyhow::Result<()> {
    let (namespace, dpus) = (tenant.namespace.as_str(), tenant.dpus());
    tenant.delete("DPFHCPBridge", namespace, NAME).await?;
    tenant.phase(NAME, "Deleting").await?;
    tenant.gone("DPFHCPBridge", namespace, NAME).await?;
    for (kind, namespace, name) in [
        ("HostedCluster", namespace, NAME),
        ("NodePool", namespace, NAME),
        ("Secret", &dpus, &copy_of_kubeconfig(tenant)),
        ("IPAddressPool", METALLB, &place(tenant)),
        ("L2Advertisement", METALLB, &place(tenant)),
    ] {
        ensure!(tenant.get(kind, namespace, name).await?.is_none(), "{kind} {name} is left");
    }
    // The garbage collector deletes the rest with its owner.
    for secret in ["pull-secret", "ssh-key", "etcd-encryption-key", "admin-kubeconfig"] {
        tenant.gone("Secret", namespace, &format!("{NAME}-{secret}")).await?;
    }
    tenant.gone("Namespace", "", &format!("{namespace}-{NAME}")).await?;
    let cluster = tenant.get("DPUCluster", &dpus, DPUS).await?.unwrap_or_default();
    ensure!(cluster["kind"] == "DPUCluster" && cluster["spec"]["kubeconfig"].is_null(), "{cluster:#}");
    let mut left = Vec::new();
    for namespace in [namespace, &dpus] {
        left.extend(tenant.list("Secret", namespace).await?);
    }
    let left: Vec<&Value> = left.iter().map(|secret| &secret["metadata"]["name"]).collect();
    ensure!(left == ["pull", "ssh"], "{left:?}");
    Ok(())
}

/// Checks that the text contains no secret, neither plain nor in base64.
pub fn hushed(output: &str) -> anyhow::Result<()> {
    ensure!(output.contains(NAME), "the name is not in the output: {output}");
    for hush in HUSH {
        ensure!(!output.contains(hush), "{hush} is in the output: {output}");
        // The base64 form of a text depends on its offset; its ends depend on the text around it.
        for before in ["", "u", "us"] {
            let encoded = STANDARD.encode(format!("{before}{hush}"));
            let inner = &encoded[before.len().min(1) * 4..encoded.len() - 4];
            ensure!(
                inner.len() < 8 || !output.contains(inner),
                "{hush} is in the output in base64: {output}"
            );
        }
    }
    Ok(())
}

/// Checks that the text does not contain a key: neither as it is in its Secret, nor as a list of bytes.
pub fn hides(output: &str, key: &str) -> anyhow::Result<()> {
    let bytes = STANDARD.decode(key)?;
    let list = format!("{:?}", &bytes[..8]);
    for form in [key.trim_end_matches('='), list.trim_matches(['[', ']'])] {
        ensure!(!output.contains(form), "the key for etcd is in the output: {output}");
    }
    Ok(())
}

/// Returns everything that the cluster shows about a bridge to a user without access to Secrets.
pub async fn shown(tenant: &Tenant) -> anyhow::Result<String> {
    let mut shown = String::new();
    for kind in ["DPFHCPBridge", "HostedCluster", "NodePool", "Event"] {
        for object in tenant.list(kind, &tenant.namespace).await? {
            shown.push_str(&object.to_string());
        }
    }
    for object in tenant.list("DPUCluster", &tenant.dpus()).await? {
        shown.push_str(&object.to_string());
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_plain_and_in_base64() {
        let output = "the bridge prod is ready";
        assert!(hushed(output).is_ok());
        for secret in [HUSH[0], HUSH[2], HUSH[5]] {
            assert!(hushed(&format!("{output}: {secret}")).is_err(), "{secret}");
        }
        for before in ["", "{", "{\"", "{\"a"] {
            let encoded = STANDARD.encode(format!("{before}\"auth\": \"{}\"}}", HUSH[2]));
            assert!(hushed(&format!("{output}: {encoded}")).is_err(), "{encoded}");
        }
        assert!(hushed("").is_err());
        let key = STANDARD.encode([7; 32]);
        assert!(hides(output, &key).is_ok());
        for shown in [key.clone(), format!("{:?}", [7; 32])] {
            assert!(hides(&format!("{output}: {shown}"), &key).is_err(), "{shown}");
        }
    }
}

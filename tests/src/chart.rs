//! The Helm chart, rendered, installed and run: the program with the flags of the chart, as the chart's account.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use lockstep_engine::yaml;
use serde_json::{Value, json};

use crate::access::Account;
use crate::control_plane::{self, ControlPlane};
use crate::ground::eventually;
use crate::program::{Program, program, workspace};

/// Returns what helm renders for a release with this name, in a namespace with the same name, with values in YAML.
///
/// An error contains helm's output.
pub fn template(release: &str, values: &str) -> anyhow::Result<String> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("values.yaml");
    std::fs::write(&file, values)?;
    let output = Command::new(control_plane::helm()?)
        .args(["template", release])
        .arg(workspace().join("deploy/lockstep"))
        .args(["--namespace", release, "--include-crds", "--values"])
        .arg(&file)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the objects that helm renders.
pub fn render(release: &str, values: &str) -> anyhow::Result<Vec<Value>> {
    let text = template(release, values)?;
    yaml::read_all(&text).context("reading what helm rendered")
}

/// Returns values that enable one controller alone, with all of its options.
pub fn everything(controller: &str) -> String {
    format!(
        "
namespaceclass: {{enabled: false}}
commonLabels: {{team: platform}}
metrics:
  renderMode: alwaysRender
  serviceMonitor: {{enabled: true, labels: {{release: prometheus}}}}
  prometheusRule: {{enabled: true}}
  dashboard: {{enabled: true}}
{controller}:
  enabled: true
  replicas: 3
  concurrency: 4
  resync: 1h
  extraArgs: [--context=other]
  env: [{{name: LOCKSTEP_LOG_LEVEL, value: debug}}]
  volumes: [{{name: recordings, emptyDir: {{sizeLimit: 300Mi}}}}]
  volumeMounts: [{{name: recordings, mountPath: /recordings}}]
  serviceAccount: {{name: custom, annotations: {{a: b}}}}
  podAnnotations: {{a: b}}
  podLabels: {{a: b}}
  nodeSelector: {{kubernetes.io/os: linux}}
  tolerations: [{{operator: Exists}}]
  priorityClassName: system-cluster-critical
"
    )
}

/// Applies one object and returns the stored object.
pub async fn apply(client: &Client, object: &Value) -> anyhow::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let kind = GroupVersionKind::try_from(object.types.as_ref().context("an object without kind")?)?;
    let (resource, capabilities) = pinned_kind(client, &kind).await?;
    let api: Api<DynamicObject> = match (&capabilities.scope, &object.metadata.namespace) {
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
        (Scope::Namespaced, None) => bail!("{} without a namespace", kind.kind),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    let name = object.metadata.name.as_deref().context("an object without name")?;
    let params = PatchParams::apply("helm").force().validation_strict();
    api.patch(name, &params, &Patch::Apply(&object))
        .await
        .with_context(|| format!("applying {} {name}", kind.kind))
}

/// Returns the only rendered object of a kind.
pub fn only<'a>(objects: &'a [Value], kind: &str) -> anyhow::Result<&'a Value> {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next().with_context(|| format!("no {kind} was rendered"))?;
    ensure!(found.next().is_none(), "more than one {kind} was rendered");
    Ok(object)
}

/// Returns the rendered object of a kind and name.
pub fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> anyhow::Result<&'a Value> {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.with_context(|| format!("no {kind} {name} was rendered"))
}

/// Returns whether the object's kind belongs to the Prometheus operator, which the control plane does not have.
pub fn is_foreign(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with("monitoring.coreos.com/"))
}

/// Returns whether the object is a CRD.
pub fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Returns whether Helm creates the object only for `helm test`.
fn is_test(object: &Value) -> bool {
    object["metadata"]["annotations"]["helm.sh/hook"] == "test"
}

/// Installs a release into a namespace with its name: the CRDs first, as helm does, then the rest.
pub async fn install(client: &Client, release: &str, objects: &[Value]) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": release}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    for crd in objects.iter().filter(|object| is_crd(object)) {
        install_crd(client, crd).await?;
    }
    for object in objects.iter().filter(|object| !is_crd(object) && !is_foreign(object) && !is_test(object)) {
        apply(client, object).await?;
    }
    is_granted(client, objects).await
}

/// Waits until the authorizer, which caches roles, permits what each binding grants.
async fn is_granted(client: &Client, objects: &[Value]) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
        let (role, subject) = (&binding["roleRef"], &binding["subjects"][0]);
        let role = named(objects, &text(&role["kind"]), &text(&role["name"]))?;
        let rule = &role["rules"][0];
        let [verb, group, resource, name] =
            ["verbs", "apiGroups", "resources", "resourceNames"].map(|of| text(&rule[of][0]));
        let account = Account::new(client.clone(), &text(&subject["namespace"]), &text(&subject["name"]));
        let namespace = text(&binding["metadata"]["namespace"]);
        eventually(&format!("{} is in force", role["metadata"]["name"]), async || {
            ensure!(account.may(&verb, &group, &resource, &name, &namespace).await?);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Installs a CRD and waits until its kind is served.
pub async fn install_crd(client: &Client, crd: &Value) -> anyhow::Result<()> {
    apply(client, crd).await?;
    eventually("the definition is established", async || {
        let applied = apply(client, crd).await?;
        let conditions = applied.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        ensure!(conditions.iter().any(established), "{conditions:?}");
        Ok(())
    })
    .await?;
    // A CRD is established shortly before its watch cache is filled. Until then the server rejects watches with 429, which is
    // no error of the chart or of the operator.
    let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]["name"]);
    let part = |part: &Value| part.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (part(&spec["group"]), part(&spec["names"]["plural"]));
    let path = format!("/apis/{group}/{}/{plural}?resourceVersion=0", part(version));
    eventually("the kind is listed from the watch cache", async || {
        let request = http::Request::get(&path).body(Vec::new())?;
        client.request::<Value>(request).await?;
        Ok(())
    })
    .await
}

/// Starts the program as the container of a rendered Deployment would run it, with the account of its pods, on free ports of
/// loopback.
pub async fn start(plane: &ControlPlane, deployment: &Value) -> anyhow::Result<Program> {
    let pod = &deployment["spec"]["template"]["spec"];
    let namespace = deployment["metadata"]["namespace"].as_str().context("no namespace")?;
    let account = pod["serviceAccountName"].as_str().context("no service account")?;
    let mut command = Command::new(program()?);
    if let Some(name) = pod["containers"][0]["command"][0].as_str() {
        command.arg0(name);
    }
    configure(&mut command, deployment)?;
    Program::start(command, &kubeconfig(plane, namespace, account).await?).await
}

/// Adds the arguments and the environment of a rendered Deployment, with free ports of loopback.
pub fn configure(command: &mut Command, deployment: &Value) -> anyhow::Result<()> {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let namespace = deployment["metadata"]["namespace"].as_str().context("no namespace")?;
    let flags = container["args"].as_array().context("no args")?;
    let flags = flags.iter().map(|flag| flag.as_str().unwrap_or_default());
    command.args(flags.map(|flag| match flag.split_once("-address=") {
        Some((name, _)) => format!("{name}-address=127.0.0.1:0"),
        None => flag.to_owned(),
    }));
    for variable in container["env"].as_array().into_iter().flatten() {
        let value = if variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace" {
            Some(namespace)
        } else {
            variable["value"].as_str()
        };
        command.env(variable["name"].as_str().context("a variable without name")?, value.unwrap_or_default());
    }
    Ok(())
}

/// Returns a kubeconfig of a `ServiceAccount`.
pub async fn kubeconfig(plane: &ControlPlane, namespace: &str, account: &str) -> anyhow::Result<String> {
    let mut kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
    let user = kubeconfig.auth_infos.first_mut().context("a kubeconfig without a user")?;
    user.auth_info = Some(plane.service_account_config(namespace, account).await?.auth_info);
    Ok(yaml::write(&kubeconfig)?)
}

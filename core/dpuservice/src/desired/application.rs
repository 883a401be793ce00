//! The Application that deploys a service to a cluster: its name and its manifest.
//!
//! An Application is found by the service and the cluster in its labels and annotations, never by its name. It never gets
//! another name: that would undeploy the service and deploy it again.
//!
//! Source: "Reconcile the ArgoCD `Applications`".

use lockstep_crds::dpuservice::DPUServiceSpec;
use lockstep_engine::action::Action;
use lockstep_engine::digest::{digest, shortened};
use lockstep_engine::object::Name;
use lockstep_engine::write::create_or_apply;
use serde_json::{Value, json};

use super::values::values;
use crate::model::application::{App, application_ref, without_refresh};
use crate::model::owner::label_value;
use crate::names::{
    self, APPLIED, ARGO_FINALIZER, ARGO_NAMESPACE, CLUSTER, CLUSTER_NAME, CLUSTER_NAMESPACE, PROJECT,
    SERVICE, SERVICE_NAME, SERVICE_NAMESPACE,
};
use crate::store::Store;

/// The longest name of an Application, because Argo CD writes it into labels.
const NAME_MAX_BYTES: usize = 63;
/// The longest name of a Helm release.
const RELEASE_MAX_BYTES: usize = 53;

/// Returns the write that brings an Application to its desired state; `None` if it has reached it.
///
/// It is created without values, and in such a way that Argo CD does not deploy it yet. The apply that follows sets all
/// fields. A later apply could never remove a field that was created and not applied.
pub fn write(
    store: &Store,
    service: &Name,
    spec: &DPUServiceSpec,
    cluster: &Name,
    server: &str,
    place: Place<'_>,
) -> Option<Action> {
    let manifest = manifest(service, spec, cluster, server);
    let with_name = |mut manifest: Value, name: &Name| {
        manifest["metadata"]["namespace"] = json!(name.namespace);
        manifest["metadata"]["name"] = json!(name.name);
        manifest
    };
    match place {
        Place::New(name) => {
            Some(create_or_apply(application_ref(&name), bare(with_name(manifest, &name)), None))
        }
        Place::Existing(name, app) => app.differs(&manifest).then(|| {
            let mut manifest = with_name(manifest, name);
            // The digest stays the same. Otherwise every Application would count as changed when the server accepts it.
            if store.refuses_refresh {
                without_refresh(&mut manifest["spec"]);
            }
            create_or_apply(application_ref(name), manifest, Some(&app.uid))
        }),
    }
}

/// The Application to write.
#[derive(Debug)]
pub enum Place<'a> {
    /// A new one under a free name.
    New(Name),
    /// An existing one.
    Existing(&'a Name, &'a App),
}

fn bare(mut manifest: Value) -> Value {
    if let Some(annotations) = manifest["metadata"]["annotations"].as_object_mut() {
        annotations.remove(APPLIED);
    }
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.remove("syncPolicy");
    }
    if let Some(helm) = manifest["spec"]["source"]["helm"].as_object_mut() {
        helm.remove("valuesObject");
    }
    manifest
}

/// Returns the manifest of an Application, without its name.
pub fn manifest(service: &Name, spec: &DPUServiceSpec, cluster: &Name, server: &str) -> Value {
    let mut manifest = json!({
        "apiVersion": names::application().api_version(),
        "kind": names::application().kind,
        "metadata": {
            "labels": {
                SERVICE_NAME: label_value(&service.name),
                SERVICE_NAMESPACE: label_value(&service.namespace),
                CLUSTER_NAME: label_value(&cluster.name),
                CLUSTER_NAMESPACE: label_value(&cluster.namespace),
            },
            "annotations": { SERVICE: service.to_string(), CLUSTER: cluster.to_string() },
            "finalizers": [ARGO_FINALIZER],
        },
        "spec": {
            "project": PROJECT,
            "destination": { "server": server, "namespace": service.namespace },
            "source": {
                // With a chart, Argo CD expects the address of an OCI repository without its scheme.
                "repoURL": spec.source.repo_url.strip_prefix("oci://").unwrap_or(&spec.source.repo_url),
                "targetRevision": spec.source.version,
                "chart": spec.source.chart,
                "helm": {
                    // The default is the Application's name, which may be too long for a release.
                    "releaseName": shortened(&service.name, RELEASE_MAX_BYTES),
                    "valuesObject": values(spec),
                },
            },
            "syncPolicy": {
                "automated": { "prune": true, "selfHeal": true },
                "syncOptions": ["CreateNamespace=true"],
                // By default, Argo CD abandons a source after five attempts: a cluster that is down for longer would never
                // get it. With `refresh`, the next attempt uses the newest version within a range; it never uses a changed spec.
                "retry": {
                    "limit": -1,
                    "refresh": true,
                    "backoff": { "duration": "5s", "factor": 2, "maxDuration": "1m" },
                },
            },
        },
    });
    let applied = digest(&json!([manifest["spec"], manifest["metadata"]]));
    manifest["metadata"]["annotations"][APPLIED] = json!(applied);
    manifest
}

/// Returns the possible names of the Application of a service on a cluster, in order of preference.
///
/// The suffix is the digits at the end of the cluster's name, unless an older cluster has the same. Otherwise it is the
/// cluster's name. Otherwise a unique digest is added.
pub fn possible_names(store: &Store, service: &Name, cluster: &Name) -> Vec<Name> {
    let (short, long) = (&service.name, format!("{}-{}", service.name, cluster.name));
    let suffix = suffix(&cluster.name).filter(|suffix| {
        let mut rivals = store
            .staying()
            .filter(|(rival, _)| *rival != cluster && self::suffix(&rival.name) == Some(suffix));
        !rivals.any(|(rival, _)| store.is_older(rival, cluster))
    });
    let whole = digest(&json!([service, cluster]));
    let candidates = [
        suffix.map(|suffix| shortened(&format!("{short}-{suffix}"), NAME_MAX_BYTES)),
        Some(shortened(&long, NAME_MAX_BYTES)),
        Some(format!("{}-{}", shortened(&long, NAME_MAX_BYTES - 9), &whole[..8])),
    ];
    candidates.into_iter().flatten().map(|name| Name::new(ARGO_NAMESPACE, &name)).collect()
}

/// Returns a free name for the Application of a service on a cluster; `None` if all are taken.
pub fn free_name(store: &Store, service: &Name, cluster: &Name) -> Option<Name> {
    let mut names = possible_names(store, service, cluster).into_iter();
    names.find(|name| !store.taken.contains(name) && store.applications.get(name).is_none())
}

/// Returns the digits at the end of a name, unchanged.
fn suffix(name: &str) -> Option<&str> {
    let start = name.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    Some(&name[start..]).filter(|digits| !digits.is_empty())
}

#[cfg(test)]
mod tests;

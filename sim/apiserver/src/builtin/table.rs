//! Table rows, as in `kubectl get`.

mod admission;
mod event;
mod format;
mod jobs;
mod network;
mod node;
mod pod;
mod row;
mod storage;

use serde_json::Value;

use super::data;
use super::resource::Resource;
use super::view::{entries, flag, given, integer, list, part, text};
use format::{age, containers_and_images, label_selector, labels, or_none};
use row::{Cells, Row, marked_default, row};

/// Returns the cells of one row; `now` in seconds since the epoch.
pub(super) fn cells(resource: &Resource, object: &Value, now: i64) -> Vec<Value> {
    let metadata = part(object, "metadata");
    let row = Row {
        object,
        spec: part(object, "spec"),
        status: part(object, "status"),
        name: text(metadata, "name"),
        age: age(part(metadata, "creationTimestamp"), now),
        now,
    };
    match resource.group {
        "" => row.core(resource.kind),
        "apps" => row.apps(resource.kind),
        "batch" | "autoscaling" | "policy" => row.controllers(resource.kind),
        "networking.k8s.io" | "discovery.k8s.io" => row.network(resource.kind),
        "events.k8s.io" => row.event(),
        _ => row.others(resource.kind),
    }
    .unwrap_or_else(|| plain(resource, metadata, now))
}

/// Returns the row of a kind without a rule here: its special columns are empty.
fn plain(resource: &Resource, metadata: &Value, now: i64) -> Vec<Value> {
    let columns = data::columns(resource);
    let cells = columns.iter().map(|column| match column.0 {
        "Name" => part(metadata, "name").clone(),
        "Created At" => part(metadata, "creationTimestamp").clone(),
        "Age" => age(part(metadata, "creationTimestamp"), now).into(),
        _ => Value::from(""),
    });
    cells.collect()
}

impl Row<'_> {
    fn core(self, kind: &str) -> Cells {
        let Self { object, spec, status, name, .. } = self;
        match kind {
            "Pod" => Some(pod::cells(object, self.age, self.now)),
            "ConfigMap" => {
                row![name, entries(object, "data").count() + entries(object, "binaryData").count(), self.age]
            }
            "Secret" => row![name, text(object, "type"), entries(object, "data").count(), self.age],
            "ServiceAccount" => row![name, self.age],
            "Namespace" => row![name, text(status, "phase"), self.age],
            "Service" => self.service(),
            "Node" => self.node(),
            "Endpoints" => row![name, network::endpoints(object), self.age],
            "ResourceQuota" => self.quota(),
            "Event" => self.event(),
            "PersistentVolumeClaim" => self.claim(),
            "PersistentVolume" => self.volume(),
            "PodTemplate" => {
                let template = part(object, "template");
                let (names, images) = containers_and_images(part(part(template, "spec"), "containers"));
                row![name, names, images, labels(part(part(template, "metadata"), "labels"))]
            }
            "ReplicationController" => {
                let (names, images) = self.template_containers();
                let desired = integer(spec, "replicas").unwrap_or(0);
                let selector = labels(part(spec, "selector"));
                row![
                    name,
                    desired,
                    self.count("replicas"),
                    self.count("readyReplicas"),
                    self.age,
                    names,
                    images,
                    selector
                ]
            }
            _ => None,
        }
    }

    fn apps(self, kind: &str) -> Cells {
        let Self { spec, name, .. } = self;
        let (names, images) = self.template_containers();
        let desired = integer(spec, "replicas").unwrap_or(0);
        let ready = self.count("readyReplicas");
        let selector = label_selector(part(spec, "selector"));
        match kind {
            "Deployment" => {
                let counts = (self.count("updatedReplicas"), self.count("availableReplicas"));
                row![
                    name,
                    format!("{ready}/{desired}"),
                    counts.0,
                    counts.1,
                    self.age,
                    names,
                    images,
                    selector
                ]
            }
            "StatefulSet" => row![name, format!("{ready}/{desired}"), self.age, names, images],
            "ReplicaSet" => {
                row![
                    name,
                    desired,
                    self.count("replicas"),
                    ready,
                    self.age,
                    names,
                    images,
                    or_none(&selector)
                ]
            }
            "DaemonSet" => {
                let node_selector = labels(part(part(part(spec, "template"), "spec"), "nodeSelector"));
                row![
                    name,
                    self.count("desiredNumberScheduled"),
                    self.count("currentNumberScheduled"),
                    self.count("numberReady"),
                    self.count("updatedNumberScheduled"),
                    self.count("numberAvailable"),
                    node_selector,
                    self.age,
                    names,
                    images,
                    or_none(&selector),
                ]
            }
            "ControllerRevision" => {
                let owners = list(part(self.object, "metadata"), "ownerReferences");
                let controller = owners.iter().find(|owner| flag(owner, "controller"));
                let shown = controller.map(|owner| {
                    let group =
                        text(owner, "apiVersion").split_once('/').map(|(group, _)| format!(".{group}"));
                    let kind = format!("{}{}", text(owner, "kind"), group.unwrap_or_default()).to_lowercase();
                    format!("{kind}/{}", text(owner, "name"))
                });
                let revision = integer(self.object, "revision").unwrap_or(0);
                row![name, shown.unwrap_or_else(|| "<none>".to_owned()), revision, self.age]
            }
            _ => None,
        }
    }

    fn controllers(self, kind: &str) -> Cells {
        let Self { spec, status, name, .. } = self;
        match kind {
            "Job" => self.job(),
            "CronJob" => {
                let job = part(part(spec, "jobTemplate"), "spec");
                let (names, images) =
                    containers_and_images(part(part(part(job, "template"), "spec"), "containers"));
                let last = given(status, "lastScheduleTime").map(|time| age(time, self.now));
                let suspended = given(spec, "suspend").map_or("<unset>", |suspend| format::boolean(suspend));
                row![
                    name,
                    text(spec, "schedule"),
                    or_none(text(spec, "timeZone")),
                    suspended,
                    list(status, "active").len(),
                    or_none(&last.unwrap_or_default()),
                    self.age,
                    names,
                    images,
                    or_none(&label_selector(part(job, "selector"))),
                ]
            }
            "PodDisruptionBudget" => {
                let shown =
                    |field| given(spec, field).map_or_else(|| "N/A".to_owned(), format::int_or_string);
                row![
                    name,
                    shown("minAvailable"),
                    shown("maxUnavailable"),
                    self.count("disruptionsAllowed"),
                    self.age
                ]
            }
            "HorizontalPodAutoscaler" => {
                let target = part(spec, "scaleTargetRef");
                let reference = format!("{}/{}", text(target, "kind"), text(target, "name"));
                let least = integer(spec, "minReplicas")
                    .map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
                let most = integer(spec, "maxReplicas").unwrap_or(0);
                row![name, reference, self.metrics(), least, most, self.count("currentReplicas"), self.age]
            }
            _ => None,
        }
    }

    fn others(self, kind: &str) -> Cells {
        let Self { object, spec, name, .. } = self;
        match kind {
            "RoleBinding" | "ClusterRoleBinding" => self.binding(),
            "Lease" => row![name, text(spec, "holderIdentity"), self.age],
            "StorageClass" => {
                let defaults = [
                    "storageclass.kubernetes.io/is-default-class",
                    "storageclass.beta.kubernetes.io/is-default-class",
                ];
                row![
                    marked_default(object, name, &defaults),
                    text(object, "provisioner"),
                    text(object, "reclaimPolicy"),
                    text(object, "volumeBindingMode"),
                    flag(object, "allowVolumeExpansion"),
                    self.age,
                ]
            }
            "PriorityClass" => {
                let value = integer(object, "value").unwrap_or(0);
                row![name, value, flag(object, "globalDefault"), self.age, text(object, "preemptionPolicy")]
            }
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                row![name, list(object, "webhooks").len(), self.age]
            }
            "ValidatingAdmissionPolicy" => self.policy("validations"),
            "MutatingAdmissionPolicy" => self.policy("mutations"),
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => self.policy_binding(),
            "CSIDriver" => self.driver(),
            "CSINode" => row![name, list(spec, "drivers").len(), self.age],
            "VolumeAttributesClass" => row![name, text(object, "driverName"), self.age],
            "VolumeAttachment" => self.attachment(),
            _ => None,
        }
    }

    fn binding(self) -> Cells {
        let role = part(self.object, "roleRef");
        let role = format!("{}/{}", text(role, "kind"), text(role, "name"));
        let named = |kind: &str| {
            let subjects =
                list(self.object, "subjects").iter().filter(|subject| text(subject, "kind") == kind);
            let names = subjects.map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
                _ => text(subject, "name").to_owned(),
            });
            names.collect::<Vec<_>>().join(", ")
        };
        row![self.name, role, self.age, named("User"), named("Group"), named("ServiceAccount")]
    }

    fn quota(self) -> Cells {
        let mut columns = [Vec::new(), Vec::new()];
        for (resource, hard) in entries(self.status, "hard") {
            let used = part(self.status, "used").get(resource).and_then(Value::as_str).unwrap_or("0");
            let column = &mut columns[usize::from(resource.starts_with("limits."))];
            column.push(format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default()));
        }
        let [requests, limits] = columns.map(|column| column.join(", "));
        row![self.name, requests, limits, self.age]
    }
}

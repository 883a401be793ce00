//! Rows of tables, as `kubectl get` shows them.

mod format;
mod pod;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Resource;
use super::view::{entries, flag, given, integer, list, part, text};
use format::{address, age, containers_and_images, label_selector, labels, or_none, some_of};

/// The cells of one row; `now` in seconds since the epoch.
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
    .unwrap_or_else(|| vec![text(metadata, "name").into(), part(metadata, "creationTimestamp").clone()])
}

type Cells = Option<Vec<Value>>;

/// A list of cells of various types.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { Some(vec![$(Value::from($cell)),*]) };
}

struct Row<'a> {
    object: &'a Value,
    spec: &'a Value,
    status: &'a Value,
    name: &'a str,
    age: String,
    now: i64,
}

impl Row<'_> {
    fn count(&self, field: &str) -> i64 {
        integer(self.status, field).unwrap_or(0)
    }

    fn template_containers(&self) -> (String, String) {
        containers_and_images(part(part(part(self.spec, "template"), "spec"), "containers"))
    }

    fn is_deleted(&self) -> bool {
        given(part(self.object, "metadata"), "deletionTimestamp").is_some()
    }

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
            "Endpoints" => row![name, endpoints(object), self.age],
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

    fn job(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let succeeded = self.count("succeeded");
        let completions = match (integer(spec, "completions"), integer(spec, "parallelism").unwrap_or(0)) {
            (Some(wanted), _) => format!("{succeeded}/{wanted}"),
            (None, parallel @ 2..) => format!("{succeeded}/1 of {parallel}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let holds = |kind: &str| {
            let conditions = list(status, "conditions");
            conditions
                .iter()
                .find(|condition| text(condition, "type") == kind)
                .is_some_and(|c| text(c, "status") == "True")
        };
        let shown = match () {
            () if holds("Complete") => "Complete",
            () if holds("Failed") => "Failed",
            () if self.is_deleted() => "Terminating",
            () if holds("Suspended") => "Suspended",
            () if holds("FailureTarget") => "FailureTarget",
            () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
            () => "Running",
        };
        let end =
            given(status, "completionTime").and_then(Value::as_str).and_then(super::time::epoch_seconds);
        let duration = given(status, "startTime").map(|start| age(start, end.unwrap_or(self.now)));
        let (names, images) = self.template_containers();
        let selector = label_selector(part(spec, "selector"));
        row![
            name,
            shown,
            completions,
            duration.unwrap_or_default(),
            self.age,
            names,
            images,
            or_none(&selector)
        ]
    }

    fn metrics(&self) -> String {
        let current = |index: usize, pointer: &str| {
            let status = list(self.status, "currentMetrics").get(index)?.pointer(pointer)?;
            Some(status.as_str().map_or_else(|| status.to_string(), str::to_owned))
        };
        let unknown = || "<unknown>".to_owned();
        let metrics = list(self.spec, "metrics").iter().enumerate().map(|(index, metric)| {
            let (source, named) = match text(metric, "type") {
                "Resource" => ("resource", true),
                "ContainerResource" => ("containerResource", true),
                "External" => ("external", false),
                "Object" => ("object", false),
                "Pods" => ("pods", false),
                _ => return "<unknown type>".to_owned(),
            };
            let target = part(part(metric, source), "target");
            let prefix =
                if named { format!("{}: ", text(part(metric, source), "name")) } else { String::new() };
            let average = given(target, "averageValue").and_then(Value::as_str);
            let value =
                |field: &str| current(index, &format!("/{source}/current/{field}")).unwrap_or_else(unknown);
            match average {
                Some(average) if matches!(source, "external" | "object") => {
                    format!("{}/{average} (avg)", value("averageValue"))
                }
                Some(average) => format!("{prefix}{}/{average}", value("averageValue")),
                None if named => {
                    let now = current(index, &format!("/{source}/current/averageUtilization"));
                    let now = now.map_or_else(unknown, |percent| format!("{percent}%"));
                    let wanted = integer(target, "averageUtilization");
                    let wanted = wanted.map_or_else(|| "<auto>".to_owned(), |percent| format!("{percent}%"));
                    format!("{prefix}{now}/{wanted}")
                }
                None => format!("{}/{}", value("value"), text(target, "value")),
            }
        });
        let metrics: Vec<String> = metrics.collect();
        match metrics.len() {
            0 => "<none>".to_owned(),
            1 | 2 => metrics.join(", "),
            count => format!("{} + {} more...", metrics[..2].join(", "), count - 2),
        }
    }

    fn network(self, kind: &str) -> Cells {
        let Self { object, spec, status, name, .. } = self;
        match kind {
            "NetworkPolicy" => row![name, or_none(&label_selector(part(spec, "podSelector"))), self.age],
            "Ingress" => {
                let hosts = ingress_hosts(list(spec, "rules"));
                let ports = if list(spec, "tls").is_empty() { "80" } else { "80, 443" };
                let addresses = address(list(part(status, "loadBalancer"), "ingress"));
                row![name, or_none(text(spec, "ingressClassName")), hosts, addresses, ports, self.age]
            }
            "IngressClass" => {
                let default = "ingressclass.kubernetes.io/is-default-class";
                let shown = marked_default(object, name, &[default]);
                let parameters = given(spec, "parameters").map(|parameters| {
                    let group = given(parameters, "apiGroup").and_then(Value::as_str);
                    let group = group.map(|group| format!(".{group}")).unwrap_or_default();
                    format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name"))
                });
                row![shown, text(spec, "controller"), or_none(&parameters.unwrap_or_default()), self.age]
            }
            "EndpointSlice" => {
                let ports = list(object, "ports").iter().map(|port| match integer(port, "port") {
                    Some(number) => number.to_string(),
                    None => given(port, "name").and_then(Value::as_str).unwrap_or("*").to_owned(),
                });
                let addresses =
                    list(object, "endpoints").iter().flat_map(|endpoint| list(endpoint, "addresses"));
                let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
                let kind = text(object, "addressType");
                row![
                    name,
                    kind,
                    some_of(&ports.collect::<Vec<_>>(), 3, "<unset>"),
                    some_of(&addresses, 3, "<unset>"),
                    self.age
                ]
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

    fn service(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let external = list(spec, "externalIPs").iter().filter_map(Value::as_str).map(str::to_owned);
        let shown = match text(spec, "type") {
            "ExternalName" => text(spec, "externalName").to_owned(),
            "LoadBalancer" => {
                let balanced = address(list(part(status, "loadBalancer"), "ingress"));
                let all: Vec<String> =
                    Some(balanced).filter(|ips| !ips.is_empty()).into_iter().chain(external).collect();
                if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
            }
            _ => or_none(&external.collect::<Vec<_>>().join(",")),
        };
        let ports = list(spec, "ports").iter().map(|port| {
            let node_port = integer(port, "nodePort").filter(|number| *number > 0);
            let node_port = node_port.map(|number| format!(":{number}")).unwrap_or_default();
            format!("{}{node_port}/{}", integer(port, "port").unwrap_or(0), text(port, "protocol"))
        });
        let ports = or_none(&ports.collect::<Vec<_>>().join(","));
        let internal = list(spec, "clusterIPs").first().and_then(Value::as_str).unwrap_or_default();
        row![
            name,
            text(spec, "type"),
            or_none(internal),
            shown,
            ports,
            self.age,
            labels(part(spec, "selector"))
        ]
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

    fn claim(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let bound = !text(spec, "volumeName").is_empty();
        let capacity = if bound { text(part(status, "capacity"), "storage") } else { "" };
        let modes = if bound { access_modes(list(status, "accessModes")) } else { String::new() };
        let phase = if self.is_deleted() { "Terminating" } else { text(status, "phase") };
        row![
            name,
            phase,
            text(spec, "volumeName"),
            capacity,
            modes,
            text(spec, "storageClassName"),
            unset(spec, "volumeAttributesClassName"),
            self.age,
            unset(spec, "volumeMode"),
        ]
    }

    fn volume(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let claim = given(spec, "claimRef")
            .map(|claim| format!("{}/{}", text(claim, "namespace"), text(claim, "name")));
        let capacity = part(spec, "capacity").get("storage").and_then(Value::as_str).unwrap_or("0");
        let phase = if self.is_deleted() { "Terminating" } else { text(status, "phase") };
        row![
            name,
            capacity,
            access_modes(list(spec, "accessModes")),
            text(spec, "persistentVolumeReclaimPolicy"),
            phase,
            claim.unwrap_or_default(),
            text(spec, "storageClassName"),
            unset(spec, "volumeAttributesClassName"),
            text(status, "reason"),
            self.age,
            unset(spec, "volumeMode"),
        ]
    }

    /// An event of either group.
    fn event(self) -> Cells {
        let Self { object, now, .. } = self;
        let either = |new: &'static str, old: &'static str| match text(object, new) {
            "" => text(object, old),
            text => text,
        };
        let seen = |field: &str| given(object, field).map(|time| age(time, now));
        let regarding = given(object, "involvedObject").unwrap_or(part(object, "regarding"));
        let first = seen("firstTimestamp").or_else(|| seen("deprecatedFirstTimestamp"));
        let first = first.unwrap_or_else(|| age(part(object, "eventTime"), now));
        let series = given(object, "series");
        let last = match series {
            Some(series) => age(part(series, "lastObservedTime"), now),
            None => seen("lastTimestamp")
                .or_else(|| seen("deprecatedLastTimestamp"))
                .unwrap_or_else(|| first.clone()),
        };
        let counted = integer(object, "count").or_else(|| integer(object, "deprecatedCount")).unwrap_or(1);
        let count = series.and_then(|series| integer(series, "count")).unwrap_or(counted);
        let kind = text(regarding, "kind").to_lowercase();
        let target = match text(regarding, "name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        let source = given(object, "source").unwrap_or(part(object, "deprecatedSource"));
        let or =
            |first: &str, second: &str| if first.is_empty() { second.to_owned() } else { first.to_owned() };
        let controller = either("reportingComponent", "reportingController");
        let component = or(text(source, "component"), controller);
        let instance = or(text(source, "host"), text(object, "reportingInstance"));
        let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
        row![
            last,
            text(object, "type"),
            text(object, "reason"),
            target,
            text(regarding, "fieldPath"),
            source,
            either("message", "note").trim(),
            first,
            count,
            self.name,
        ]
    }
}

fn unset(value: &Value, field: &str) -> String {
    given(value, field).and_then(Value::as_str).unwrap_or("<unset>").to_owned()
}

fn marked_default(object: &Value, name: &str, annotations: &[&str]) -> String {
    let given = part(part(object, "metadata"), "annotations");
    let is_default = annotations.iter().any(|annotation| given.get(annotation) == Some(&json!("true")));
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown =
        short.iter().filter(|(mode, _)| modes.iter().any(|given| given == mode)).map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",")
}

fn ingress_hosts(rules: &[Value]) -> String {
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == 3;
        let host = text(rule, "host");
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - 3),
        (false, false) => hosts.join(","),
    }
}

fn endpoints(object: &Value) -> String {
    let mut shown = Vec::new();
    for subset in list(object, "subsets") {
        let ips: Vec<&str> = list(subset, "addresses").iter().map(|address| text(address, "ip")).collect();
        let ports: BTreeSet<Option<i64>> = match list(subset, "ports") {
            [] => BTreeSet::from([None]),
            ports => ports.iter().map(|port| integer(port, "port")).collect(),
        };
        for port in ports {
            shown.extend(ips.iter().map(|ip| match port {
                Some(port) if ip.contains(':') => format!("[{ip}]:{port}"),
                Some(port) => format!("{ip}:{port}"),
                None => (*ip).to_owned(),
            }));
        }
    }
    some_of(&shown, 3, "<none>")
}

//! Defaults that do not depend on other fields of the object.

use serde_json::{Map, Value};

/// A default value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Literal {
    Number(i64),
    Text(&'static str),
    Flag(bool),
    Empty,
}

use Literal::{Empty, Flag, Number, Text};

impl Literal {
    pub(super) fn value(self) -> Value {
        match self {
            Number(number) => Value::from(number),
            Text(text) => Value::from(text),
            Flag(flag) => Value::from(flag),
            Empty => Value::Object(Map::new()),
        }
    }
}

type Table = &'static [(&'static str, Literal)];

/// Returns the defaults of the fields of a type, by its OpenAPI name.
pub(super) fn of_type(name: &str) -> Table {
    let name = name.strip_prefix("io.k8s.api.").unwrap_or(name);
    let (group, kind) = name.split_once('.').unwrap_or_default();
    match group {
        "core" => core(kind),
        "apps" => apps(kind),
        "admissionregistration" => admission_registration(kind),
        _ => others(name),
    }
}

/// Permissions 0644, for files of volumes.
const FILE_MODE: Table = &[("defaultMode", Number(0o644))];

fn core(kind: &str) -> Table {
    match kind {
        "v1.Secret" => &[("type", Text("Opaque"))],
        "v1.Container" | "v1.EphemeralContainer" => &[
            ("terminationMessagePath", Text("/dev/termination-log")),
            ("terminationMessagePolicy", Text("File")),
        ],
        "v1.ContainerPort" | "v1.ServicePort" | "v1.EndpointPort" => &[("protocol", Text("TCP"))],
        "v1.PodSpec" => &[
            ("dnsPolicy", Text("ClusterFirst")),
            ("restartPolicy", Text("Always")),
            ("securityContext", Empty),
            ("terminationGracePeriodSeconds", Number(30)),
            ("schedulerName", Text("default-scheduler")),
        ],
        "v1.Probe" => &[
            ("timeoutSeconds", Number(1)),
            ("periodSeconds", Number(10)),
            ("successThreshold", Number(1)),
            ("failureThreshold", Number(3)),
        ],
        "v1.HTTPGetAction" => &[("path", Text("/")), ("scheme", Text("HTTP"))],
        "v1.GRPCAction" => &[("service", Text(""))],
        "v1.ObjectFieldSelector" => &[("apiVersion", Text("v1"))],
        "v1.FileKeySelector" => &[("optional", Flag(false))],
        "v1.SecretVolumeSource"
        | "v1.ConfigMapVolumeSource"
        | "v1.DownwardAPIVolumeSource"
        | "v1.ProjectedVolumeSource" => FILE_MODE,
        "v1.ServiceAccountTokenProjection" => &[("expirationSeconds", Number(3600))],
        "v1.HostPathVolumeSource" => &[("type", Text(""))],
        "v1.AzureDiskVolumeSource" => &[
            ("cachingMode", Text("ReadWrite")),
            ("fsType", Text("ext4")),
            ("kind", Text("Shared")),
            ("readOnly", Flag(false)),
        ],
        "v1.ISCSIVolumeSource" | "v1.ISCSIPersistentVolumeSource" => &[("iscsiInterface", Text("default"))],
        "v1.RBDVolumeSource" | "v1.RBDPersistentVolumeSource" => {
            &[("pool", Text("rbd")), ("user", Text("admin")), ("keyring", Text("/etc/ceph/keyring"))]
        }
        "v1.ScaleIOVolumeSource" | "v1.ScaleIOPersistentVolumeSource" => {
            &[("storageMode", Text("ThinProvisioned")), ("fsType", Text("xfs"))]
        }
        "v1.PersistentVolumeSpec" => {
            &[("persistentVolumeReclaimPolicy", Text("Retain")), ("volumeMode", Text("Filesystem"))]
        }
        "v1.PersistentVolumeClaimSpec" => &[("volumeMode", Text("Filesystem"))],
        "v1.PersistentVolumeStatus" | "v1.PersistentVolumeClaimStatus" => &[("phase", Text("Pending"))],
        "v1.NamespaceStatus" => &[("phase", Text("Active"))],
        "v1.ReplicationControllerSpec" => &[("replicas", Number(1))],
        "v1.ServiceSpec" => &[("sessionAffinity", Text("None")), ("type", Text("ClusterIP"))],
        _ => &[],
    }
}

fn apps(kind: &str) -> Table {
    match kind {
        "v1.DeploymentSpec" => &[
            ("replicas", Number(1)),
            ("revisionHistoryLimit", Number(10)),
            ("progressDeadlineSeconds", Number(600)),
        ],
        "v1.RollingUpdateDeployment" => &[("maxUnavailable", Text("25%")), ("maxSurge", Text("25%"))],
        "v1.DaemonSetSpec" => &[("revisionHistoryLimit", Number(10))],
        "v1.RollingUpdateDaemonSet" => &[("maxUnavailable", Number(1)), ("maxSurge", Number(0))],
        "v1.StatefulSetSpec" => &[
            ("podManagementPolicy", Text("OrderedReady")),
            ("persistentVolumeClaimRetentionPolicy", Empty),
            ("replicas", Number(1)),
            ("revisionHistoryLimit", Number(10)),
        ],
        "v1.StatefulSetPersistentVolumeClaimRetentionPolicy" => {
            &[("whenDeleted", Text("Retain")), ("whenScaled", Text("Retain"))]
        }
        "v1.ReplicaSetSpec" => &[("replicas", Number(1))],
        _ => &[],
    }
}

fn admission_registration(kind: &str) -> Table {
    match kind {
        "v1.ValidatingWebhook" => &[
            ("failurePolicy", Text("Fail")),
            ("matchPolicy", Text("Equivalent")),
            ("namespaceSelector", Empty),
            ("objectSelector", Empty),
            ("timeoutSeconds", Number(10)),
        ],
        "v1.MutatingWebhook" => &[
            ("failurePolicy", Text("Fail")),
            ("matchPolicy", Text("Equivalent")),
            ("namespaceSelector", Empty),
            ("objectSelector", Empty),
            ("timeoutSeconds", Number(10)),
            ("reinvocationPolicy", Text("Never")),
        ],
        "v1.Rule" | "v1.RuleWithOperations" | "v1.NamedRuleWithOperations" => &[("scope", Text("*"))],
        "v1.ServiceReference" => &[("port", Number(443))],
        "v1.ValidatingAdmissionPolicySpec" | "v1.MutatingAdmissionPolicySpec" => {
            &[("failurePolicy", Text("Fail"))]
        }
        "v1.MatchResources" => {
            &[("matchPolicy", Text("Equivalent")), ("namespaceSelector", Empty), ("objectSelector", Empty)]
        }
        _ => &[],
    }
}

fn others(name: &str) -> Table {
    match name {
        "batch.v1.CronJobSpec" => &[
            ("concurrencyPolicy", Text("Allow")),
            ("suspend", Flag(false)),
            ("successfulJobsHistoryLimit", Number(3)),
            ("failedJobsHistoryLimit", Number(1)),
        ],
        "batch.v1.PodFailurePolicyOnPodConditionsPattern" => &[("status", Text("True"))],
        "networking.v1.NetworkPolicyPort" => &[("protocol", Text("TCP"))],
        "networking.v1.IngressClassParametersReference" => &[("scope", Text("Cluster"))],
        "rbac.v1.RoleRef" => &[("apiGroup", Text("rbac.authorization.k8s.io"))],
        "autoscaling.v2.HorizontalPodAutoscalerSpec" | "autoscaling.v1.HorizontalPodAutoscalerSpec" => {
            &[("minReplicas", Number(1))]
        }
        "discovery.v1.EndpointPort" => &[("name", Text("")), ("protocol", Text("TCP"))],
        "storage.v1.StorageClass" => {
            &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))]
        }
        "storage.v1.CSIDriverSpec" => &[
            ("attachRequired", Flag(true)),
            ("podInfoOnMount", Flag(false)),
            ("storageCapacity", Flag(false)),
            ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
            ("requiresRepublish", Flag(false)),
            ("seLinuxMount", Flag(false)),
        ],
        "scheduling.v1.PriorityClass" => &[("preemptionPolicy", Text("PreemptLowerPriority"))],
        _ => &[],
    }
}

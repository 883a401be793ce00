//! Mistakes that harm another controller in the same cluster. Each is planted in one controller, or in two that fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use lockstep_bridge::names::BRIDGE_NAME;
use lockstep_crds::{bridge, dpuservice, namespaceclass};
use lockstep_dpuservice::names::{ARGO_NAMESPACE, CLUSTER_NAME};
use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest, Outcome, Request, Success};
use lockstep_engine::machine::{Event, Machine, Step};
use lockstep_engine::object::{Kind, ObjectRef, is_deleting, label, metadata};
use lockstep_namespaceclass::names::ADOPTION_POLICY_ANNOTATION;
use lockstep_sim::bugs::{Bug, Flaw, plant};
use lockstep_sim::history::reference;
use serde_json::{Value, json};

use super::common::{Extra, Ignores, Known, Secrets, change, is};
use crate::together::NAME;

const fn bug(
    name: &'static str,
    sentence: &'static str,
    plant: fn(Box<dyn Machine>) -> Box<dyn Machine>,
) -> Bug {
    Bug { name, sentence, controller: NAME, plant, garble: None }
}

pub(super) const BUGS: &[Bug] = &[
    bug(
        "treats_kubeconfigs_as_its_own",
        "When a DPUCluster is deleted, the DPUService controller deletes the kubeconfig that the Bridge has created.",
        |machine| within::<TakesKubeconfigs>(dpuservice::CONTROLLER, machine),
    ),
    bug(
        "ignores_kubeconfigs_of_bridges",
        "The DPUService controller uses only kubeconfigs that are named like their DPUCluster.",
        |machine| within::<IgnoresBridges>(dpuservice::CONTROLLER, machine),
    ),
    bug(
        "ignores_new_secrets",
        "The DPUService controller ignores Secrets that are created after it has started.",
        |machine| within::<Ignores<Secrets>>(dpuservice::CONTROLLER, machine),
    ),
    bug(
        "treats_disconnected_as_deleted",
        "The DPUService controller treats a DPUCluster without a kubeconfig as deleted.",
        |machine| within::<DisconnectedIsDeleted>(dpuservice::CONTROLLER, machine),
    ),
    bug(
        "services_wait_for_bridges",
        "A deleted service keeps its finalizer as long as a bridge has connected a DPUCluster.",
        |machine| within::<ServicesWait>(dpuservice::CONTROLLER, machine),
    ),
    bug(
        "bridges_wait_for_dpuclusters",
        "A deleted bridge keeps its finalizer as long as its DPUCluster exists.",
        |machine| within::<BridgesWait>(bridge::CONTROLLER, machine),
    ),
    bug(
        "removes_other_kubeconfigs",
        "With a bridge, the Bridge deletes the kubeconfigs of all DPUClusters in the namespace.",
        |machine| within::<RemovesOthers>(bridge::CONTROLLER, machine),
    ),
    bug(
        "injects_once",
        "The Bridge gives its kubeconfig to a DPUCluster of one name only once.",
        |machine| within::<InjectsOnce>(bridge::CONTROLLER, machine),
    ),
    bug(
        "caches_without_the_kind",
        "The Bridge's cache of objects has keys of namespace and name, without the kind.",
        |machine| within::<CachesByName>(bridge::CONTROLLER, machine),
    ),
    bug(
        "deletes_what_it_adopted",
        "The NamespaceClass operator deletes adopted objects of other controllers.",
        |machine| within::<DeletesAdopted>(namespaceclass::CONTROLLER, machine),
    ),
    bug(
        "replaces_labels",
        "The NamespaceClass operator replaces a label by which the Bridge finds its Secrets.",
        |machine| within::<ReplacesLabels>(namespaceclass::CONTROLLER, machine),
    ),
    bug(
        "answers_each_other",
        "The Bridge and the DPUService controller both write the version of the other's Secret into their own.",
        |machine| match machine.name() {
            bridge::CONTROLLER => plant::<Answers<BridgeSide>>(machine),
            dpuservice::CONTROLLER => plant::<Answers<ServiceSide>>(machine),
            _ => machine,
        },
    ),
    bug(
        "shares_a_lease",
        "All controllers use a Lease of the same name, so that only one of them leads.",
        plant::<SharesLease>,
    ),
];

/// Plants a flaw in the machine of one controller.
fn within<F: Flaw + 'static>(controller: &str, machine: Box<dyn Machine>) -> Box<dyn Machine> {
    if machine.name() == controller { plant::<F>(machine) } else { machine }
}

/// Returns whether a DPUCluster has the kubeconfig of a bridge.
fn is_connected_by_bridge(cluster: &Value) -> bool {
    cluster["spec"]["kubeconfig"].as_str().is_some_and(|name| name.ends_with("-dpucluster-kubeconfig"))
}

fn denied() -> Outcome {
    Err(Failure::new(ErrorKind::Conflict, "something still exists"))
}

/// Returns whether a request removes finalizers of an object of this kind.
fn removes_finalizer(request: &Request, kind: &str) -> bool {
    let Action::Kube(KubeRequest::Patch { target, subresource: None, patch }) = &request.action else {
        return false;
    };
    target.kind.kind == kind && patch["metadata"]["finalizers"].as_array().is_some_and(Vec::is_empty)
}

#[derive(Default)]
struct TakesKubeconfigs {
    known: Known,
    deleted: Option<String>,
}

impl Flaw for TakesKubeconfigs {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Some((_, cluster)) = self.known.absorb(&event, "DPUCluster")
            && is_deleting(&cluster)
            && is_connected_by_bridge(&cluster)
        {
            self.deleted = cluster["spec"]["kubeconfig"].as_str().map(str::to_owned);
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if let Some(name) = self.deleted.take() {
            self.known.remove(step, "Secret", |secret| metadata(secret, "name") == name);
        }
    }
}

#[derive(Default)]
struct IgnoresBridges;

impl Flaw for IgnoresBridges {
    fn event(&mut self, event: Event) -> Option<Event> {
        let Event::Applied { kind, object } = event else { return Some(event) };
        let mut object = Value::clone(&object);
        if kind.kind == "DPUCluster" && is_connected_by_bridge(&object) {
            object["spec"]["kubeconfig"] = Value::Null;
        }
        Some(Event::Applied { kind, object: Arc::new(object) })
    }
}

#[derive(Default)]
struct DisconnectedIsDeleted(BTreeSet<ObjectRef>);

impl Flaw for DisconnectedIsDeleted {
    fn event(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Applied { kind, object }
                if kind.kind == "DPUCluster" && !object["spec"]["kubeconfig"].is_string() =>
            {
                let was_known = self.0.remove(&reference(&kind, &object));
                was_known.then_some(Event::Deleted { kind, object })
            }
            Event::Applied { kind, object } => {
                self.0.insert(reference(&kind, &object));
                Some(Event::Applied { kind, object })
            }
            event => Some(event),
        }
    }

    /// Without a live read, the cluster counts as gone as well.
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let is_gone = is(&request.action, "get", "DPUCluster")
            && request.action.target().is_some_and(|target| !self.0.contains(target));
        is_gone.then(|| Err(Failure::new(ErrorKind::NotFound, "not found")))
    }
}

#[derive(Default)]
struct ServicesWait(Known);

impl Flaw for ServicesWait {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.0.absorb(&event, "");
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let mut objects = self.0.objects.iter();
        let is_connected = objects
            .any(|(target, object)| target.kind.kind == "DPUCluster" && is_connected_by_bridge(object));
        (removes_finalizer(request, "DPUService") && is_connected).then(denied)
    }
}

#[derive(Default)]
struct BridgesWait(Known);

impl Flaw for BridgesWait {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.0.absorb(&event, "");
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let bridge = self.0.objects.get(request.action.target()?)?;
        let name = bridge["spec"]["dpuClusterRef"]["name"].as_str()?;
        let mut objects = self.0.objects.keys();
        let exists = objects.any(|target| target.kind.kind == "DPUCluster" && target.name == name);
        (removes_finalizer(request, "DPFHCPBridge") && exists).then(denied)
    }
}

#[derive(Default)]
struct RemovesOthers {
    known: Known,
    is_due: bool,
}

impl Flaw for RemovesOthers {
    fn event(&mut self, event: Event) -> Option<Event> {
        let bridge = self.known.absorb(&event, "DPFHCPBridge");
        self.is_due |= bridge.is_some_and(|(_, bridge)| is_deleting(&bridge));
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if std::mem::take(&mut self.is_due) {
            let is_kubeconfig = |secret: &Value| {
                metadata(secret, "namespace") == "dpf" && metadata(secret, "name").ends_with("-kubeconfig")
            };
            self.known.remove(step, "Secret", is_kubeconfig);
        }
    }
}

#[derive(Default)]
struct InjectsOnce(BTreeMap<ObjectRef, Option<Arc<Value>>>);

impl Flaw for InjectsOnce {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Applied { kind, object } = &event
            && let Some(known) = self.0.get_mut(&reference(kind, object))
        {
            *known = Some(Arc::clone(object));
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Patch { target, patch, .. }) = &request.action else { return None };
        if target.kind.kind != "DPUCluster" || !patch["spec"]["kubeconfig"].is_string() {
            return None;
        }
        let known = self.0.entry(target.clone()).or_default();
        known.clone().map(|object| Ok(Success::Object(object)))
    }
}

#[derive(Default)]
struct CachesByName(BTreeMap<(Option<String>, String), Arc<Value>>);

impl Flaw for CachesByName {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Applied { kind, object } = &event {
            let target = reference(kind, object);
            self.0.insert((target.namespace, target.name), Arc::clone(object));
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Get { target, .. }) = &request.action else { return None };
        let cached = self.0.get(&(target.namespace.clone(), target.name.clone()))?;
        Some(Ok(Success::Object(Arc::clone(cached))))
    }
}

#[derive(Default)]
struct DeletesAdopted;

impl Flaw for DeletesAdopted {
    fn event(&mut self, event: Event) -> Option<Event> {
        let Event::Applied { kind, object } = event else { return Some(event) };
        let mut object = Value::clone(&object);
        if kind.kind == "NamespaceClass" {
            for resource in object["spec"]["resources"].as_array_mut().into_iter().flatten() {
                resource["metadata"]["annotations"][ADOPTION_POLICY_ANNOTATION] = json!("Delete");
            }
        }
        Some(Event::Applied { kind, object: Arc::new(object) })
    }
}

#[derive(Default)]
struct ReplacesLabels;

impl Flaw for ReplacesLabels {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "Secret", |manifest| {
            manifest["metadata"]["labels"][BRIDGE_NAME] = json!("none");
        });
        None
    }
}

/// One of two controllers that write the version of the other's Secrets into their own.
trait Side {
    /// The label of its own Secrets, and of those of the other controller.
    const LABELS: [&'static str; 2];
}

struct BridgeSide;

impl Side for BridgeSide {
    const LABELS: [&'static str; 2] = [BRIDGE_NAME, CLUSTER_NAME];
}

struct ServiceSide;

impl Side for ServiceSide {
    const LABELS: [&'static str; 2] = [CLUSTER_NAME, BRIDGE_NAME];
}

struct Answers<S> {
    known: Known,
    version: Option<String>,
    side: PhantomData<S>,
}

impl<S> Default for Answers<S> {
    fn default() -> Self {
        Self { known: Known::default(), version: None, side: PhantomData }
    }
}

/// Returns whether a Secret connects a DPUCluster, and has this label.
fn connects(secret: &Value, of: &str) -> bool {
    ["dpf", ARGO_NAMESPACE].contains(&metadata(secret, "namespace")) && label(secret, of).is_some()
}

impl<S: Side> Flaw for Answers<S> {
    fn event(&mut self, event: Event) -> Option<Event> {
        let [_, theirs] = S::LABELS;
        let secret = self.known.absorb(&event, "Secret").filter(|(_, secret)| connects(secret, theirs));
        if let Some((_, secret)) = secret {
            self.version = Some(metadata(&secret, "resourceVersion").to_owned());
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        let Some(version) = self.version.take() else { return };
        let [ours, _] = S::LABELS;
        let patch = Arc::new(json!({ "metadata": { "annotations": { "example.com/answers": version } } }));
        let own = self.known.objects.iter();
        let own = own.filter(|(target, object)| target.kind.kind == "Secret" && connects(object, ours));
        let own: Vec<ObjectRef> = own.map(|(target, _)| target.clone()).collect();
        for target in own {
            let action =
                Action::Kube(KubeRequest::Patch { target, subresource: None, patch: Arc::clone(&patch) });
            self.known.extra.ask(step, action);
        }
    }
}

/// Leads only after it has created a Lease.
#[derive(Default)]
struct SharesLease {
    /// The event that waits for the Lease.
    leads: Option<Event>,
    wants: bool,
    extra: Extra,
}

impl SharesLease {
    fn lease() -> ObjectRef {
        let kind = Kind::known("coordination.k8s.io", "v1", "Lease", "leases", true);
        ObjectRef::namespaced(&kind, "default", "lockstep")
    }
}

impl Flaw for SharesLease {
    fn event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::LeadershipChanged { leading: true } => {
                (self.leads, self.wants) = (Some(event), true);
                None
            }
            Event::Finished { id, outcome } if self.extra.has_asked(*id) => match outcome {
                Ok(_) => self.leads.take(),
                Err(_) => None,
            },
            _ => Some(event),
        }
    }

    fn step(&mut self, step: &mut Step) {
        if std::mem::take(&mut self.wants) {
            let (target, manifest) = (Self::lease(), Arc::new(json!({ "spec": {} })));
            self.extra.ask(step, Action::Kube(KubeRequest::Create { target, manifest }));
        }
    }
}

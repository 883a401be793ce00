//! Mistakes that a DPUService controller could make.

use std::sync::Arc;

use lockstep_dpuservice::names::{CLUSTER, CLUSTER_NAME, FINALIZER, SERVICE_NAME};
use lockstep_engine::action::{Action, KubeRequest, Outcome, Request, Success};
use lockstep_engine::finalizer;
use lockstep_engine::machine::{Event, Machine, Step};
use lockstep_engine::object::{annotation, is_deleting, label, metadata};
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::{Value, json};

use self::argocd::{EndsEverySync, EndsSyncsSilently, FollowsLooks, GivesSyncsUp, NamesNoHook};
use self::others::{KeepsReleased, KeepsSecretsInConflicts};
use self::watches::{EmptiesRollout, Freezes, WaitsForUnserved};
use super::common::{
    Asked, DpuClusters, Ignores, Known, LogsSecrets, NoFinalizer, Secrets, Unheard, change, decoded, is,
};
use super::requests::{StatusAlways, TimesMove};

mod argocd;
mod others;
mod watches;

const fn bug(
    name: &'static str,
    sentence: &'static str,
    plant: fn(Box<dyn Machine>) -> Box<dyn Machine>,
) -> Bug {
    Bug { name, sentence, controller: lockstep_crds::dpuservice::CONTROLLER, plant, garble: None }
}

pub(super) const BUGS: &[Bug] = &[
    bug(
        "overwrites_applications",
        "An Application is applied over any object of that name, without an ownership check.",
        plant::<TakesOver>,
    ),
    bug(
        "deploys_without_the_finalizer",
        "Applications are created without the finalizer.",
        plant::<NoFinalizer>,
    ),
    bug(
        "removes_the_finalizer_at_once",
        "The finalizer of a deleted service is removed before its Applications.",
        plant::<LetsGo>,
    ),
    bug(
        "deletes_applications_of_unready_clusters",
        "A cluster that is not ready loses its Applications.",
        plant::<GivesUp>,
    ),
    bug(
        "secret_before_applications",
        "Argo CD's Secret is removed as soon as its cluster is deleted.",
        plant::<SecretFirst>,
    ),
    bug(
        "project_before_applications",
        "The AppProject is removed as soon as a service is deleted.",
        plant::<ProjectFirst>,
    ),
    bug("permits_too_little", "The AppProject does not permit the last cluster.", plant::<PermitsTooLittle>),
    bug(
        "writes_one_server",
        "Argo CD's Secrets all name the server of the first cluster.",
        plant::<NamesOneServer>,
    ),
    bug(
        "treats_failures_as_success",
        "A failed write of an Application counts as written.",
        plant::<FailuresAreDone>,
    ),
    bug("knows_one_server", "Every Application uses the server of the first one.", plant::<OneServer>),
    bug("never_syncs", "Applications have no sync policy.", plant::<NeverSyncs>),
    bug(
        "gives_syncs_up",
        "Applications do not request that Argo CD retries a failed sync without end.",
        plant::<GivesSyncsUp>,
    ),
    bug("owns_secrets", "Argo CD's Secrets are owned by a service of another namespace.", plant::<Owns>),
    bug("logs_credentials", "The data of Secrets that are read is logged.", plant::<LogsSecrets>),
    bug("annotates_credentials", "Credentials are written to Applications.", plant::<Annotates>),
    bug("keeps_applications", "Applications of deleted clusters are kept.", plant::<LeavesApplications>),
    bug("keeps_secrets", "Argo CD's Secrets are never removed.", plant::<LeavesSecrets>),
    bug(
        "keeps_second_secrets",
        "A cluster with two of Argo CD's Secrets keeps both.",
        plant::<KeepsSecondSecrets>,
    ),
    bug(
        "keeps_second_secrets_in_conflicts",
        "A cluster with two of Argo CD's Secrets keeps both while another cluster has the server of its kubeconfig.",
        plant::<KeepsSecretsInConflicts>,
    ),
    bug(
        "keeps_released_applications",
        "Answers that show an Application without its identity are ignored.",
        plant::<KeepsReleased>,
    ),
    bug("ignores_kubeconfigs", "Rotated credentials are ignored.", plant::<Ignores<Secrets>>),
    bug("ignores_clusters", "New and deleted clusters are ignored.", plant::<Ignores<DpuClusters>>),
    bug("ignores_argocd_events", "Status changes from Argo CD are ignored.", plant::<Ignores<Applications>>),
    bug(
        "healthy_before_the_first_comparison",
        "An Application that Argo CD has not compared yet counts as synced and healthy.",
        plant::<ReadyTooEarly>,
    ),
    bug(
        "ignores_hooks",
        "A service is Ready although a hook has failed, because the operation is ignored.",
        plant::<OverlooksHooks>,
    ),
    bug(
        "names_no_hook",
        "The results of a sync are ignored, so that no status names a hook.",
        plant::<NamesNoHook>,
    ),
    bug(
        "terminates_every_sync",
        "Every sync is terminated as soon as it is observed.",
        plant::<EndsEverySync>,
    ),
    bug("terminates_syncs_silently", "No Event says that a sync was terminated.", plant::<EndsSyncsSilently>),
    bug(
        "writes_every_comparison_time",
        "The time of each comparison by Argo CD is written to the status.",
        plant::<FollowsLooks>,
    ),
    bug(
        "freezes_while_a_kind_is_refused",
        "While a kind can't be watched, no status is written.",
        plant::<Freezes>,
    ),
    bug(
        "empties_the_rollout",
        "While DPUClusters or Applications can't be watched, the rollout is 0/0.",
        plant::<EmptiesRollout>,
    ),
    bug(
        "waits_for_unserved_clusters",
        "If DPUClusters are not served, those that existed are treated as existing, and a deletion waits for them.",
        plant::<WaitsForUnserved>,
    ),
    bug("writes_every_status", "The status is written even if it has not changed.", plant::<StatusAlways>),
    bug(
        "moves_transition_times_of_services",
        "lastTransitionTime is set at every write.",
        plant::<TimesMove>,
    ),
];

#[derive(Default)]
struct TakesOver;

impl Flaw for TakesOver {
    fn event(&mut self, event: Event) -> Option<Event> {
        let is_theirs = match &event {
            Event::Applied { kind, object } => {
                kind.kind == "Application" && label(object, SERVICE_NAME).is_none()
            }
            _ => false,
        };
        (!is_theirs).then_some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::Create { target, manifest }) = &request.action
            && target.kind.kind == "Application"
        {
            request.action =
                Action::Kube(KubeRequest::Apply { target: target.clone(), manifest: Arc::clone(manifest) });
        }
        None
    }
}

#[derive(Default)]
struct LetsGo {
    known: Known,
    leaving: Option<Action>,
}

impl Flaw for LetsGo {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Some((target, service)) = self.known.absorb(&event, "DPUService")
            && is_deleting(&service)
        {
            self.leaving = finalizer::remove(&target, &service, FINALIZER);
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if let Some(leave) = self.leaving.take() {
            self.known.extra.ask(step, leave);
        }
    }
}

/// Removes the objects of a cluster too early.
#[derive(Default)]
struct Eager {
    known: Known,
    given_up: Option<String>,
}

impl Eager {
    /// Marks the cluster of an event as removed, if it matches.
    fn hear(&mut self, event: &Event, is_so: impl Fn(&Value) -> bool) {
        if let Some((target, cluster)) = self.known.absorb(event, "DPUCluster")
            && is_so(&cluster)
        {
            self.given_up = Some(target.name);
        }
    }

    /// Removes the objects of a kind that were created for it.
    fn remove(&mut self, step: &mut Step, kind: &str) {
        if let Some(cluster) = self.given_up.take() {
            self.known.remove(step, kind, |object| label(object, CLUSTER_NAME) == Some(&cluster));
        }
    }
}

#[derive(Default)]
struct GivesUp(Eager);

impl Flaw for GivesUp {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.0.hear(&event, |cluster| cluster["status"]["phase"] == "NotReady");
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        self.0.remove(step, "Application");
    }
}

#[derive(Default)]
struct SecretFirst(Eager);

impl Flaw for SecretFirst {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.0.hear(&event, is_deleting);
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        self.0.remove(step, "Secret");
    }
}

#[derive(Default)]
struct ProjectFirst {
    known: Known,
    is_due: bool,
}

impl Flaw for ProjectFirst {
    fn event(&mut self, event: Event) -> Option<Event> {
        let service = self.known.absorb(&event, "DPUService");
        self.is_due |= service.is_some_and(|(_, service)| is_deleting(&service));
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        if std::mem::take(&mut self.is_due) {
            self.known.remove(step, "AppProject", |_| true);
        }
    }
}

#[derive(Default)]
struct PermitsTooLittle;

impl Flaw for PermitsTooLittle {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "AppProject", |manifest| {
            manifest["spec"]["destinations"].as_array_mut().map(Vec::pop);
        });
        None
    }
}

#[derive(Default)]
struct OneServer(Option<Value>);

impl Flaw for OneServer {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "Application", |manifest| {
            let server = &mut manifest["spec"]["destination"]["server"];
            *server = self.0.get_or_insert_with(|| server.clone()).clone();
        });
        None
    }
}

#[derive(Default)]
struct NamesOneServer(Option<Value>);

impl Flaw for NamesOneServer {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "Secret", |manifest| {
            let server = &mut manifest["data"]["server"];
            *server = self.0.get_or_insert_with(|| server.clone()).clone();
        });
        None
    }
}

#[derive(Default)]
struct FailuresAreDone {
    asked: Asked,
    known: Known,
}

impl FailuresAreDone {
    /// Returns the known object of an apply, as the apply would have left it.
    fn applied(&self, action: &Action) -> Option<Value> {
        let Action::Kube(KubeRequest::Apply { target, manifest }) = action else { return None };
        let mut object = Value::clone(self.known.objects.get(target)?);
        object["spec"] = manifest["spec"].clone();
        for field in ["labels", "annotations"] {
            for (name, value) in manifest["metadata"][field].as_object().into_iter().flatten() {
                object["metadata"][field][name] = value.clone();
            }
        }
        let version: u64 = metadata(&object, "resourceVersion").parse().ok()?;
        object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        Some(object)
    }
}

impl Flaw for FailuresAreDone {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.known.absorb(&event, "");
        let asked = self.asked.answered(&event);
        let applied = asked.filter(|action| is(action, "apply", "Application"));
        let object = applied.and_then(|action| self.applied(&action));
        Some(match (event, object) {
            (Event::Finished { id, outcome: Err(_) }, Some(object)) => {
                Event::Finished { id, outcome: Ok(Success::Object(Arc::new(object))) }
            }
            (event, _) => event,
        })
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.asked.note(request);
        None
    }
}

#[derive(Default)]
struct NeverSyncs;

impl Flaw for NeverSyncs {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "Application", |manifest| {
            manifest["spec"].as_object_mut().map(|spec| spec.remove("syncPolicy"));
        });
        None
    }
}

#[derive(Default)]
struct Owns {
    known: Known,
}

impl Flaw for Owns {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.known.absorb(&event, "DPUService");
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let mut services = self.known.objects.iter().filter(|(target, _)| target.kind.kind == "DPUService");
        let owner = services.next().map(|(target, service)| {
            json!({
                "apiVersion": target.kind.api_version(),
                "kind": target.kind.kind,
                "name": target.name,
                "uid": metadata(service, "uid"),
            })
        });
        change(request, "Secret", |manifest| manifest["metadata"]["ownerReferences"] = json!([owner]));
        None
    }
}

#[derive(Default)]
struct Annotates(Option<String>);

impl Flaw for Annotates {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        change(request, "Secret", |manifest| {
            self.0 = manifest["data"]["config"].as_str().map(decoded);
        });
        let config = self.0.clone().unwrap_or_default();
        change(request, "Application", |manifest| {
            manifest["metadata"]["annotations"]["config"] = config.into();
        });
        None
    }
}

/// The service remains, so the removal of the cluster is the cause.
#[derive(Default)]
struct LeavesApplications {
    known: Known,
}

impl Flaw for LeavesApplications {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.known.absorb(&event, "");
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if !is(&request.action, "delete", "Application") {
            return None;
        }
        let application = self.known.objects.get(request.action.target()?)?;
        let service = annotation(application, "dpu.nvidia.com/dpu-service")?;
        let stays = self.known.objects.iter().any(|(target, object)| {
            let name = format!("{}/{}", metadata(object, "namespace"), metadata(object, "name"));
            target.kind.kind == "DPUService" && name == service && !is_deleting(object)
        });
        // If it counted as gone, two reconciles would remove and find it without end.
        stays.then(|| Ok(Success::Object(Arc::clone(application))))
    }
}

#[derive(Default)]
struct LeavesSecrets;

impl Flaw for LeavesSecrets {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "delete", "Secret").then_some(Ok(Success::Done))
    }
}

#[derive(Default)]
struct KeepsSecondSecrets(Known);

impl Flaw for KeepsSecondSecrets {
    fn event(&mut self, event: Event) -> Option<Event> {
        self.0.absorb(&event, "Secret");
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let target = request.action.target().filter(|_| is(&request.action, "delete", "Secret"))?;
        let cluster = annotation(self.0.objects.get(target)?, CLUSTER);
        let mut others =
            self.0.objects.iter().filter(|(other, _)| other.kind.kind == "Secret" && *other != target);
        others.any(|(_, secret)| annotation(secret, CLUSTER) == cluster).then_some(Ok(Success::Done))
    }
}

struct Applications;

impl Unheard for Applications {
    const KIND: &'static str = "Application";
}

#[derive(Default)]
struct ReadyTooEarly;

impl Flaw for ReadyTooEarly {
    fn event(&mut self, event: Event) -> Option<Event> {
        let Event::Applied { kind, object } = event else { return Some(event) };
        if kind.kind != "Application" {
            return Some(Event::Applied { kind, object });
        }
        let mut object = Value::clone(&object);
        object["status"] = json!({ "sync": { "status": "Synced" }, "health": { "status": "Healthy" } });
        Some(Event::Applied { kind, object: Arc::new(object) })
    }
}

#[derive(Default)]
struct OverlooksHooks;

impl Flaw for OverlooksHooks {
    fn event(&mut self, event: Event) -> Option<Event> {
        let Event::Applied { kind, object } = event else { return Some(event) };
        let mut object = Value::clone(&object);
        if kind.kind == "Application" {
            object["status"].as_object_mut().map(|status| status.remove("operationState"));
        }
        Some(Event::Applied { kind, object: Arc::new(object) })
    }
}

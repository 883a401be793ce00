//! Compares an Application with the release on its cluster.

use lockstep_engine::digest::digest;
use lockstep_engine::object::{ObjectRef, is_deleting};
use serde_json::{Value, json};

use super::destination::{Cache, Destination};
use super::model::Charts;
use super::{project, repo_server};
use crate::dpu_clusters::{Kubeconfigs, release};
use crate::read_view::ReadView;

/// The result of a comparison.
#[derive(Debug)]
pub(super) enum Compared<'a> {
    /// The Application's spec is invalid.
    Invalid(Vec<String>),
    /// The target state or the live state is unknown.
    Failed(Vec<String>),
    /// Both are known.
    Done(Found<'a>),
}

/// The live state at the destination of an Application.
#[derive(Debug, Clone)]
pub(super) struct Found<'a> {
    pub(super) cluster: &'a Value,
    pub(super) target: ObjectRef,
    /// The target state.
    pub(super) wanted: Value,
    /// The live object, even if it is being deleted.
    pub(super) object: Option<&'a Value>,
    /// Why the cluster is unreachable, if the live state comes from the cache.
    pub(super) out_of_reach: Option<String>,
}

impl<'a> Found<'a> {
    /// Returns the live object, unless it is being deleted.
    pub(super) fn live(&self) -> Option<&'a Value> {
        self.object.filter(|object| !is_deleting(object))
    }

    /// Returns whether the live state matches the target state.
    pub(super) fn is_synced(&self) -> bool {
        self.live().is_some_and(|live| release::is(live, &self.wanted))
    }

    /// Returns the only object of its chart.
    pub(super) fn resource(&self) -> Value {
        json!({
            "group": "apps",
            "version": "v1",
            "kind": "DaemonSet",
            "namespace": self.wanted["namespace"],
            "name": self.wanted["release"],
        })
    }
}

/// A placeholder for a name that is different each time: Argo CD loads charts into folders with random names.
const SCRATCH: &str = "<scratch>";

/// Returns a message with the placeholder filled in for this time.
pub(super) fn written(message: &str, at: &Value) -> String {
    let random = format!("{}{}", digest(at), digest(&json!([at])));
    let uuid = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &random[group]);
    message.replace(SCRATCH, &uuid.join("-"))
}

/// Compares the target state with the live state.
pub(super) fn compare<'a>(
    look: &mut ReadView<'a>,
    application: &Value,
    destination: &Result<Destination<'a>, String>,
    charts: Option<&Charts>,
    kubeconfigs: &mut Kubeconfigs,
    cache: &mut Cache,
) -> Compared<'a> {
    let destination = match judge(look, application, destination) {
        Ok(destination) => destination,
        Err(wrong) => return Compared::Invalid(wrong),
    };
    let mut failures = Vec::new();
    let source = &application["spec"]["source"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let chart = (text(&source["repoURL"]), text(&source["chart"]));
    let is_missing =
        source["targetRevision"] == release::MISSING || charts.is_some_and(|charts| !charts.contains(&chart));
    let reached = destination.look_up(look, kubeconfigs, cache);
    if let Err(why) = &reached {
        // The manifests of a chart depend on the version of the cluster.
        failures.push(format!("Failed to load target state: {why}"));
    } else if repo_server::is_down(look) {
        failures.push(format!("Failed to load target state: {}", repo_server::REFUSED));
    } else if is_missing {
        failures.push(format!(
            "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: code = Unknown desc = \
             failed to fetch chart: `helm pull --destination /tmp/{SCRATCH} --version {} {}` failed exit status 1: \
             Error: chart {} version {} not found in {} repository",
            text(&source["targetRevision"]), text(&source["chart"]), source["chart"], source["targetRevision"], source["repoURL"]
        ));
    }
    let (cluster, out_of_reach) = match reached {
        Ok(reached) if failures.is_empty() => reached,
        Ok(_) => return Compared::Failed(failures),
        Err(why) => {
            failures.push(format!("Failed to load live state: {why}"));
            return Compared::Failed(failures);
        }
    };
    let wanted = release::data(application);
    let target = release::name(cluster, &text(&wanted["namespace"]), &text(&wanted["release"]));
    let object = look.get(&target);
    Compared::Done(Found { cluster, target, wanted, object, out_of_reach })
}

/// Returns the destination of an Application, or all errors in its spec.
fn judge<'d, 'a>(
    look: &ReadView<'a>,
    application: &Value,
    destination: &'d Result<Destination<'a>, String>,
) -> Result<&'d Destination<'a>, Vec<String>> {
    let spec = &application["spec"];
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&spec["project"]);
    let Some(project) = project::of(look, application) else {
        return Err(vec![format!("Application referencing project {name} which does not exist")]);
    };
    let (repository, chart) = (text(&spec["source"]["repoURL"]), text(&spec["source"]["chart"]));
    if repository.is_empty() || chart.is_empty() {
        return Err(vec![
            "spec.source.repoURL and either spec.source.path or spec.source.chart are required".to_owned(),
        ]);
    }
    if text(&spec["source"]["targetRevision"]).is_empty() {
        let wrong = "spec.source.targetRevision is required if the manifest source is a helm chart";
        return Err(vec![wrong.to_owned()]);
    }
    let mut wrong = Vec::new();
    if !project::permits_source(project, &repository) {
        wrong.push(format!("application repo {repository} is not permitted in project '{name}'"));
    }
    let namespace = text(&spec["destination"]["namespace"]);
    match destination {
        Err(problem) => wrong.push(problem.clone()),
        Ok(found) if !project::permits_destination(project, found, &namespace) => wrong.push(format!(
            "application destination server '{}' and namespace '{namespace}' do not match any of the allowed \
             destinations in project '{name}'",
            found.server
        )),
        Ok(found) if wrong.is_empty() => return Ok(found),
        Ok(_) => {}
    }
    Err(wrong)
}

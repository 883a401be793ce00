//! Lists Applications from the server: the absence of an object from a cache proves nothing.

use lockstep_engine::action::{Action, Answer as _, Failure, KubeRequest, Outcome, Scope};
use lockstep_engine::object::Name;
use lockstep_engine::scheduler::Verdict;

use crate::model::application::App;
use crate::model::owner::label_value;
use crate::names::{self, ARGO_NAMESPACE};
use crate::source::Source;
use crate::store::Store;

/// Returns the selector for the objects of a service, or of a cluster, by the labels with its namespace and name.
pub(super) fn selector([namespace, name]: [&str; 2], of: &Name) -> String {
    format!("{namespace}={},{name}={}", label_value(&of.namespace), label_value(&of.name))
}

/// Returns the action that lists Applications from the server: their metadata, or all of them.
pub(super) fn survey(selector: String, metadata_only: bool) -> Action {
    let namespace = Some(ARGO_NAMESPACE.to_owned());
    let scope = Scope { namespace, selector, metadata_only, ..Scope::default() };
    Action::Kube(KubeRequest::List { kind: names::application(), scope })
}

/// Returns the Applications in the answer to a list; an empty list if the kind is known not to be served.
pub(super) fn surveyed(store: &Store, outcome: Outcome) -> Result<Vec<(Name, App)>, Failure> {
    match outcome.objects() {
        Ok(objects) => {
            Ok(objects.iter().filter_map(|object| Some((Name::of(object), App::read(object)?))).collect())
        }
        Err(failure) if store.is_known_absence(Source::Applications, &failure) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

/// As [`surveyed`]; the error is the verdict with which a pass ends.
pub(super) fn surveyed_or_end(store: &Store, outcome: Outcome) -> Result<Vec<(Name, App)>, Verdict> {
    surveyed(store, outcome).map_err(|failure| Verdict::retry("listing Applications", &failure))
}

//! The watch of the bridges themselves, once it is refused.

use std::time::Duration;

use lockstep_bridge::names;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::machine::Note;
use lockstep_engine::object::Kind;
use lockstep_sim::cluster::FaultModel;
use serde_json::json;

use super::bench::Bench;
use super::objects::{NAMESPACE, UPGRADE, bridge, ssh_secret};

/// Revokes the permission to watch bridges, until that is reported.
fn forbid(bench: &mut Bench) {
    bench.cluster.permit_watches(&names::bridge(), false);
    bench.cluster.advance(Duration::from_mins(1));
}

/// Returns what bridges report then.
fn why() -> String {
    let kind = names::bridge();
    format!(
        "DPFHCPBridges can't be watched ({kind} can't be listed), so changes of this DPFHCPBridge are not noticed; grant the \
         operator list and watch on dpfhcpbridges"
    )
}

#[test]
fn bridges_that_may_not_be_watched_any_more_report_it_once_and_until_they_may() {
    let mut bench = Bench::ready();
    // Two refusals may come from one server that is starting.
    bench.cluster.permit_watches(&names::bridge(), false);
    bench.cluster.advance(Duration::from_millis(1500));
    bench.cluster.permit_watches(&names::bridge(), true);
    bench.settle();
    assert_eq!(bench.transitions(), "");

    forbid(&mut bench);
    let reported = |state: &str| (state.to_owned(), why());
    assert_eq!(bench.condition("prod", "PrerequisitesMet"), reported("False/WaitingForPrerequisites"));
    assert_eq!(bench.condition("prod", "SpecApplied"), reported("Unknown/WatchFailed"));
    // The cluster is still watched.
    assert_eq!(bench.condition("prod", "Ready").0, "True/ClusterReady");
    assert_eq!(bench.phase("prod"), "Ready");
    let event = format!("Warning WaitingForPrerequisites: {}", why());
    assert_eq!(bench.events().matches(&event).count(), 1, "{}", bench.events());
    bench.transitions();
    let is_warning = |note: &&Note| matches!(note, Note::ConditionChanged { warning: true, message, .. } if *message == why());
    assert_eq!(bench.notes.iter().filter(is_warning).count(), 1);

    bench.cluster.advance(Duration::from_mins(30));
    assert_eq!(bench.cluster.carried().count(), 0);
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.cluster.permit_watches(&names::bridge(), true);
    bench.settle();
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "True/AllMet");
    assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied");
    let image = bench.get("HostedCluster", NAMESPACE, "prod")["spec"]["release"]["image"].clone();
    assert_eq!(image, UPGRADE, "changes are noticed again");
}

/// Some of its fields could not be corrected later.
#[test]
fn no_cluster_is_created_from_a_spec_that_may_have_changed() {
    let mut bench = Bench::new();
    bench.delete("Secret", NAMESPACE, "ssh");
    bench.create(&bridge("prod"));
    bench.settle();
    forbid(&mut bench);
    bench.create(&ssh_secret());
    bench.cluster.advance(Duration::from_mins(3));
    assert!(bench.get("HostedCluster", NAMESPACE, "prod").is_null());
    assert_eq!(bench.condition("prod", "Ready"), ("False/ValidationFailed".to_owned(), why()));
    assert_eq!(bench.phase("prod"), "Pending");
    bench.cluster.permit_watches(&names::bridge(), true);
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn a_spec_that_cannot_be_read_hides_no_refused_watch() {
    let mut bench = Bench::new();
    bench.admit_anything();
    let mut wrong = bridge("prod");
    wrong["spec"]["baseDomain"] = json!(1);
    bench.create(&wrong);
    bench.settle();
    forbid(&mut bench);
    let (found, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(found, "False/InvalidInput");
    assert!(message.contains("does not match the CRD") && message.ends_with(&why()), "{message}");
}

/// Bridges can't be listed.
struct Unlistable(ErrorKind);

impl FaultModel for Unlistable {
    fn refuses_list(&mut self, _: Duration, _: usize, kind: &Kind) -> Option<Failure> {
        (kind.kind == "DPFHCPBridge").then(|| Failure::new(self.0, "injected"))
    }
}

#[test]
fn only_refusals_that_last_until_an_admin_acts_are_reported() {
    for class in ErrorKind::ALL {
        let mut bench = Bench::ready();
        bench.cluster.weather = Box::new(Unlistable(class));
        bench.cluster.cut_watches(bench.operator, Some(&names::bridge()));
        bench.cluster.advance(Duration::from_mins(3));
        let (found, _) = bench.condition("prod", "SpecApplied");
        let is_reported = matches!(class, ErrorKind::Forbidden | ErrorKind::Invalid);
        assert_eq!(found, if is_reported { "Unknown/WatchFailed" } else { "True/Applied" }, "{class}");
    }
}

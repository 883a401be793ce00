use serde_json::{Value, json};

use super::*;
use crate::fixture::{self, Edit, Fixture};
use crate::names::{APPLIED, CLUSTER, SERVICE};

const SINCE: &str = "2026-01-01T00:00:00Z";

fn cluster(index: usize) -> Name {
    Name::new("fleet", &format!("c{index}"))
}

/// Returns an Application for each letter: `n` is new and healthy, `p` is new and in progress, `f` is new and has failed, `c` is new
/// and can't be compared; `o` is old and healthy, `x` is old and has failed, `u` is old and can't be compared, `d` is old on a
/// cluster that is not ready, `r` is old and healthy, and its write was refused.
fn apps(states: &str) -> Vec<(App, Name)> {
    let app = |(index, state): (usize, char)| {
        let health = match state {
            'p' => "Progressing",
            'f' | 'x' => "Degraded",
            _ => "Healthy",
        };
        let sync = if "cu".contains(state) { "Unknown" } else { "Synced" };
        let owner = cluster(index);
        let annotations = json!({ SERVICE: "team/svc", CLUSTER: owner.to_string(), APPLIED: "1" });
        let health = json!({ "status": health, "lastTransitionTime": SINCE });
        let status = json!({ "sync": { "status": sync }, "health": health });
        let object =
            json!({ "metadata": { "name": owner.name, "annotations": annotations }, "status": status });
        (App::read(&object).expect("an Application of a service"), owner)
    };
    states.chars().enumerate().map(app).collect()
}

fn progress<'a>(limit: usize, canaries: &[usize], states: &str, apps: &'a [(App, Name)]) -> Progress<'a> {
    let member = |((app, cluster), state): (&'a (App, Name), char)| Member {
        cluster,
        app,
        is_changed: "npfc".contains(state),
        is_up: state != 'd',
        is_free: app.is_broken(),
    };
    let members = apps.iter().zip(states.chars()).map(member).collect();
    let canaries = canaries.iter().map(|index| cluster(*index)).collect();
    let refused = apps.iter().zip(states.chars()).filter(|(_, state)| *state == 'r');
    let refused = refused.map(|((_, cluster), _)| cluster.clone()).collect();
    Progress { limit, canaries, members, without: Vec::new(), refused }
}

#[test]
fn a_rollout_changes_some_clusters_and_withholds_the_others() {
    // What each cluster waits for: `T` its turn, `C` the canaries, `L` all others. The last column says whether the rollout is halted.
    for (limit, canaries, states, waits, is_halted) in [
        (1, &[][..], "ooo", ".TT", false),
        (2, &[], "ooo", "..T", false),
        (1, &[], "noo", "..T", false),
        (1, &[], "poo", ".TT", false),
        (1, &[], "foo", ".TT", true),
        (2, &[], "foo", "..T", false),
        (1, &[], "xoo", ".TT", true),
        (1, &[], "nnn", "...", false),
        (1, &[], "fff", "...", false),
        // What can't be compared may work. It is changed first, and counts only after that.
        (1, &[], "uuu", ".TT", false),
        (1, &[], "ouu", "T.T", false),
        (2, &[], "uou", ".T.", false),
        (1, &[], "cuu", ".TT", false),
        (1, &[], "xuu", ".TT", true),
        (1, &[], "nud", "..L", false),
        (1, &[1], "uuo", "C.C", false),
        // Clusters that are not ready come last, and only if the others have shown that the change is good.
        (1, &[], "nnd", "...", false),
        (1, &[], "nod", "..L", false),
        (1, &[], "npd", "..L", false),
        (1, &[], "dd", ".L", false),
        (2, &[], "ddd", "..L", false),
        (1, &[1], "ooo", "C.C", false),
        (2, &[1], "opo", "C.C", false),
        (2, &[1], "ofo", "C.C", true),
        (2, &[1], "odo", "CLC", true),
        (1, &[1], "ono", "..T", false),
        (1, &[7], "oo", "CC", true),
        (2, &[0, 1], "noo", "..C", false),
        // What can't be written keeps no place from the others.
        (1, &[], "roo", "T.T", false),
        (1, &[], "rpo", "T.T", false),
        (1, &[], "rn", "..", false),
        (1, &[0], "roo", ".CC", false),
    ] {
        let apps = apps(states);
        let progress = progress(limit, canaries, states, &apps);
        let withheld = progress.withheld();
        let letter = |(_, cluster): &(App, Name)| match withheld.get(cluster) {
            None => '.',
            Some(&TURN) => 'T',
            Some(&CANARIES) => 'C',
            Some(&LAST) => 'L',
            Some(other) => panic!("{other}"),
        };
        let halt = progress.halt(|members| members.count().to_string());
        let seen: (String, bool) = (apps.iter().map(letter).collect(), halt.is_some());
        assert_eq!(seen, (waits.to_owned(), is_halted), "{states}, canaries {canaries:?}, at most {limit}");
    }
}

#[test]
fn only_a_change_is_in_progress_since_a_time() {
    let of = |state: &str| {
        let apps = apps(if state == "old" { "p" } else { state });
        let mut progress = progress(1, &[], state, &apps);
        progress.members[0].is_changed &= state != "old";
        progress.members[0].progressing_since().map(str::to_owned)
    };
    assert_eq!(of("p").as_deref(), Some(SINCE));
    assert_eq!((of("n"), of("f"), of("old")), (None, None, None));
}

#[test]
fn a_rollout_has_ended_when_every_cluster_has_an_application() {
    for (with_app, expected) in [
        (&[][..], "at most 1 at a time; without an Application: c1, c2, c3"),
        (&["c1", "c3"], "at most 1 at a time; without an Application: c2"),
        (&["c1", "c2", "c3"], "every cluster has been brought to generation 0"),
    ] {
        let mut fixture = Fixture::default();
        fixture.service(json!({ "rollout": { "maxUnavailable": 1 } }));
        let servers = ["c1", "c2", "c3"].map(|name| format!("https://{name}"));
        fixture.project(&servers.each_ref().map(|server| &**server), |_| ());
        for name in ["c1", "c2", "c3"] {
            fixture.cluster(name, "Ready").secret(name, |_| ());
            if with_app.contains(&name) {
                fixture.app(name, name, |_| ());
            }
        }
        let (store, key) = (&fixture.store, fixture::service());
        let service = store.services.get(&key).expect("a service");
        let found = rolled_out(store, &key, service, &Failures::new()).expect("a limit");
        assert!(found.message.ends_with(expected), "{}", found.message);
        let reason = if with_app.len() == 3 { reason::ALL_CLUSTERS_CHANGED } else { reason::ROLLING_OUT };
        assert_eq!(found.reason, reason);
    }
}

/// At the old server Argo CD can't repair or change anything.
#[test]
fn only_broken_and_moved_applications_are_changed_whatever_the_limit() {
    let mut fixture = Fixture::default();
    fixture.service(json!({ "rollout": { "maxUnavailable": 1 } }));
    let moved = |object: &mut Value| {
        object["spec"]["destination"]["server"] = json!("https://old");
        object["metadata"]["annotations"][APPLIED] = json!("of the old server");
    };
    let is_old = |object: &mut Value| object["metadata"]["annotations"][APPLIED] = json!("of the old spec");
    let is_new = |object: &mut Value| {
        object["metadata"]["annotations"][APPLIED] = json!("");
    };
    let is_ill = |object: &mut Value| {
        is_old(object);
        object["status"]["health"]["status"] = json!("Degraded");
    };
    // A failed sync of the spec, and one of single objects.
    let has_failed = |object: &mut Value| {
        is_old(object);
        object["status"]["sync"]["status"] = json!("OutOfSync");
        object["status"]["operationState"] = json!({ "phase": "Failed" });
    };
    let repair_failed = |object: &mut Value| {
        has_failed(object);
        object["status"]["operationState"]["operation"] =
            json!({ "sync": { "resources": [{ "name": "a" }] } });
    };
    let is_unknown = |object: &mut Value| {
        is_old(object);
        object["status"]["sync"]["status"] = json!("Unknown");
    };
    let has_no_health = |object: &mut Value| {
        is_unknown(object);
        object["status"]["health"]["status"] = json!("Unknown");
    };
    let is_not_reported = |object: &mut Value| {
        is_old(object);
        object["status"] = Value::Null;
    };
    let names = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "d1", "d2"];
    let servers = names.map(|name| format!("https://{name}"));
    fixture.project(&servers.each_ref().map(|server| &**server), |_| ());
    let changes: [(&str, Edit<'_>, &str); 11] = [
        ("c1", &is_old, "Ready"),
        ("c2", &moved, "Ready"),
        ("c3", &is_new, "Ready"),
        ("c4", &is_ill, "Ready"),
        ("c5", &is_old, "NotReady"),
        ("c6", &|_| (), "Ready"),
        ("c7", &has_failed, "Ready"),
        ("c8", &repair_failed, "Ready"),
        ("c9", &is_unknown, "Ready"),
        ("d1", &has_no_health, "Ready"),
        ("d2", &is_not_reported, "Ready"),
    ];
    for (name, change, phase) in changes {
        fixture.cluster(name, phase).secret(name, |_| ()).app(name, name, |object| change(object));
    }
    let withheld = withheld(&fixture.store, &fixture::service(), fixture.spec(), &Failures::new());
    let withheld: Vec<_> = withheld.into_iter().map(|(name, why)| (name.name.as_str(), why)).collect();
    let expected = [("c1", TURN), ("c5", LAST), ("c8", TURN), ("c9", TURN), ("d1", TURN), ("d2", TURN)];
    assert_eq!(withheld, expected);
}

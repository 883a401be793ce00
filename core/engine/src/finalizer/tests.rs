use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::object::Kind;

const OURS: &str = "lockstep.test/ours";

/// One object as a server stores it.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    uid: u32,
    version: u32,
    deleting: bool,
    finalizers: Vec<String>,
}

impl Kept {
    fn new(finalizers: &[&str]) -> Self {
        let finalizers = finalizers.iter().map(|&finalizer| finalizer.to_owned()).collect();
        Self { uid: 1, version: 1, deleting: false, finalizers }
    }

    fn shown(&self) -> Value {
        let mut metadata =
            json!({ "uid": self.uid.to_string(), "resourceVersion": self.version.to_string() });
        if self.deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if !self.finalizers.is_empty() {
            metadata["finalizers"] = json!(self.finalizers);
        }
        json!({ "metadata": metadata })
    }

    /// Applies a patch as the API server does: an absent or empty precondition holds. Returns whether it was accepted.
    fn patch(&mut self, action: &Action) -> bool {
        let Action::Kube(KubeRequest::Patch { patch, subresource: None, .. }) = action else {
            panic!("{action:?}")
        };
        let holds = |field, is: u32| ["", &is.to_string()].contains(&metadata(patch, field));
        if !holds("uid", self.uid) || !holds("resourceVersion", self.version) {
            return false;
        }
        self.version += 1;
        self.finalizers = held(patch).map(str::to_owned).collect();
        true
    }

    fn others(&self) -> Vec<&String> {
        self.finalizers.iter().filter(|finalizer| *finalizer != OURS).collect()
    }
}

fn target() -> ObjectRef {
    ObjectRef::namespaced(&Kind::known("", "v1", "ConfigMap", "configmaps", true), "team", "settings")
}

#[test]
fn it_comes_and_goes_and_the_others_stay() {
    let mut kept = Kept::new(&["a/a", "b/b"]);
    assert!(!is_held(&kept.shown(), OURS));
    assert!(kept.patch(&add(&target(), &kept.shown(), OURS).expect("it is missing")));
    assert_eq!(kept.finalizers, ["a/a", "b/b", OURS]);
    assert!(is_held(&kept.shown(), OURS));
    assert!(kept.patch(&remove(&target(), &kept.shown(), OURS).expect("it is there")));
    assert_eq!(kept.finalizers, ["a/a", "b/b"]);
}

#[test]
fn what_is_so_already_asks_for_nothing() {
    let with = Kept::new(&[OURS]);
    assert_eq!(add(&target(), &with.shown(), OURS), None);
    let without = Kept::new(&["a/a"]);
    assert_eq!(remove(&target(), &without.shown(), OURS), None);
}

#[test]
fn an_object_that_is_going_gets_none_but_loses_ours() {
    let going = Kept { deleting: true, ..Kept::new(&["a/a"]) };
    assert_eq!(add(&target(), &going.shown(), OURS), None);
    let held = Kept { deleting: true, ..Kept::new(&[OURS]) };
    assert!(remove(&target(), &held.shown(), OURS).is_some());
}

#[test]
fn without_a_precondition_nothing_is_written() {
    for lacking in ["uid", "resourceVersion"] {
        let (mut without, mut with) = (Kept::new(&[]).shown(), Kept::new(&[OURS]).shown());
        without["metadata"][lacking] = json!("");
        with["metadata"][lacking] = Value::Null;
        assert_eq!(add(&target(), &without, OURS), None);
        assert_eq!(remove(&target(), &with, OURS), None);
    }
}

/// An event in the lifetime of the object; the numbers name the finalizers of other clients.
#[derive(Debug, Clone, Copy)]
enum Happening {
    AnotherEnters(u8),
    AnotherLeaves(u8),
    IsDeleted,
    IsRecreated,
    WeRead,
    WeAdd,
    WeRemove,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0u8..3).prop_map(Happening::AnotherEnters),
        (0u8..3).prop_map(Happening::AnotherLeaves),
        Just(Happening::IsDeleted),
        Just(Happening::IsRecreated),
        Just(Happening::WeRead),
        Just(Happening::WeAdd),
        Just(Happening::WeRemove),
    ]
}

proptest! {
    /// The client acts on its last read, however old that is.
    #[test]
    fn whatever_happens_in_between_only_ours_changes(happenings in vec(happening(), 0..60)) {
        let mut kept = Kept::new(&[]);
        let mut seen = kept.clone();
        for happening in happenings {
            let before = kept.clone();
            let action = match happening {
                Happening::AnotherEnters(number) if !kept.deleting => {
                    kept.finalizers.push(format!("other/{number}"));
                    kept.version += 1;
                    continue;
                }
                Happening::AnotherLeaves(number) => {
                    kept.finalizers.retain(|finalizer| *finalizer != format!("other/{number}"));
                    kept.version += 1;
                    continue;
                }
                Happening::IsDeleted => {
                    kept.deleting = true;
                    kept.version += 1;
                    continue;
                }
                Happening::IsRecreated => {
                    kept = Kept { uid: kept.uid + 1, version: kept.version + 1, ..Kept::new(&["other/0"]) };
                    continue;
                }
                Happening::AnotherEnters(_) => continue,
                Happening::WeRead => {
                    seen = kept.clone();
                    continue;
                }
                Happening::WeAdd => add(&target(), &seen.shown(), OURS),
                Happening::WeRemove => remove(&target(), &seen.shown(), OURS),
            };
            let taken = action.is_some_and(|action| kept.patch(&action));
            prop_assert_eq!(kept.others(), before.others());
            prop_assert_eq!(taken, kept != before);
            if taken {
                prop_assert_eq!(&seen, &before, "acts on what it read alone");
                let held = matches!(happening, Happening::WeAdd);
                prop_assert_eq!(is_held(&kept.shown(), OURS), held);
                prop_assert!(!(held && kept.deleting), "nothing new in what is going");
            }
        }
    }
}

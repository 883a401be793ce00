//! Faults in a recorded history, each with the checks that find it.

use std::collections::BTreeSet;

use lockstep_tests::histories::{Answer, Check, History, Request, WatchEvent, check};

use crate::script::{
    ALL, FIRST_LIST, GET_A, GET_A_AFTER_DELETION, INITIAL, REFUSED_DELETE_B, REFUSED_UPDATE_A, SECOND_LIST,
    SELECTED, UPDATE_A, answer, at, insert_after, listed, objects, patched_b, script, stored,
};

/// A fault: what is wrong, the check that is made for it, other checks that also find it, and the change of the history.
struct Fault(&'static str, Check, &'static [Check], fn(&mut History));

const FAULTS: [Fault; 20] = [
    Fault("a stale read", Check::Linearizability, &[], |history| {
        answer(history, GET_A, Answer::Object(stored("u1", 130, "3")));
    }),
    Fault("an update that overwrites another one", Check::Linearizability, &[], |history| {
        answer(history, REFUSED_UPDATE_A, Answer::Object(stored("u1", 155, "6")));
        overwrite_a(history);
    }),
    Fault("a conflict that took effect", Check::Linearizability, &[], overwrite_a),
    Fault("a conflict that took effect, but was not read", Check::WatchContent, &[], |history| {
        overwrite_a(history);
        history.calls.remove(GET_A);
    }),
    Fault("a deletion in spite of its precondition", Check::Linearizability, &[], |history| {
        answer(history, REFUSED_DELETE_B, Answer::Deleted { uid: "u2".to_owned() });
        insert_after(history, 180, &WatchEvent::Deleted("b".to_owned(), stored("u2", 185, "8")));
    }),
    Fault("an object that is back after its deletion", Check::Linearizability, &[], |history| {
        answer(history, GET_A_AFTER_DELETION, Answer::Object(stored("u1", 150, "5")));
    }),
    Fault("a list that mixes two states", Check::Lists, &[], |history| {
        answer(history, FIRST_LIST, listed(140, stored("u1", 110, "1"), patched_b()));
    }),
    Fault("a list of an earlier state", Check::Lists, &[Check::Linearizability], |history| {
        answer(history, SECOND_LIST, listed(120, stored("u1", 110, "1"), stored("u2", 120, "2")));
    }),
    Fault("a list with a later revision than its objects", Check::Lists, &[], |history| {
        answer(history, FIRST_LIST, listed(140, stored("u1", 130, "3"), stored("u2", 120, "2")));
    }),
    Fault(
        "a version of two objects",
        Check::Versions,
        &[Check::Lists, Check::WatchContent, Check::WatchDuplicates],
        |history| renumber(history, |version| if version == 120 { 110 } else { version }),
    ),
    Fault("versions against the order of the calls", Check::Versions, &[], |history| {
        renumber(history, |version| match version {
            110 => 120,
            120 => 110,
            other => other,
        });
        history.watches[ALL].events.swap(0, 1);
    }),
    Fault("a uid that is used again", Check::Versions, &[], |history| {
        for stored in objects(history).into_iter().filter(|stored| stored.uid == "u3") {
            "u1".clone_into(&mut stored.uid);
        }
    }),
    Fault("events in the wrong order", Check::WatchOrder, &[], |history| {
        let index = at(history, ALL, 130);
        history.watches[ALL].events.swap(index, index + 1);
    }),
    Fault("a missed event", Check::WatchCompleteness, &[], |history| {
        let index = at(history, ALL, 150);
        history.watches[ALL].events.remove(index);
    }),
    Fault("a deletion that no watch reports", Check::WatchCompleteness, &[Check::WatchContent], |history| {
        for watch in [ALL, INITIAL] {
            let index = at(history, watch, 160);
            history.watches[watch].events.remove(index);
        }
    }),
    Fault("an event that is delivered twice", Check::WatchDuplicates, &[], |history| {
        let index = at(history, ALL, 150);
        let event = history.watches[ALL].events[index].clone();
        history.watches[ALL].events.insert(index, event);
    }),
    Fault("an event with other data than the answer", Check::WatchContent, &[], |history| {
        let index = at(history, ALL, 150);
        history.watches[ALL].events[index] = WatchEvent::Modified("a".to_owned(), stored("u1", 150, "0"));
    }),
    Fault("an event that is not selected", Check::WatchContent, &[], |history| {
        let event = history.watches[ALL].events[at(history, ALL, 150)].clone();
        let index = at(history, SELECTED, 180);
        history.watches[SELECTED].events.insert(index, event);
    }),
    Fault("an initial state without an object", Check::InitialState, &[], |history| {
        let index = at(history, INITIAL, 140);
        history.watches[INITIAL].events.remove(index);
    }),
    Fault("a bookmark that goes back", Check::Bookmarks, &[], |history| {
        for event in &mut history.watches[ALL].events {
            if let WatchEvent::Bookmark { version, .. } = event {
                *version = 120;
            }
        }
    }),
];

/// Lets an update take effect that expects an earlier version, in the events and in a later read.
fn overwrite_a(history: &mut History) {
    let overwritten = stored("u1", 155, "6");
    answer(history, GET_A, Answer::Object(overwritten.clone()));
    for stored in objects(history).into_iter().filter(|stored| stored.version == 160) {
        stored.data.clone_from(&overwritten.data);
    }
    insert_after(history, 150, &WatchEvent::Modified("a".to_owned(), overwritten));
}

/// Changes versions in answers, events and the request that quotes one.
fn renumber(history: &mut History, number: fn(u64) -> u64) {
    for stored in objects(history) {
        stored.version = number(stored.version);
    }
    if let Request::Update { version, .. } = &mut history.calls[UPDATE_A].request {
        *version = version.map(number);
    }
}

fn found(history: &History) -> BTreeSet<Check> {
    check(history).into_iter().map(|violation| violation.check).collect()
}

#[test]
fn the_history_without_a_fault_is_correct() {
    assert_eq!(check(&script()), []);
}

#[test]
fn each_fault_is_found_by_the_check_that_is_made_for_it() {
    for Fault(what, by, also, plant) in FAULTS {
        let mut history = script();
        plant(&mut history);
        assert_ne!(history, script(), "{what} changes nothing");
        let expected: BTreeSet<Check> = also.iter().copied().chain([by]).collect();
        assert_eq!(found(&history), expected, "{what}: {:#?}", check(&history));
    }
}

#[test]
fn each_check_finds_a_fault() {
    let checks: BTreeSet<Check> = FAULTS.iter().map(|Fault(_, by, ..)| *by).collect();
    assert_eq!(checks.len(), 9, "{checks:?}");
}

#[test]
fn a_request_without_an_answer_explains_what_a_refused_one_does_not() {
    let mut history = script();
    overwrite_a(&mut history);
    assert!(!check(&history).is_empty());
    history.calls[REFUSED_UPDATE_A].completed = None;
    let Request::Update { version, .. } = &mut history.calls[REFUSED_UPDATE_A].request else {
        panic!("the call is an update")
    };
    *version = Some(150);
    assert_eq!(check(&history), []);
}

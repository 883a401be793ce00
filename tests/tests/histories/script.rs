//! A short history that is correct, to plant faults in.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_tests::histories::{
    Answer, Call, Data, History, LAST, Request, Start, Stored, Watch, WatchEvent,
};

// The calls, by their indices.
pub(crate) const FIRST_LIST: usize = 2;
pub(crate) const UPDATE_A: usize = 3;
pub(crate) const SECOND_LIST: usize = 5;
pub(crate) const REFUSED_UPDATE_A: usize = 7;
pub(crate) const GET_A: usize = 8;
pub(crate) const GET_A_AFTER_DELETION: usize = 10;
pub(crate) const REFUSED_DELETE_B: usize = 15;

// The watches, by their indices.
pub(crate) const ALL: usize = 0;
pub(crate) const SELECTED: usize = 1;
pub(crate) const INITIAL: usize = 2;

/// Returns data of these entries.
pub(crate) fn data(entries: &[(&str, &str)]) -> Data {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns an object with this value.
pub(crate) fn stored(uid: &str, version: u64, value: &str) -> Stored {
    Stored { uid: uid.to_owned(), version, data: data(&[("v", value)]) }
}

/// Returns the answer to a list.
pub(crate) fn listed(revision: u64, a: Stored, b: Stored) -> Answer {
    let items = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
    Answer::List { revision, items }
}

/// Returns object `b` after its patch.
pub(crate) fn patched_b() -> Stored {
    Stored { data: data(&[("v", "2"), ("p", "4")]), ..stored("u2", 140, "2") }
}

struct Script {
    moment: u64,
    calls: Vec<Call>,
}

impl Script {
    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Adds a call that overlaps no later one.
    fn call(&mut self, request: Request, answer: Answer) {
        let invoked = self.tick();
        let completed = Some((self.tick(), answer));
        self.calls.push(Call { client: 0, request, invoked, completed });
    }

    /// Adds a call without an answer.
    fn lost(&mut self, request: Request) {
        let invoked = self.tick();
        self.calls.push(Call { client: 2, request, invoked, completed: None });
    }
}

fn create(name: &str, value: &str) -> Request {
    Request::Create { name: name.to_owned(), data: data(&[("v", value)]) }
}

fn update(name: &str, value: &str, version: Option<u64>) -> Request {
    Request::Update { name: name.to_owned(), data: data(&[("v", value)]), version }
}

fn patch(name: &str, key: &str, value: &str) -> Request {
    Request::Patch { name: name.to_owned(), key: key.to_owned(), value: value.to_owned() }
}

fn get(name: &str) -> Request {
    Request::Get { name: name.to_owned() }
}

fn delete(name: &str, uid: Option<&str>, version: Option<u64>) -> Request {
    Request::Delete { name: name.to_owned(), uid: uid.map(str::to_owned), version }
}

/// Returns the history. The first list overlaps two writes. One request without an answer takes effect, another one does not.
pub(crate) fn script() -> History {
    let mut script = Script { moment: 0, calls: Vec::new() };
    script.call(create("a", "1"), Answer::Object(stored("u1", 110, "1")));
    script.call(create("b", "2"), Answer::Object(stored("u2", 120, "2")));
    let list_invoked = script.tick();
    script.call(update("a", "3", Some(110)), Answer::Object(stored("u1", 130, "3")));
    script.call(patch("b", "p", "4"), Answer::Object(patched_b()));
    let answer = listed(130, stored("u1", 130, "3"), stored("u2", 120, "2"));
    let completed = Some((script.tick(), answer));
    let list = Call { client: 1, request: Request::List, invoked: list_invoked, completed };
    script.calls.insert(FIRST_LIST, list);
    script.call(Request::List, listed(140, stored("u1", 130, "3"), patched_b()));
    let watched = script.tick();
    script.call(update("a", "5", Some(130)), Answer::Object(stored("u1", 150, "5")));
    script.call(update("a", "6", Some(130)), Answer::Conflict);
    script.call(get("a"), Answer::Object(stored("u1", 150, "5")));
    script.call(delete("a", Some("u1"), None), Answer::Deleted { uid: "u1".to_owned() });
    script.call(get("a"), Answer::NotFound);
    script.call(create("a", "7"), Answer::Object(stored("u3", 170, "7")));
    script.lost(update("b", "8", None));
    script.lost(patch("b", "q", "9"));
    script.call(get("b"), Answer::Object(stored("u2", 180, "8")));
    script.call(delete("b", None, Some(140)), Answer::Conflict);
    script.call(get("a"), Answer::Object(stored("u3", 170, "7")));
    script.call(create(LAST, "10"), Answer::Object(stored("u4", 190, "10")));
    History { start: 100, calls: script.calls, watches: watches(watched) }
}

fn watches(invoked_initial: u64) -> Vec<Watch> {
    let added = |name: &str, stored| WatchEvent::Added(name.to_owned(), stored);
    let modified = |name: &str, stored| WatchEvent::Modified(name.to_owned(), stored);
    let bookmark = |version, ends_initial| WatchEvent::Bookmark { version, ends_initial };
    let later = vec![
        modified("a", stored("u1", 150, "5")),
        WatchEvent::Deleted("a".to_owned(), stored("u1", 160, "5")),
        added("a", stored("u3", 170, "7")),
        modified("b", stored("u2", 180, "8")),
        added(LAST, stored("u4", 190, "10")),
    ];
    let mut all = vec![
        added("a", stored("u1", 110, "1")),
        added("b", stored("u2", 120, "2")),
        modified("a", stored("u1", 130, "3")),
        modified("b", patched_b()),
        bookmark(140, false),
    ];
    all.extend(later.clone());
    let selected = vec![
        modified("b", patched_b()),
        modified("b", stored("u2", 180, "8")),
        added(LAST, stored("u4", 190, "10")),
    ];
    let mut initial = vec![added("a", stored("u1", 130, "3")), added("b", patched_b()), bookmark(140, true)];
    initial.extend(later);
    let names = BTreeSet::from(["b".to_owned(), LAST.to_owned()]);
    let watch = |label: &str, start, invoked, names, events| Watch {
        label: label.to_owned(),
        start,
        invoked,
        names,
        events,
    };
    vec![
        watch("all", Start::After(100), 0, None, all),
        watch("selected", Start::After(120), 0, Some(names), selected),
        watch("initial", Start::Initial, invoked_initial, None, initial),
    ]
}

/// Returns the objects of all answers and events, to change them.
pub(crate) fn objects(history: &mut History) -> Vec<&mut Stored> {
    let mut objects = Vec::new();
    for (_, answer) in history.calls.iter_mut().filter_map(|call| call.completed.as_mut()) {
        match answer {
            Answer::Object(stored) => objects.push(stored),
            Answer::List { items, .. } => objects.extend(items.values_mut()),
            Answer::Deleted { .. } | Answer::AlreadyExists | Answer::Conflict | Answer::NotFound => {}
        }
    }
    for event in history.watches.iter_mut().flat_map(|watch| &mut watch.events) {
        match event {
            WatchEvent::Added(_, stored)
            | WatchEvent::Modified(_, stored)
            | WatchEvent::Deleted(_, stored) => {
                objects.push(stored);
            }
            WatchEvent::Bookmark { .. } => {}
        }
    }
    objects
}

/// Sets the answer of a call.
pub(crate) fn answer(history: &mut History, call: usize, answer: Answer) {
    let completed = history.calls[call].completed.as_mut();
    completed.expect("the call has an answer").1 = answer;
}

/// Returns the index of the event with this version in a watch.
pub(crate) fn at(history: &History, watch: usize, version: u64) -> usize {
    let has_version =
        |event: &WatchEvent| event.object().is_some_and(|(_, stored)| stored.version == version);
    history.watches[watch].events.iter().position(has_version).expect("the watch has the event")
}

/// Adds an event to all watches that select its object, after the event with this version.
pub(crate) fn insert_after(history: &mut History, version: u64, event: &WatchEvent) {
    let (name, _) = event.object().expect("an event of an object");
    for watch in &mut history.watches {
        let is_before =
            |event: &WatchEvent| event.object().is_some_and(|(_, stored)| stored.version <= version);
        if watch.selects(name)
            && let Some(index) = watch.events.iter().rposition(is_before)
        {
            watch.events.insert(index + 1, event.clone());
        }
    }
}

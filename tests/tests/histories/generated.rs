//! Generated histories: requests that are executed one after another by a reference, but overlap.

use std::collections::BTreeSet;

use lockstep_engine::random::Random;
use lockstep_tests::histories::{
    Answer, Call, Check, Data, History, LAST, NAMES, Request, Start, Stored, Watch, WatchEvent, Workload,
    check,
};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

use crate::reference::Reference;

const CLIENTS: usize = 4;

/// The revision at the start.
const START: u64 = 100;

/// The number of steps of a generated history: invocations, executions and answers.
const STEPS: std::ops::Range<usize> = 1..240;

/// A client and the call that it waits for.
struct Client {
    workload: Workload,
    waiting: Option<(Request, u64, Option<Answer>)>,
}

struct Generator {
    random: Random,
    moment: u64,
    reference: Reference,
    clients: Vec<Client>,
    calls: Vec<Call>,
    /// Requests without an answer that may still take effect.
    adrift: Vec<Request>,
    watches: Vec<Watch>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let client = |index| Client { workload: Workload::new(seed, index), waiting: None };
        Self {
            random: Random::from_seed(seed),
            moment: 0,
            reference: Reference { revision: START, ..Reference::default() },
            clients: (0..CLIENTS).map(client).collect(),
            calls: Vec::new(),
            adrift: Vec::new(),
            watches: Vec::new(),
        }
    }

    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn step(&mut self) {
        match self.random.below(40) {
            // Another object in the cluster changes.
            0 => self.reference.revision += 1,
            1 => self.open_initial(),
            2..=5 => {
                if let Some(request) = self.adrift.pop() {
                    self.reference.answer(&request);
                }
            }
            number => self.advance(usize::try_from(number).unwrap_or(0) % CLIENTS),
        }
    }

    /// Invokes a call of a client, executes it, or completes it.
    fn advance(&mut self, index: usize) {
        let moment = self.tick();
        let client = &mut self.clients[index];
        match client.waiting.take() {
            None => {
                let request = client.workload.draw();
                if client.workload.draw_loss(&request).is_some() {
                    self.adrift.push(request.clone());
                    self.calls.push(Call { client: index, request, invoked: moment, completed: None });
                } else {
                    client.waiting = Some((request, moment, None));
                }
            }
            Some((request, invoked, None)) => {
                let answer = self.reference.answer(&request);
                client.waiting = Some((request, invoked, Some(answer)));
            }
            Some((request, invoked, Some(answer))) => {
                client.workload.learn(&request, &answer);
                self.calls.push(Call { client: index, request, invoked, completed: Some((moment, answer)) });
            }
        }
    }

    /// Opens a watch with the current state; later events are added at the end.
    fn open_initial(&mut self) {
        let added = |(name, stored): (&String, &Stored)| WatchEvent::Added(name.clone(), stored.clone());
        let mut events: Vec<WatchEvent> = self.reference.objects.iter().map(added).collect();
        events.push(WatchEvent::Bookmark { version: self.reference.revision, ends_initial: true });
        let label = format!("initial-{}", self.watches.len());
        let invoked = self.tick();
        self.watches.push(Watch { label, start: Start::Initial, invoked, names: None, events });
    }

    fn finish(mut self) -> History {
        for index in 0..CLIENTS {
            while self.clients[index].waiting.is_some() {
                self.advance(index);
            }
        }
        let data = Data::from([("v".to_owned(), LAST.to_owned())]);
        let request = Request::Create { name: LAST.to_owned(), data };
        let answer = self.reference.answer(&request);
        let (invoked, completed) = (self.tick(), self.tick());
        self.calls.push(Call { client: CLIENTS, request, invoked, completed: Some((completed, answer)) });
        self.calls.sort_by_key(|call| call.invoked);
        let middle = START + self.random.below(self.reference.revision - START);
        let names = BTreeSet::from([NAMES[0].to_owned(), LAST.to_owned()]);
        let mut watches = std::mem::take(&mut self.watches);
        for watch in &mut watches {
            let Some(WatchEvent::Bookmark { version, .. }) = watch.events.last() else { continue };
            let version = *version;
            watch.events.extend(self.events_after(version, None));
        }
        for (label, version, names) in [
            ("all", START, None),
            ("again", START, None),
            ("late", middle, None),
            ("some", middle, Some(names)),
        ] {
            let events = self.events_after(version, names.as_ref());
            let (label, start) = (label.to_owned(), Start::After(version));
            watches.insert(0, Watch { label, start, invoked: 0, names, events });
        }
        watches.sort_by(|one, other| one.label.cmp(&other.label));
        History { start: START, calls: self.calls, watches }
    }

    /// Returns the events after a version, with bookmarks between them.
    fn events_after(&mut self, version: u64, names: Option<&BTreeSet<String>>) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        for event in &self.reference.log {
            let (name, stored) = event.object().expect("the log has no bookmarks");
            if stored.version <= version || names.is_some_and(|names| !names.contains(name)) {
                continue;
            }
            events.push(event.clone());
            if self.random.below(8) == 0 {
                events.push(WatchEvent::Bookmark { version: stored.version, ends_initial: false });
            }
        }
        events
    }
}

fn history(seed: u64, steps: usize) -> History {
    let mut generator = Generator::new(seed);
    for _ in 0..steps {
        generator.step();
    }
    generator.finish()
}

/// Returns the indices of the events of objects in a watch.
fn changes(watch: &Watch) -> Vec<usize> {
    let indices = 0..watch.events.len();
    indices.filter(|index| watch.events[*index].object().is_some()).collect()
}

fn is_found(history: &History, by: Check) -> bool {
    check(history).iter().any(|violation| violation.check == by)
}

/// Lets a read return a state that another write had replaced before the read began; returns whether there is such a read.
fn plant_stale_read(history: &mut History) -> bool {
    let versions = |call: &Call| match call.completed.as_ref()? {
        (moment, Answer::Object(stored)) if call.request.is_write() => {
            Some((call.request.name()?.to_owned(), call.invoked, *moment, stored.clone()))
        }
        _ => None,
    };
    let writes: Vec<_> = history.calls.iter().filter_map(versions).collect();
    for call in &mut history.calls {
        let (Request::Get { name }, Some((_, answer))) = (&call.request, &mut call.completed) else {
            continue;
        };
        let mut of_object = writes.iter().filter(|(of, ..)| of == name);
        let Some((_, _, _, old)) = of_object.next() else { continue };
        let is_replaced =
            of_object.any(|(_, _, completed, new)| *completed < call.invoked && new.version > old.version);
        if is_replaced {
            *answer = Answer::Object(old.clone());
            return true;
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_generated_history_is_correct(seed in any::<u64>(), steps in STEPS) {
        prop_assert_eq!(check(&history(seed, steps)), []);
    }

    #[test]
    fn a_missed_event_is_found(seed in any::<u64>(), steps in STEPS, at in any::<u16>()) {
        let mut history = history(seed, steps);
        let watch = &mut history.watches[1];
        let changes = changes(watch);
        watch.events.remove(changes[usize::from(at) % changes.len()]);
        prop_assert!(is_found(&history, Check::WatchCompleteness));
    }

    #[test]
    fn an_event_that_is_delivered_twice_is_found(seed in any::<u64>(), steps in STEPS, at in any::<u16>()) {
        let mut history = history(seed, steps);
        let watch = &mut history.watches[1];
        let changes = changes(watch);
        let event = watch.events[changes[usize::from(at) % changes.len()]].clone();
        watch.events.push(event);
        prop_assert!(is_found(&history, Check::WatchDuplicates));
    }

    #[test]
    fn events_in_the_wrong_order_are_found(seed in any::<u64>(), steps in STEPS, at in any::<u16>()) {
        let mut history = history(seed, steps);
        let watch = &mut history.watches[1];
        let changes = changes(watch);
        if changes.len() > 1 {
            let at = usize::from(at) % (changes.len() - 1);
            watch.events.swap(changes[at], changes[at + 1]);
            prop_assert!(is_found(&history, Check::WatchOrder));
        }
    }

    #[test]
    fn a_stale_read_is_found(seed in any::<u64>(), steps in STEPS) {
        let mut history = history(seed, steps);
        if plant_stale_read(&mut history) {
            prop_assert!(is_found(&history, Check::Linearizability));
        }
    }
}

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::action::Outcome;
use crate::object::ObjectRef;
use crate::scheduler::{Next, Verdict};
use crate::time::{Monotonic, Wall};

const KEYS: u8 = 5;

/// Records when each of its keys was reconciled.
struct Lookout {
    outbox: Outbox<u8>,
    looks: BTreeMap<u8, Vec<Monotonic>>,
}

impl Reconcile for Lookout {
    type Key = u8;
    type Stage = ();

    fn reconciler(_: &u8) -> &'static str {
        "lookout"
    }

    fn object(key: &u8) -> ObjectRef {
        ObjectRef::cluster(&Kind::known("", "v1", "Namespace", "namespaces", false), &key.to_string())
    }

    fn begin(&mut self, key: &u8, now: Now) -> Next<()> {
        self.looks.entry(*key).or_default().push(now.monotonic);
        Next::Done(Verdict::Converged)
    }

    fn resume(&mut self, _: &u8, (): (), _: Vec<Outcome>, _: Now) -> Next<()> {
        Next::Done(Verdict::Converged)
    }
}

impl Control for Lookout {
    const NAME: &'static str = "lookout";
    const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(5) };
    const RECONCILERS: &'static [&'static str] = &["lookout"];
    const TRAITS: Traits = Traits::NONE;

    fn new(outbox: Outbox<u8>) -> Self {
        Self { outbox, looks: BTreeMap::new() }
    }

    fn outbox(&mut self) -> &mut Outbox<u8> {
        &mut self.outbox
    }

    fn keys(&self) -> Vec<u8> {
        (0..KEYS).collect()
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn start(&mut self) {}
    fn list_started(&mut self, _: &Arc<Kind>) {}
    fn list_completed(&mut self, _: &Arc<Kind>) {}
    fn observed(&mut self, _: &Arc<Kind>, _: &Arc<Value>) {}
    fn vanished(&mut self, _: &Arc<Kind>, _: &Value) {}
    fn watch_failed(&mut self, _: &Arc<Kind>, _: Failure, _: Now) {}
}

fn at(monotonic: Monotonic) -> Now {
    Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic }
}

#[test]
fn a_standby_accumulates_no_work() {
    let resync = Duration::from_mins(1);
    let mut operator =
        Operator::<Lookout>::new(Config { concurrency: 2, resync, instance: "test".to_owned(), seed: 1 });
    let mut now = Monotonic::START;
    let _step = operator.step(Event::Started, at(now));
    for _ in 0..3 {
        now = now + resync;
        let _step = operator.step(Event::TimerFired, at(now));
        assert!(
            operator.workload().queues.iter().all(|queue| queue.waiting == 0 && queue.running.is_empty())
        );
    }
    assert!(operator.deadline().is_none_or(|deadline| deadline.at > now));
    let _step = operator.step(Event::LeadershipChanged { leading: true }, at(now));
    assert!(
        operator.controller.looks.values().all(|looks| *looks == [now])
            && !operator.controller.looks.is_empty()
    );
}

proptest! {
    /// Its timer fires early before each period ends, and late at its end.
    #[test]
    fn every_key_is_looked_at_once_a_period(
        period in 2u64..900, wakes in proptest::collection::vec((0u64..900, 0u64..900), 1..20)
    ) {
        let resync = Duration::from_secs(period);
        let config = Config { concurrency: 2, resync, instance: "test".to_owned(), seed: 1 };
        let mut operator = Operator::<Lookout>::new(config);
        let mut now = Monotonic::START;
        let _step = operator.step(Event::Started, at(now));
        let _step = operator.step(Event::LeadershipChanged { leading: true }, at(now));
        let mut expected = vec![now];
        for (early, late) in wakes {
            let deadline = operator.deadline().expect("it wants to be woken");
            prop_assert_eq!((deadline.at, deadline.reason), (now + resync, DeadlineReason::Resync));
            let _step = operator.step(Event::TimerFired, at(now + Duration::from_secs(early % period)));
            now = deadline.at + Duration::from_secs(late);
            let _step = operator.step(Event::TimerFired, at(now));
            expected.push(now);
        }
        for key in 0..KEYS {
            prop_assert_eq!(operator.controller.looks.get(&key), Some(&expected));
        }
    }
}

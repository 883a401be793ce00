//! Machines and systems whose state can be copied and compared, so that a search can continue a run in more than one way.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::rc::Rc;
use std::time::Duration;

use lockstep_engine::machine::{Deadline, Event, Machine, Metric, Step, Workload, Wrapper};
use lockstep_engine::time::Now;

use crate::bugs::Bug;
use crate::cluster::ExternalSystems;

/// A machine whose state can be copied and compared.
pub trait Explorable: Machine {
    /// Returns a machine in the same state.
    fn fork(&self) -> Box<dyn Explorable>;

    /// Writes the state. Two machines that write the same behave in the same way.
    fn describe(&self, out: &mut String);
}

impl<M: Machine + Clone + Debug + 'static> Explorable for M {
    fn fork(&self) -> Box<dyn Explorable> {
        Box::new(self.clone())
    }

    fn describe(&self, out: &mut String) {
        write!(out, "{self:?}").expect("a string takes everything");
    }
}

/// Systems outside Kubernetes whose state can be copied and compared.
pub trait ExplorableSystems: ExternalSystems {
    /// Returns systems in the same state.
    fn fork(&self) -> Box<dyn ExplorableSystems>;

    /// Writes the state. Systems that write the same behave in the same way.
    fn describe(&self, out: &mut String);
}

impl<S: ExternalSystems + Clone + Debug> ExplorableSystems for S {
    fn fork(&self) -> Box<dyn ExplorableSystems> {
        Box::new(self.clone())
    }

    fn describe(&self, out: &mut String) {
        write!(out, "{self:?}").expect("a string takes everything");
    }
}

impl Clone for Box<dyn ExplorableSystems> {
    fn clone(&self) -> Self {
        (**self).fork()
    }
}

/// Plants a bug in a machine that has not taken a step yet.
pub(crate) fn plant(machine: &dyn Explorable, bug: &'static Bug) -> Box<dyn Explorable> {
    let inner = Rc::new(RefCell::new(machine.fork()));
    let flawed = (bug.plant)(Box::new(Inner(Rc::clone(&inner))));
    Box::new(Planted { original: machine.fork(), bug, inner, flawed, input: Vec::new() })
}

/// A machine with a planted bug. The bug has state of its own that can't be copied, so a copy repeats all steps. The description
/// leaves that state out: a search may miss a run with the bug, but it invents none.
struct Planted {
    original: Box<dyn Explorable>,
    bug: &'static Bug,
    inner: Rc<RefCell<Box<dyn Explorable>>>,
    flawed: Box<dyn Machine>,
    input: Vec<(Event, Now)>,
}

impl Explorable for Planted {
    fn fork(&self) -> Box<dyn Explorable> {
        let mut copy = plant(&*self.original, self.bug);
        for (event, now) in &self.input {
            let _ = copy.step(event.clone(), *now);
        }
        copy
    }

    fn describe(&self, out: &mut String) {
        self.inner.borrow().describe(out);
    }
}

impl Wrapper for Planted {
    fn inner(&self) -> &dyn Machine {
        &*self.flawed
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        self.input.push((event.clone(), now));
        self.flawed.step(event, now)
    }
}

/// The machine inside of the bug, of which the description is still needed.
struct Inner(Rc<RefCell<Box<dyn Explorable>>>);

impl Machine for Inner {
    fn name(&self) -> &'static str {
        self.0.borrow().name()
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        self.0.borrow_mut().step(event, now)
    }

    fn deadline(&self) -> Option<Deadline> {
        self.0.borrow().deadline()
    }

    fn workload(&self) -> Workload {
        self.0.borrow().workload()
    }

    fn is_synced(&self) -> bool {
        self.0.borrow().is_synced()
    }

    fn metrics(&self) -> &'static [Metric] {
        self.0.borrow().metrics()
    }

    fn patience(&self) -> Option<Duration> {
        self.0.borrow().patience()
    }
}

//! A watch that is refused once.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::object::Kind;
use lockstep_sim::cluster::FaultModel;

/// The failures of a list.
pub(crate) const CLASSES: [ErrorKind; 6] = [
    ErrorKind::KindNotServed,
    ErrorKind::Forbidden,
    ErrorKind::Gone,
    ErrorKind::Throttled,
    ErrorKind::Unavailable,
    ErrorKind::Unknown,
];

/// Makes the list of that number fail with this class.
pub(crate) struct Refusal {
    number: u64,
    class: ErrorKind,
    lists: Rc<Cell<u64>>,
}

impl Refusal {
    /// Returns the refusal and a counter of the lists so far.
    pub(crate) fn new(number: u64, class: ErrorKind) -> (Self, Rc<Cell<u64>>) {
        let lists = Rc::<Cell<u64>>::default();
        (Self { number, class, lists: Rc::clone(&lists) }, lists)
    }
}

impl FaultModel for Refusal {
    fn refuses_list(&mut self, _: Duration, _: usize, _: &Kind) -> Option<Failure> {
        self.lists.set(self.lists.get() + 1);
        (self.lists.get() == self.number).then(|| Failure::new(self.class, "injected"))
    }
}

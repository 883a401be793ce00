//! A kind that the API server does not serve for a while, although there are objects of it. A starting API server or a proxy answers
//! like this.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, Failure};
use lockstep_engine::object::Kind;
use lockstep_sim::cluster::{FaultModel, FaultVerdict};

/// Answers that a kind is not served, to the list of its watches and to one sort of request.
pub(crate) struct Unserved {
    kind: &'static str,
    request: &'static str,
    is_over: Rc<Cell<bool>>,
}

impl Unserved {
    /// Returns the fault, and the cell that says whether it is over.
    pub(crate) fn new(kind: &'static str, request: &'static str) -> (Self, Rc<Cell<bool>>) {
        let is_over = Rc::<Cell<bool>>::default();
        (Self { kind, request, is_over: Rc::clone(&is_over) }, is_over)
    }
}

impl FaultModel for Unserved {
    fn fate(&mut self, _: u64, _: Duration, _: usize, action: &Action) -> FaultVerdict {
        if action.name() == self.request && !self.is_over.get() {
            FaultVerdict::failed(ErrorKind::KindNotServed)
        } else {
            FaultVerdict::Served
        }
    }

    fn refuses_list(&mut self, _: Duration, _: usize, kind: &Kind) -> Option<Failure> {
        (kind.kind == self.kind && !self.is_over.get())
            .then(|| Failure::new(ErrorKind::KindNotServed, "injected"))
    }
}

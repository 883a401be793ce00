//! The systems outside Kubernetes: the APIs and brokers that some controllers use.

use std::any::Any;

use jiff::Timestamp;
use lockstep_engine::action::{Action, ErrorKind, Failure, Outcome};

/// The systems outside Kubernetes. They see the time only when an action or an event reaches them.
pub trait ExternalSystems: Any + Send {
    /// Returns whether an action is for one of these systems.
    fn serves(&self, action: &Action) -> bool {
        matches!(action, Action::Http(_) | Action::Registry(_) | Action::Broker(_))
    }

    /// Executes an action that is not a request to Kubernetes.
    fn carry_out(&mut self, process: usize, action: &Action, now: Timestamp) -> Outcome;

    /// Handles the crash of a process: its connections are closed.
    fn died(&mut self, process: usize);
}

impl dyn ExternalSystems {
    /// Returns the system of this type, if it is one of these.
    pub fn find<T: ExternalSystems>(&self) -> Option<&T> {
        let this: &dyn Any = self;
        match this.downcast_ref::<Combined>() {
            Some(Combined(systems)) => systems.iter().find_map(|system| system.find()),
            None => this.downcast_ref(),
        }
    }

    /// Like `find`, to change the system.
    pub fn find_mut<T: ExternalSystems>(&mut self) -> Option<&mut T> {
        let this: &mut dyn Any = self;
        if this.is::<Combined>() {
            let Combined(systems) = this.downcast_mut()?;
            return systems.iter_mut().find_map(|system| system.find_mut());
        }
        this.downcast_mut()
    }
}

/// The systems outside Kubernetes of several controllers. An action is for the first of them that serves it.
pub struct Combined(pub Vec<Box<dyn ExternalSystems>>);

impl ExternalSystems for Combined {
    fn carry_out(&mut self, process: usize, action: &Action, now: Timestamp) -> Outcome {
        match self.0.iter_mut().find(|system| system.serves(action)) {
            Some(system) => system.carry_out(process, action, now),
            None => Err(Failure::new(ErrorKind::Unavailable, "there is no such system")),
        }
    }

    fn died(&mut self, process: usize) {
        for system in &mut self.0 {
            system.died(process);
        }
    }
}

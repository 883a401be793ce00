//! Paths of values in a schema: fields, [`ITEMS`], [`KEYS`] and so on.

use std::cell::RefCell;
use std::rc::Rc;

/// The step to the items of a list.
pub(super) const ITEMS: &str = "@items";
/// The step to the indices of a list, of which the schema says nothing.
pub(super) const INDICES: &str = "@indices";
/// The step to the keys of a map.
pub(super) const KEYS: &str = "@keys";
/// The step to the values of a map.
pub(super) const VALUES: &str = "@values";

/// The path of a value. Its first step is a variable. It is empty if the value is not in the schema.
///
/// Paths share memory as they do on the server, where it shows: a path is extended in place if the memory has room. This also
/// changes the last step of another path that was extended in the same place before. In
/// `self.list.all(i, i.inner.all(x, x == i.name))`, the step `name` replaces `inner`, whose size is estimated afterwards.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    memory: Rc<RefCell<Vec<String>>>,
    length: usize,
    capacity: usize,
}

impl Path {
    /// Returns the path of a variable.
    pub(super) fn variable() -> Self {
        Self::default().join("self")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the path with one more step.
    pub(super) fn join(&self, step: &str) -> Self {
        let length = self.length + 1;
        if length <= self.capacity {
            let mut memory = self.memory.borrow_mut();
            if let Some(former) = memory.get_mut(self.length) {
                step.clone_into(former);
            } else {
                memory.push(step.to_owned());
            }
            return Self { memory: Rc::clone(&self.memory), length, capacity: self.capacity };
        }
        let mut memory = self.steps();
        memory.push(step.to_owned());
        Self { memory: Rc::new(RefCell::new(memory)), length, capacity: (2 * self.capacity).max(1) }
    }

    /// Returns all steps.
    pub(super) fn steps(&self) -> Vec<String> {
        self.memory.borrow()[..self.length].to_vec()
    }
}

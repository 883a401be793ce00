//! The state of the controller.

use lockstep_engine::operator::Outbox;
use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::store::Store;

/// The decisions of the controller, and the state that they depend on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Controller {
    /// What watches and answers have shown.
    pub(crate) store: Store,
    pub(crate) outbox: Outbox<Key>,
}

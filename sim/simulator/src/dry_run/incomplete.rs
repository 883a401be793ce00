//! Why a dry run has no result yet, or never will.

use lockstep_engine::action::{Action, Failure};
use lockstep_engine::object::{Kind, ObjectRef};

/// The reason why there is no forecast.
#[derive(Debug, thiserror::Error)]
pub enum Incomplete {
    /// The snapshot lacks the answers to these reads. None of them is a write.
    #[error("the snapshot lacks {} answers", .0.len())]
    Missing(Vec<Action>),
    /// The cluster serves a kind that the model of the API server lacks.
    #[error("the model of the API server has no {0}, which the cluster serves")]
    UnknownKind(Kind),
    /// The API server would refuse a planned change.
    #[error("the API server would refuse the change of {target} ({failure})")]
    Refused {
        /// The object.
        target: ObjectRef,
        /// The refusal.
        failure: Failure,
    },
}

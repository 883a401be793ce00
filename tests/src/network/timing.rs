//! The times of a run on which the plan, the operators and the users agree.

use std::time::Duration;

/// Fault injection and the operations of users end at this time.
pub const TROUBLE: Duration = Duration::from_mins(2);

/// The resync interval of a leader. It is longer than the cluster takes to settle unless messages were lost, so a resync does
/// not hide missed events.
pub const RESYNC: Duration = Duration::from_mins(5);

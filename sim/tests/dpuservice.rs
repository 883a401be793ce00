//! Tests of the DPUService controller in a simulated cluster without random faults.

mod allocator;
#[path = "dpuservice/bench.rs"]
mod bench;
mod bystanders;
mod every_failure;
#[path = "dpuservice/failures.rs"]
mod failures;
#[path = "dpuservice/flows.rs"]
mod flows;
#[path = "dpuservice/interference.rs"]
mod interference;
mod recorded;
#[path = "dpuservice/recovery.rs"]
mod recovery;
mod refusal;
#[path = "dpuservice/replay.rs"]
mod replay;
#[path = "dpuservice/rollout.rs"]
mod rollout;
#[path = "dpuservice/scale.rs"]
mod scale;
#[path = "dpuservice/servers.rs"]
mod servers;
#[path = "dpuservice/syncs.rs"]
mod syncs;
#[path = "dpuservice/tolerance.rs"]
mod tolerance;
mod unserved;
mod user;
#[path = "dpuservice/watches.rs"]
mod watches;

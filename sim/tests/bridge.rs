//! Tests of the Bridge in a simulated cluster without random faults: the flows, and every reason of every condition.

#[path = "bridge/addresses.rs"]
mod addresses;
mod allocator;
#[path = "bridge/bench.rs"]
mod bench;
mod bystanders;
#[path = "bridge/changes.rs"]
mod changes;
#[path = "bridge/contested.rs"]
mod contested;
#[path = "bridge/deletion.rs"]
mod deletion;
#[path = "bridge/encryption.rs"]
mod encryption;
mod every_failure;
#[path = "bridge/exposure.rs"]
mod exposure;
#[path = "bridge/failures.rs"]
mod failures;
#[path = "bridge/flows.rs"]
mod flows;
#[path = "bridge/judgement.rs"]
mod judgement;
#[path = "bridge/kubeconfig.rs"]
mod kubeconfig;
#[path = "bridge/namespaces.rs"]
mod namespaces;
#[path = "bridge/objects.rs"]
mod objects;
#[path = "bridge/older_hypershift.rs"]
mod older_hypershift;
#[path = "bridge/own_pool.rs"]
mod own_pool;
#[path = "bridge/phases.rs"]
mod phases;
#[path = "bridge/prerequisites.rs"]
mod prerequisites;
#[path = "bridge/reasons.rs"]
mod reasons;
mod recorded;
mod refusal;
#[path = "bridge/replay.rs"]
mod replay;
#[path = "bridge/retries.rs"]
mod retries;
#[path = "bridge/scale.rs"]
mod scale;
#[path = "bridge/scenarios.rs"]
mod scenarios;
#[path = "bridge/validation.rs"]
mod validation;
#[path = "bridge/watches.rs"]
mod watches;

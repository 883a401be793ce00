//! The NamespaceClass operator in a simulated cluster: its flows, with a crash and a failure at every action.

mod allocator;
mod bystanders;
mod recorded;
mod refusal;
mod unserved;

mod namespaceclass {
    mod bad_input;
    pub(crate) mod bench;
    mod failures;
    mod flows;
    mod guarded;
    mod other_writers;
    mod ownership;
    mod quiet;
    mod races;
    mod reasons;
    mod rollout;
    mod variables;
    mod watches;
}

//! The NamespaceClass operator in a simulated cluster: its flows, killed and failed at every action.

mod namespaceclass {
    pub(crate) mod bench;
    mod bad_input;
    mod failures;
    mod flows;
    mod ownership;
    mod quiet;
}

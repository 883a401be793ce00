//! Parsers for texts that users and other controllers write.
//!
//! | module | parses |
//! | --- | --- |
//! | [`address`] | the addresses of MetalLB's pools |
//! | [`docker_config`] | pull secrets |
//! | [`ssh_key`] | SSH public keys |
//! | [`version`] | OpenShift versions, and which of them HyperShift supports |
//!
//! An error states what is wrong, where, and how to fix it; it never shows a text that may be secret.

pub mod address;
pub mod docker_config;
pub mod ssh_key;
pub mod version;

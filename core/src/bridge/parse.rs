//! What users and other controllers write as text, and the Bridge has to understand.
//!
//! | module | reads |
//! | --- | --- |
//! | [`address`] | the addresses of MetalLB's pools |
//! | [`docker_config`] | pull secrets |
//! | [`ssh_key`] | SSH public keys |
//! | [`version`] | OpenShift versions, and which of them HyperShift supports |
//!
//! An error says what is wrong, where, and how to mend it; it never shows what may be secret.

pub mod address;
pub mod docker_config;
pub mod ssh_key;
pub mod version;

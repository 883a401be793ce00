//! What every controller is made of.

pub mod action;
pub mod machine;

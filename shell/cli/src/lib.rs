//! The `lockstep` program: its commands, the list of the controllers that it contains, and their CRDs and permissions. What
//! another program that runs controllers could use belongs in `lockstep-runtime`.

pub mod controllers;
pub mod definitions;
pub mod permissions;

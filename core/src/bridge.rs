//! The DPF-HCP Bridge: a hosted control plane for each of its DPU clusters.

pub mod parse;

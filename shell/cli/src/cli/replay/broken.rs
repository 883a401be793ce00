//! The error of a recording that cannot be replayed.

use std::fmt::Display;

use anyhow::anyhow;
use lockstep_engine::recording::Header;

/// Returns an error with the version of the program that wrote the recording.
pub(super) fn broken(header: &Header, file: &impl Display, error: &impl Display) -> anyhow::Error {
    anyhow!("{file} (written by lockstep {}): {error}", header.program)
}

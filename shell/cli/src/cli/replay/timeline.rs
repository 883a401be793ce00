//! The page with both runs side by side.

use std::path::Path;

use anyhow::Context as _;
use lockstep_engine::recording::Header;
use lockstep_sim::Timeline;

use super::comparison::Comparison;
use super::edited::EditedStep;

/// Writes the page.
pub(super) fn write(
    path: &Path,
    edited: &EditedStep,
    header: &Header,
    comparison: &Comparison,
) -> anyhow::Result<()> {
    let timeline = Timeline::compared(&header.machine, edited.step, &edited.text, &comparison.steps);
    std::fs::write(path, timeline.html()).with_context(|| format!("cannot write {}", path.display()))
}

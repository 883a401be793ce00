//! The CRDs of the kinds around our controllers, as their projects publish them.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use lockstep_engine::yaml;
use lockstep_external as external;
use lockstep_external::System;
use serde_json::Value;

/// The environment variable that names the folder of the upstream CRDs.
const UPSTREAM: &str = "LOCKSTEP_UPSTREAM_CRDS";

/// Returns the upstream CRDs of the kinds that the models serve, if they are available; otherwise those of the models.
pub fn definitions(systems: &[System]) -> anyhow::Result<Vec<Value>> {
    let ours = external::definitions(systems);
    let Some(folder) = std::env::var_os(UPSTREAM) else {
        // Not the macro: its output is captured for tests that pass.
        let prefix = "SKIPPED: comparison with the upstream CRDs:";
        let _ =
            writeln!(std::io::stderr(), "{prefix} {UPSTREAM} is not set; the CRDs of the models are used");
        return Ok(ours);
    };
    let file = |definition: &Value| {
        let spec = &definition["spec"];
        let (group, plural) = (spec["group"].as_str()?, spec["names"]["plural"].as_str()?);
        Some(Path::new(&folder).join(format!("{group}_{plural}.yaml")))
    };
    let read = |definition: &Value| {
        let path = file(definition).context("a definition without a name")?;
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(yaml::read(&text)?)
    };
    ours.iter().map(read).collect()
}

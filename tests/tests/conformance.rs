//! The API server model answers as a real kube-apiserver does.

use std::path::{Path, PathBuf};

use lockstep_tests::conformance::{RealArm, Scenario, transcript};
use lockstep_tests::control_plane::ControlPlane;

/// The hand-written scenarios, in the order of their names; `SCENARIO` picks one.
fn scenarios() -> anyhow::Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let picked = std::env::var("SCENARIO").ok();
    let mut paths = std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .filter(|path: &anyhow::Result<PathBuf>| {
            path.as_ref().is_ok_and(|path| {
                picked.as_ref().is_none_or(|name| path.file_stem().is_some_and(|stem| stem == name.as_str()))
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[tokio::test]
async fn hand_written_scenarios() -> anyhow::Result<()> {
    let mut real = RealArm::new(ControlPlane::shared().client().await?);
    for path in scenarios()? {
        let scenario = Scenario::read(&path)?;
        let start = std::time::Instant::now();
        for (index, answer) in transcript(&scenario, &mut real).await?.iter().enumerate() {
            let step = &scenario.steps[index];
            println!("{} {}: {} {}", scenario.name, index + 1, step.method, step.path);
            println!("  {} {:?} {}", answer.code, answer.warnings, answer.body);
        }
        println!("TIME {} {:?}", scenario.name, start.elapsed());
    }
    Ok(())
}

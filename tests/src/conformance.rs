//! Compares the API server model with a real kube-apiserver.
//!
//! ```text
//!   scenario (YAML or generated) ──► request ─┬─► real arm  ──► answer ──► normalise ─┐
//!                                             └─► model arm ──► answer ──► normalise ─┴─► differences
//! ```
//!
//! Both servers get the same requests, except for values that only a server can know (uids, resource versions, continue
//! tokens). A scenario takes these from earlier answers of the same server.

mod answer;
mod arm;
mod difference;
mod generate;
mod lifecycle;
mod merge;
mod model_arm;
mod normalise;
mod protobuf;
mod real_arm;
mod scenario;
mod specimen;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tokio::sync::RwLock;

use self::scenario::CLIENT;

pub use self::answer::Answer;
pub use self::arm::Arm;
pub use self::difference::differences;
pub use self::generate::{Kind, changing_definitions, install, sequences, widgets};
pub use self::lifecycle::{lifecycles, own_definitions, own_lifecycles};
pub use self::model_arm::ModelArm;
pub use self::normalise::{Normaliser, Pairs};
pub use self::real_arm::RealArm;
pub use self::scenario::{Scenario, Step, Watch};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of requests that were sent to both servers and compared.
    pub compared: usize,
    /// A readable description of each difference.
    pub disagreements: Vec<String>,
}

impl Report {
    /// Adds the result of another comparison.
    pub fn absorb(&mut self, other: Self) {
        self.compared += other.compared;
        self.disagreements.extend(other.disagreements);
    }
}

/// All comparisons share one etcd. While one of them compacts its history, no other may be about to read that history.
static HISTORY: RwLock<()> = RwLock::const_new(());

/// Runs a scenario on both servers and compares every answer.
pub async fn compare(
    scenario: &Scenario,
    model: &mut impl Arm,
    real: &mut impl Arm,
) -> anyhow::Result<Report> {
    let compacts = scenario.steps.iter().any(|step| step.compact);
    let _alone = if compacts { Some(HISTORY.write().await) } else { None };
    let _among_others = if compacts { None } else { Some(HISTORY.read().await) };
    let (model, real) = (transcript(scenario, model).await?, transcript(scenario, real).await?);
    let mut report = Report { compared: scenario.steps.len(), disagreements: Vec::new() };
    let mut pairs = Pairs::default();
    for (index, step) in scenario.steps.iter().enumerate() {
        let found = differences(&model[index], &real[index], &mut pairs);
        if !found.is_empty() {
            report.disagreements.push(describe(scenario, index, step, &found));
        }
    }
    Ok(report)
}

/// Runs a scenario on one server and returns the normalised answers.
pub async fn transcript(scenario: &Scenario, arm: &mut impl Arm) -> anyhow::Result<Vec<Answer>> {
    let mut variables = BTreeMap::from([(CLIENT, scenario.variables())]);
    let mut normaliser = Normaliser::default();
    let mut answers = Vec::new();
    arm.prepare(&scenario.namespace).await?;
    for step in &scenario.steps {
        if step.compact {
            arm.compact().await?;
        }
        let shared = &variables[CLIENT];
        let mut known = variables.get(step.client).unwrap_or(shared).clone();
        let answer = arm.send(step, &known).await?;
        step.save(&answer, &mut known);
        variables.insert(step.client, known);
        answers.push(normaliser.normalise(step, answer));
    }
    Ok(answers)
}

fn describe(scenario: &Scenario, index: usize, step: &Step, found: &[String]) -> String {
    let mut text = format!("{}, step {}: {} {}", scenario.name, index + 1, step.method, step.path);
    if let Some(body) = &step.body {
        // Writing to a String can't fail.
        let _ = write!(text, "\n    body  {body}");
    }
    for difference in found {
        let _ = write!(text, "\n    {difference}");
    }
    text
}

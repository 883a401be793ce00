//! What the greeter brings along to be simulated.

use std::time::Duration;

use http::Method;
use lockstep_apiserver::server::ApiServer;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::Kind;
use lockstep_engine::yaml;
use lockstep_sim::cluster::Change;
use lockstep_sim::history::History;
use lockstep_sim::invariant::Invariant;
use lockstep_sim::{Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::controller::{BACKOFF, Greeter, LOBBY, NAME};
use super::{acts, desired, rules};

/// The greeter on its stage.
pub(crate) struct Greetings;

impl SystemUnderTest for Greetings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Greeter::new(seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "create", "patch", "patch_status", "delete"]
    }

    fn prepare(&self, hand: &mut dyn Client) {
        let definition: Value = yaml::read(include_str!("greetings.yaml")).expect("it is YAML");
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = hand.send(Method::POST, path, "application/json", &definition);
        assert_eq!(code, 201, "{answer}");
        let namespaces = Kind::known("", "v1", "Namespace", "namespaces", false);
        for name in acts::NAMESPACES.into_iter().chain([LOBBY]) {
            hand.create(&namespaces, &json!({ "metadata": { "name": name } }));
        }
    }

    fn acts(&self) -> &'static [Operation] {
        acts::ACTS
    }

    fn invariants(&self) -> &'static [Invariant] {
        rules::INVARIANTS
    }

    fn may_change(&self, change: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        rules::may_change(change)
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    /// A watch may be two minutes late when the storm ends, and the pass that it wakes may wait out the longest backoff.
    fn bound(&self) -> Duration {
        Duration::from_mins(5)
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        desired::differences(world.server)
    }
}

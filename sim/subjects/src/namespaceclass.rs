//! Tests the NamespaceClass operator with a few classes and namespaces, admins, tenants, and another controller.

use std::time::Duration;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::finalizer;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{ObjectRef, annotation};
use lockstep_engine::operator::Config;
use lockstep_external::{Level, Pace};
use lockstep_namespaceclass::Operator;
use lockstep_namespaceclass::controller::BACKOFF;
use lockstep_namespaceclass::names;
use lockstep_sim::cluster::Change;
use lockstep_sim::history::{History, reference};
use lockstep_sim::invariant::Invariant;
use lockstep_sim::subject::{Checker, Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

mod classes;
mod content;
mod desired;
mod operations;
mod repair_pace;
mod reported;
mod rival;
mod rules;
pub mod small;

pub(crate) use self::classes::{CLASSES, is_mistake};
pub(crate) use self::operations::{PERMIT_WATCHES, request_class};

/// The operator as a system under test.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceClass;

fn config(seed: u64) -> Config {
    let instance = format!("operator-{seed}");
    Config { concurrency: 3, resync: Duration::from_mins(10), instance, seed }
}

impl SystemUnderTest for NamespaceClass {
    fn name(&self) -> &'static str {
        lockstep_crds::namespaceclass::CONTROLLER
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Operator::new(config(seed)))
    }

    fn config(&self, seed: u64) -> Value {
        json!(config(seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["discover", "get", "apply", "create", "patch", "patch_status", "delete"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        for crd in lockstep_crds::of(self.name()) {
            client.create_kind(&json!(crd), &[]);
        }
        classes::install_widgets(client);
        operations::begin(client);
    }

    fn operations(&self) -> &'static [Operation] {
        operations::OPERATIONS
    }

    fn invariants(&self) -> &'static [Invariant] {
        rules::INVARIANTS
    }

    fn logs_written_conditions(&self) -> bool {
        true
    }

    fn reports(&self, server: &ApiServer) -> Vec<ObjectRef> {
        reported::rebuilt(server)
    }

    fn may_change(&self, change: &Change, server: &ApiServer, history: &History) -> Result<(), String> {
        rules::may_change(change, server, history)
    }

    fn witness(&self) -> Option<Box<dyn Checker>> {
        Some(Box::new(repair_pace::RepairPace::default()))
    }

    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        vec![Box::new(Level::new(rival::Rival, Pace::BRISK, seed))]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    /// A conflict over a field may delay drift corrections by five minutes, and keeps `Ready` false for ten more.
    fn bound(&self) -> Duration {
        Duration::from_mins(20)
    }

    /// Removes what blocks deletions and keeps fields contested, corrects classes and installs what they need, confirms the removals
    /// that they hold, and permits all watches.
    fn calm(&self, client: &mut dyn Client) {
        client.permit_all_watches(&operations::watched());
        classes::install_widgets(client);
        for class in client.server().objects(&names::class()) {
            classes::correct(client, &class);
            operations::confirm_removals(client, &reference(&names::class(), &class), true);
        }
        for kind in classes::pool_kinds().into_iter().chain([names::binding()]) {
            for object in client.server().objects(&kind) {
                let mut metadata = json!({});
                if finalizer::is_held(&object, operations::HOLD) {
                    metadata["finalizers"] = Value::Null;
                }
                if annotation(&object, operations::INSISTS).is_some() {
                    metadata["annotations"] = json!({ operations::INSISTS: null });
                }
                if metadata != json!({}) {
                    client.merge(&reference(&kind, &object), &json!({ "metadata": metadata }));
                }
            }
        }
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let reported = reported::differences(world.server);
        desired::differences(world.server).into_iter().chain(reported).collect()
    }
}

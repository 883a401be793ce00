//! The external systems around a simulated controller: faults affect the controller, and never the external systems.

use std::time::Duration;

use http::Method;
use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::{Action, ActionId, ErrorKind, KubeRequest, Request};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::{Deadline, DeadlineReason, Event, Machine, Step};
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_engine::time::{Monotonic, Now};
use lockstep_external as external;
use lockstep_external::Pace;
use lockstep_external::hypershift::hosted_cluster_kind;
use lockstep_sim::cluster::{Author, Change, What};
use lockstep_sim::draw::Range;
use lockstep_sim::history::History;
use lockstep_sim::invariant::Invariant;
use lockstep_sim::{Client, Operation, Simulation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::manifests::{NAMESPACE, hosted_cluster, pool, secret};

/// Requests its HostedCluster until the server answers that it exists.
#[derive(Debug, Default)]
struct Bridge {
    leading: bool,
    done: bool,
    asked: u64,
    due: Option<Monotonic>,
}

impl Machine for Bridge {
    fn name(&self) -> &'static str {
        "bridge"
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        match event {
            Event::LeadershipChanged { leading } => self.leading = leading,
            Event::Finished { outcome, .. } => {
                self.done = match outcome {
                    Ok(_) => true,
                    Err(failure) => failure.class == ErrorKind::AlreadyExists,
                };
                self.due = (!self.done).then_some(now.monotonic + Duration::from_secs(10));
            }
            _ => {}
        }
        let waits = self.due.is_some_and(|due| due > now.monotonic) || (self.asked > 0 && self.due.is_none());
        if !self.leading || self.done || waits {
            return Step::default();
        }
        self.asked += 1;
        self.due = None;
        let target = ObjectRef::namespaced(&hosted_cluster_kind(), NAMESPACE, "prod");
        let action = Action::Kube(KubeRequest::Create { target, manifest: hosted_cluster("prod").into() });
        Step { requests: vec![Request { id: ActionId(self.asked), action }], notes: Vec::new() }
    }

    fn deadline(&self) -> Option<Deadline> {
        self.due
            .filter(|_| self.leading)
            .map(|at| Deadline { at, reason: DeadlineReason::Work("another attempt") })
    }

    fn is_synced(&self) -> bool {
        true
    }
}

struct Bridges;

impl SystemUnderTest for Bridges {
    fn name(&self) -> &'static str {
        "bridge"
    }

    fn machine(&self, _: u64) -> Box<dyn Machine> {
        Box::new(Bridge::default())
    }

    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        external::controllers(&external::BRIDGE, Pace::SLOW, seed)
    }

    fn actions(&self) -> &'static [&'static str] {
        &["create"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        for definition in external::definitions(&external::BRIDGE) {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let (code, answer) = client.send(Method::POST, path, "application/json", &definition);
            assert_eq!(code, 201, "{answer}");
        }
        let namespaces = Kind::known("", "v1", "Namespace", "namespaces", false);
        for name in [NAMESPACE, external::metallb::NAMESPACE] {
            client.create(&namespaces, &json!({ "metadata": { "name": name } }));
        }
        let secrets = Kind::known("", "v1", "Secret", "secrets", true);
        client.create(&secrets, &secret("pull-secret", ".dockerconfigjson"));
        client.create(&secrets, &secret("ssh-key", "id_rsa.pub"));
        client.create(&external::metallb::pool_kind(), &pool("vips", "192.0.2.10/32", true));
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation {
            name: "delete the cluster",
            actor: "user",
            weight: 1,
            run: |client, _| {
                client.delete(&ObjectRef::namespaced(&hosted_cluster_kind(), NAMESPACE, "prod"));
            },
        }]
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[]
    }

    fn may_change(&self, _: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        Ok(())
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[]
    }

    /// Each process creates the cluster, whether it exists or not.
    fn becomes_idle(&self) -> bool {
        false
    }

    /// Long enough to delete one control plane and to create another.
    fn bound(&self) -> Duration {
        Duration::from_mins(5)
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let clusters = world.server.objects(&hosted_cluster_kind());
        let is_available = |cluster: &Value| {
            let conditions = cluster["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|found| found["type"] == "Available" && found["status"] == "True")
        };
        let left = clusters.iter().filter(|cluster| !is_available(cluster));
        left.map(|_| "the hosted cluster is neither available nor gone".to_owned()).collect()
    }
}

#[test]
fn storms_affect_the_controller_and_never_the_external_systems() {
    let simulation = Simulation::new(&Bridges);
    let stormy = Duration::from_mins(10);
    let (acts, aims) = (Bridges.operations(), Bridges.actions());
    let range = Range { controller: "bridge", stormy, faults: &[], acts, aims, members: Vec::new() };
    let (mut available, mut gone) = (0, 0);
    for seed in 0..40 {
        let plan = range.plan(seed);
        let run = simulation.run(&plan, true);
        assert_eq!(run.violation, None, "seed {seed}");
        assert_eq!(run.hash, simulation.run(&plan, false).hash, "seed {seed}");
        for entry in &run.journal {
            match &entry.what {
                What::Started { process } | What::Died { process } | What::Stepped { process, .. } => {
                    assert!(run.controllers.contains_key(process), "seed {seed}: {entry:?}");
                }
                What::Carried(carried) => assert_eq!(carried.action.name(), "create", "seed {seed}"),
                What::Changed(change) if change.by == Author::Client("hypershift") => {
                    available += usize::from(
                        change
                            .new
                            .as_ref()
                            .is_some_and(|new| new.to_string().contains("control plane is available")),
                    );
                    gone += usize::from(change.new.is_none());
                }
                What::Changed(_) => {}
            }
        }
    }
    assert!(available > 0 && gone > 0, "{available} {gone}");
}

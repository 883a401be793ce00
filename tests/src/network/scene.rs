//! The controller of a run, and its environment.

use std::time::Duration;

use lockstep_apiserver::host::State;
use lockstep_apiserver::server::{ApiServer, Options};
use lockstep_engine::random::Random;
use lockstep_external as external;
use lockstep_external::System;
use lockstep_sim::{SystemUnderTest, World};
use lockstep_subjects::{bridge, dpuservice};
use turmoil::Sim;

use super::beyond::Beyond;
use super::stage::{self, Direct};
use super::trace::Trace;
use super::{client, server, users, world};

/// A controller with its environment.
#[derive(Clone, Copy)]
pub enum Scene {
    /// NamespaceClass: users define classes and label namespaces ([`users`], [`world`]).
    Classes,
    /// A controller with the setup of the model level and the user operations from there ([`stage`]). These external systems
    /// run on a host of their own.
    Staged(&'static dyn SystemUnderTest, &'static [System]),
}

/// The Bridge, with HyperShift, DPF and MetalLB around it.
pub const BRIDGE: Scene = Scene::Staged(&bridge::Bridge, &external::BRIDGE);
/// The DPUService controller, with DPF, DPU clusters and Argo CD around it.
pub const DPUSERVICE: Scene = Scene::Staged(&dpuservice::DpuService, &external::DPUSERVICE);

impl Scene {
    /// Returns the scene of the controller with this name.
    pub fn of(controller: &str) -> Option<Self> {
        [Self::Classes, BRIDGE, DPUSERVICE].into_iter().find(|scene| scene.controller() == controller)
    }

    /// Returns the controller's name.
    pub fn controller(self) -> &'static str {
        match self {
            Self::Classes => lockstep_crds::namespaceclass::CONTROLLER,
            Self::Staged(subject, _) => subject.name(),
        }
    }

    /// Returns the external systems.
    pub fn beyond(self) -> Beyond {
        match self {
            Self::Classes => Beyond::default(),
            Self::Staged(subject, _) => Beyond::new(subject.outside()),
        }
    }

    /// Returns a server with the initial objects.
    pub fn prepared(self, beyond: &Beyond) -> ApiServer {
        match self {
            Self::Classes => server::prepared(),
            Self::Staged(subject, _) => {
                let mut server =
                    ApiServer::new(&Options { seed: 1, start: server::EPOCH, ..Options::default() });
                let mut client = Direct { server: &mut server, outside: beyond.lock(), now: server::EPOCH };
                subject.prepare(&mut client);
                drop(client);
                server
            }
        }
    }

    /// Adds the users, and the systems around the controller.
    pub fn populate(self, sim: &mut Sim<'_>, state: &State, beyond: &Beyond, seed: u64, trace: &Trace) {
        let random = Random::from_seed(seed);
        match self {
            Self::Classes => {
                sim.client("users", async move { users::act(client::client("users")?, random).await });
            }
            Self::Staged(subject, systems) => {
                let clock = trace.clone();
                sim.host(stage::HOST, move || stage::around(systems, seed, clock.clone()));
                let (state, beyond, trace) = (state.clone(), beyond.clone(), trace.clone());
                sim.client("users", stage::act(subject, state, beyond, random, trace));
            }
        }
    }

    /// Executes the operations of users after the end of fault injection.
    pub fn calm(self, state: &State, beyond: &Beyond, trace: &Trace) {
        if let Self::Staged(subject, _) = self {
            stage::with_client(state, beyond, trace, |client| subject.calm(client));
        }
    }

    /// Returns how long the systems around the controller may take after the end of fault injection.
    pub fn bound(self) -> Duration {
        match self {
            Self::Classes => Duration::ZERO,
            Self::Staged(subject, _) => subject.bound(),
        }
    }

    /// Returns the first difference from the desired state.
    pub fn undesired(self, state: &State, beyond: &Beyond, trace: &Trace) -> Option<String> {
        match self {
            Self::Classes => world::undesired(state),
            Self::Staged(subject, _) => state.with_server(|server| {
                let outside = beyond.lock();
                let world = World {
                    server,
                    outside: outside.as_deref().map(|outside| &**outside),
                    now: server::time(trace),
                };
                subject.differences(&world).into_iter().next()
            }),
        }
    }
}

//! A store for tests, with the objects that they describe.

use lockstep_crds::dpuservice::DPUServiceSpec;
use lockstep_engine::object::Name;
use lockstep_engine::operator::Config;
use lockstep_engine::recording::Recordable as _;
use serde_json::{Value, json};

use crate::Operator;
use crate::desired::application::manifest;
use crate::model::application::App;
use crate::model::cluster::Cluster;
use crate::model::project::{self, Project};
use crate::model::secret::Secret;
use crate::model::service::Service;
use crate::names::{ARGO_NAMESPACE, CLUSTER, MANAGED_BY, MANAGER, SERVER};
use crate::state::Controller;
use crate::store::Store;
use crate::store::cluster_access::Found;

/// A change of an object.
pub(crate) type Edit<'a> = &'a dyn Fn(&mut Value);

/// Returns the name of the only service.
pub(crate) fn service() -> Name {
    Name::new("team", "svc")
}

/// Returns the name of a cluster.
pub(crate) fn cluster(name: &str) -> Name {
    Name::new("fleet", name)
}

/// Returns the name of an Application or a Secret of Argo CD.
pub(crate) fn argo(name: &str) -> Name {
    Name::new(ARGO_NAMESPACE, name)
}

/// A store that has seen some objects. Each is a second younger than the one before.
#[derive(Default)]
pub(crate) struct Fixture {
    pub(crate) store: Store,
    spec: DPUServiceSpec,
    seen: u32,
}

impl Fixture {
    fn metadata(&mut self, name: &Name, annotations: &Value) -> Value {
        self.seen += 1;
        json!({
            "namespace": name.namespace,
            "name": name.name,
            "uid": name.name,
            "resourceVersion": self.seen.to_string(),
            "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", self.seen),
            "annotations": annotations,
        })
    }

    /// The service has this spec, beside its source.
    pub(crate) fn service(&mut self, mut spec: Value) -> &mut Self {
        spec["source"] = json!({ "repoURL": "https://charts", "version": "1.0.0", "chart": "svc" });
        self.spec = serde_json::from_value(spec.clone()).expect("a spec");
        let metadata = self.metadata(&service(), &Value::Null);
        let object = json!({ "metadata": metadata, "spec": spec });
        self.store.services.observe(service(), Service::read(&object));
        self
    }

    /// Returns the spec of the service.
    pub(crate) fn spec(&self) -> &DPUServiceSpec {
        &self.spec
    }

    pub(crate) fn cluster(&mut self, name: &str, phase: &str) -> &mut Self {
        let metadata = self.metadata(&cluster(name), &Value::Null);
        let object = json!({ "metadata": metadata, "status": { "phase": phase } });
        self.store.clusters.observe(cluster(name), Cluster::read(&object));
        self
    }

    /// The Secret of a cluster for Argo CD has the name of the cluster.
    pub(crate) fn secret(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> &mut Self {
        let annotations = json!({ CLUSTER: cluster(name).to_string(), SERVER: format!("https://{name}") });
        let mut object = json!({ "metadata": self.metadata(&argo(name), &annotations) });
        change(&mut object);
        self.store.secrets.observe(argo(name), Secret::read(&object));
        self
    }

    pub(crate) fn project(&mut self, servers: &[&str], change: impl FnOnce(&mut Value)) -> &mut Self {
        let mut object = json!({ "metadata": self.metadata(&project::name(), &Value::Null) });
        object["metadata"]["labels"] = json!({ MANAGED_BY: MANAGER });
        let destinations = servers.iter().map(|server| json!({ "server": server }));
        object["spec"] = json!({ "destinations": destinations.collect::<Vec<_>>() });
        change(&mut object);
        self.store.projects.observe(project::name(), Project::read(&object));
        self
    }

    /// The Application is as the spec of the service requires, synced and healthy.
    pub(crate) fn app(&mut self, name: &str, on: &str, change: impl FnOnce(&mut Value)) -> &mut Self {
        let mut object = manifest(&service(), &self.spec, &cluster(on), &format!("https://{on}"));
        let wanted = object["metadata"].take();
        object["metadata"] = self.metadata(&argo(name), &wanted["annotations"]);
        for field in ["labels", "finalizers"] {
            object["metadata"][field] = wanted[field].clone();
        }
        object["status"] = json!({ "sync": { "status": "Synced" }, "health": { "status": "Healthy" } });
        change(&mut object);
        self.store.applications.observe(argo(name), App::read(&object).expect("an Application"));
        self
    }

    /// The kubeconfig of a cluster names this server.
    pub(crate) fn found(&mut self, name: &str, server: &str) -> &mut Self {
        let uid = self.store.clusters.get(&cluster(name)).map(|cluster| cluster.uid.clone());
        let found = Found {
            uid: uid.unwrap_or_default(),
            server: Some(server.to_owned()),
            rival: None,
            problem: None,
            failing: false,
            compared: None,
        };
        self.store.found.insert(cluster(name), found);
        self
    }

    /// Returns a controller that has seen the objects.
    pub(crate) fn controller(self) -> Controller {
        let mut state = Operator::new(Config::default()).checkpoint()().expect("JSON");
        let controller = serde_json::from_value(state["controller"].take());
        Controller { store: self.store, ..controller.expect("the state of a controller") }
    }
}

/// Marks an object as being deleted.
pub(crate) fn deleting(object: &mut Value) {
    object["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
}

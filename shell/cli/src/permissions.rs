//! The permissions that each controller needs. `lockstep check` verifies them, and tests compare the chart's roles with them.

use lockstep_dpuservice::names::{ARGO_NAMESPACE, PROJECT};

/// Verbs, API group, resource, and the only name, if there is one.
pub type Grant = (&'static str, &'static str, &'static str, &'static str);

/// The permissions of the Bridge in all namespaces.
pub const BRIDGE: [Grant; 17] = [
    ("list watch patch", "dpf.hcp.bridge.com", "dpfhcpbridges", ""),
    ("update", "dpf.hcp.bridge.com", "dpfhcpbridges/finalizers", ""),
    ("update patch", "dpf.hcp.bridge.com", "dpfhcpbridges/status", ""),
    ("get list watch patch", "provisioning.dpu.nvidia.com", "dpuclusters", ""),
    ("get list watch create patch delete", "hypershift.openshift.io", "hostedclusters", ""),
    ("get list watch create patch delete", "hypershift.openshift.io", "nodepools", ""),
    ("get list watch create patch delete", "", "secrets", ""),
    ("list watch patch", "", "services", ""),
    ("list watch", "", "nodes", ""),
    ("get", "", "namespaces", ""),
    ("list watch", "storage.k8s.io", "storageclasses", ""),
    ("get list watch create patch delete", "metallb.io", "ipaddresspools", ""),
    ("get list watch create patch delete", "metallb.io", "l2advertisements", ""),
    ("list watch", "apps", "deployments", "operator"),
    ("list watch", "", "configmaps", "supported-versions"),
    ("create patch", "", "events", ""),
    ("create patch", "events.k8s.io", "events", ""),
];

/// The permissions of the DPUService controller in all namespaces.
pub const DPUSERVICE: [Grant; 5] = [
    ("get list watch patch", "svc.dpu.nvidia.com", "dpuservices", ""),
    ("patch", "svc.dpu.nvidia.com", "dpuservices/status", ""),
    ("get list watch", "provisioning.dpu.nvidia.com", "dpuclusters", ""),
    ("get list watch", "", "secrets", ""),
    ("create patch", "events.k8s.io", "events", ""),
];

/// Its additional permissions in Argo CD's namespace.
pub const DPUSERVICE_IN_ARGOCD: [Grant; 4] = [
    ("list watch create patch delete", "argoproj.io", "applications", ""),
    ("list watch patch delete", "argoproj.io", "appprojects", PROJECT),
    ("create", "argoproj.io", "appprojects", ""),
    ("create patch delete", "", "secrets", ""),
];

/// The permissions of the NamespaceClass operator in all namespaces, besides [`CLASS_RESOURCE_VERBS`] on the kinds in classes.
pub const NAMESPACECLASS: [Grant; 8] = [
    ("get list watch patch", "", "namespaces", ""),
    ("get list watch", "namespaceclass.akuity.io", "namespaceclasses", ""),
    ("list watch create patch delete", "namespaceclass.akuity.io", "namespaceclassbindings", ""),
    ("patch", "namespaceclass.akuity.io", "namespaceclasses/status", ""),
    ("patch", "namespaceclass.akuity.io", "namespaceclassbindings/status", ""),
    ("update", "", "namespaces/finalizers", ""),
    ("update", "namespaceclass.akuity.io", "namespaceclassbindings/finalizers", ""),
    ("create patch", "events.k8s.io", "events", ""),
];

/// The verbs that the NamespaceClass operator needs on each kind that a class contains.
pub const CLASS_RESOURCE_VERBS: &str = "get list watch create patch delete";

/// The permissions of a Sentinel in the namespace of its SentinelConfig, besides `get` on the Secret of its broker.
pub const SENTINEL: [Grant; 2] = [
    ("get list watch", "hyperfleet.redhat.com", "sentinelconfigs", ""),
    ("get patch", "hyperfleet.redhat.com", "sentinelconfigs/status", ""),
];

/// The verbs that leader election needs on its Lease. It also needs `create` on Leases.
pub const LEASE_VERBS: &str = "get update";

/// The permissions of one controller that do not depend on the objects in the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Permissions {
    /// In all namespaces.
    pub everywhere: &'static [Grant],
    /// In one namespace, with its name.
    pub in_namespace: Option<(&'static str, &'static [Grant])>,
}

/// Returns the permissions of a controller of `lockstep run`.
pub fn of(controller: &str) -> Option<Permissions> {
    let (everywhere, in_namespace): (&[Grant], _) = match controller {
        lockstep_crds::bridge::CONTROLLER => (&BRIDGE, None),
        lockstep_crds::dpuservice::CONTROLLER => {
            (&DPUSERVICE, Some((ARGO_NAMESPACE, &DPUSERVICE_IN_ARGOCD[..])))
        }
        lockstep_crds::namespaceclass::CONTROLLER => (&NAMESPACECLASS, None),
        _ => return None,
    };
    Some(Permissions { everywhere, in_namespace })
}

#[cfg(test)]
mod tests {
    use lockstep_engine::action::{Action, WatchCommand};
    use lockstep_engine::machine::Event;
    use lockstep_engine::operator::Config;
    use lockstep_engine::time::{Monotonic, Now, Wall};

    use super::*;
    use crate::controllers;

    /// Returns what a controller watches first.
    fn watches(controller: &str) -> Vec<Action> {
        let config = Config {
            concurrency: 1,
            resync: std::time::Duration::from_mins(10),
            instance: String::new(),
            seed: 0,
        };
        let now =
            Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START };
        let step = controllers::machine(controller, &config).unwrap().step(Event::Started, now);
        step.requests.into_iter().map(|request| request.action).collect()
    }

    #[test]
    fn every_watch_of_a_controller_is_among_its_permissions() {
        for set in controllers::select_running(&[]).unwrap() {
            let needed = of(set.controller).expect(set.controller);
            for action in watches(set.controller) {
                let Action::Watch(WatchCommand::Start { kind, scope }) = action else { continue };
                let there = needed.in_namespace.filter(|(name, _)| scope.namespace.as_deref() == Some(*name));
                let there = there.map_or(&[][..], |(_, grants)| grants);
                let name = scope.name.unwrap_or_default();
                for verb in ["list", "watch"] {
                    let is_granted =
                        needed.everywhere.iter().chain(there).any(|(verbs, group, resource, only)| {
                            (*group, *resource) == (kind.group.as_str(), kind.plural.as_str())
                                && (only.is_empty() || *only == name)
                                && verbs.split(' ').any(|granted| granted == verb)
                        });
                    assert!(is_granted, "{}: {verb} {kind} {name}", set.controller);
                }
            }
        }
    }
}

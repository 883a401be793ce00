//! The controllers that have a bundle.

/// A controller as a package.
pub(super) struct Package {
    pub(super) controller: &'static str,
    pub(super) display_name: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) categories: &'static str,
    /// The example in the checkout that a console offers to create.
    pub(super) example: &'static str,
}

/// All packages.
pub(super) const PACKAGES: [Package; 2] = [
    Package {
        controller: "namespaceclass",
        display_name: "NamespaceClass operator",
        summary: "Keeps the resources of a class in every namespace with its label",
        description: "A NamespaceClass lists resources. Every namespace with the label \
            `namespaceclass.akuity.io/name=<class>` gets them, also when the class is edited, switched or removed. A \
            NamespaceClassBinding in each namespace reports the result.\n\nClasses may contain ConfigMaps, Secrets, \
            ServiceAccounts, LimitRanges, ResourceQuotas and NetworkPolicies. Every user who may write a NamespaceClass acts \
            with these permissions in every namespace. For other kinds, bind another ClusterRole to the ServiceAccount \
            `lockstep-namespaceclass`.",
        categories: "Security, Developer Tools",
        example: "deploy/examples/namespaceclass/restricted.yaml",
    },
    Package {
        controller: "bridge",
        display_name: "DPF-HCP Bridge",
        summary: "Creates hosted OpenShift control planes for DPU clusters",
        description: "For each DPFHCPBridge, the Bridge creates a hosted OpenShift control plane (HyperShift) and gives its \
            kubeconfig to the DPU cluster. The cluster needs HyperShift and DPF, and MetalLB for load balancers. The Bridge \
            waits for missing ones and reports them in conditions.\n\nIts account may read and write Secrets in all namespaces, \
            because bridges and DPU clusters can be in any namespace.",
        categories: "OpenShift Optional, Networking",
        example: "deploy/examples/bridge/production.yaml",
    },
];

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The namespace that a console suggests. The controllers run in the namespace of their pods, whichever it is.
pub(super) const NAMESPACE: &str = "lockstep-system";

impl Package {
    pub(super) fn name(&self) -> String {
        format!("lockstep-{}", self.controller)
    }
}

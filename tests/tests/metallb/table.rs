//! User operations, and the addresses of all Services after each of them.

use serde_json::{Map, Value, json};

/// An operation of a user. Texts are YAML.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Create or change a pool with this spec.
    Pool(&'static str, &'static str),
    /// The same in a namespace other than MetalLB's.
    ForeignPool(&'static str, &'static str),
    /// Delete a pool.
    NoPool(&'static str),
    /// Create a Service, which may request an address.
    Service(&'static str, Option<&'static str>),
    /// Create a Service that differs from the others in these fields.
    Special(&'static str, &'static str),
    /// Request an address for a Service, or no specific address.
    Ask(&'static str, Option<&'static str>),
    /// Change a Service.
    Change(&'static str, &'static str),
    /// Change the status of a Service.
    Status(&'static str, &'static str),
    /// Delete a Service.
    Gone(&'static str),
}

/// All Services and their addresses.
type Addresses = &'static [(&'static str, Option<&'static str>)];

/// Steps, each with the resulting addresses.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) steps: &'static [(Step, Addresses)],
}

const POOL: Step = Step::Pool("small", "{addresses: [192.0.2.1-192.0.2.3]}");
const X: &str = "192.0.2.1";
const Y: &str = "192.0.2.2";
const Z: &str = "192.0.2.3";

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "who asks for nothing gets the first free address, and keeps it",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", None), &[("a", Some(X))]),
            (Step::Service("b", None), &[("a", Some(X)), ("b", Some(Y))]),
            (Step::Gone("a"), &[("b", Some(Y))]),
            (Step::Service("c", None), &[("b", Some(Y)), ("c", Some(X))]),
        ],
    },
    Row {
        name: "who asks for a free address gets it",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(Z)), &[("a", Some(Z))]),
            (Step::Ask("a", Some(Y)), &[("a", Some(Y))]),
            (Step::Ask("a", None), &[("a", Some(Y))]),
        ],
    },
    Row {
        name: "who asks for the address of another loses its own",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(Y)), &[("a", Some(X)), ("b", Some(Y))]),
            (Step::Ask("b", Some(X)), &[("a", Some(X)), ("b", None)]),
        ],
    },
    Row {
        name: "who was refused is not looked at again when the holder moves, but at any write",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(X)), &[("a", Some(X)), ("b", None)]),
            (Step::Ask("a", Some(Y)), &[("a", Some(Y)), ("b", None)]),
            (Step::Change("b", "{metadata: {labels: {looked: at}}}"), &[("a", Some(Y)), ("b", Some(X))]),
        ],
    },
    Row {
        name: "who was refused is looked at again when the holder goes",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(X)), &[("a", Some(X)), ("b", None)]),
            (Step::Gone("a"), &[("b", Some(X))]),
        ],
    },
    Row {
        name: "a refused Service is reconciled again when the holder loses its address by an unsuccessful request",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(Y)), &[("a", Some(X)), ("b", Some(Y))]),
            (Step::Service("c", Some(X)), &[("a", Some(X)), ("b", Some(Y)), ("c", None)]),
            (Step::Ask("a", Some(Y)), &[("a", None), ("b", Some(Y)), ("c", Some(X))]),
        ],
    },
    Row {
        name: "who was refused is looked at again when the pools change",
        steps: &[
            (Step::Pool("small", "{addresses: [192.0.2.1/32]}"), &[]),
            (Step::Service("a", None), &[("a", Some(X))]),
            (Step::Service("b", None), &[("a", Some(X)), ("b", None)]),
            (Step::Service("c", Some(Z)), &[("a", Some(X)), ("b", None), ("c", None)]),
            (
                Step::Pool("more", "{addresses: [192.0.2.2-192.0.2.3]}"),
                &[("a", Some(X)), ("b", Some(Y)), ("c", Some(Z))],
            ),
        ],
    },
    Row {
        name: "a Service that is no load balancer any more gives its address back",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(X)), &[("a", Some(X)), ("b", None)]),
            (
                Step::Change("a", "{spec: {type: ClusterIP, allocateLoadBalancerNodePorts: null}}"),
                &[("a", None), ("b", Some(X))],
            ),
        ],
    },
    Row {
        name: "an address that no pool holds is refused",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some("198.51.100.1")), &[("a", None)]),
            (Step::Service("b", Some("nonsense")), &[("a", None), ("b", None)]),
            (Step::Ask("a", Some(X)), &[("a", Some(X)), ("b", None)]),
            (Step::Ask("a", Some("198.51.100.1")), &[("a", None), ("b", None)]),
        ],
    },
    Row {
        name: "what is no address leaves an address that is there",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Ask("a", Some("nonsense")), &[("a", Some(X))]),
        ],
    },
    Row {
        name: "the family of a Service counts",
        steps: &[
            (Step::Pool("six", "{addresses: [\"2001:db8::/126\"]}"), &[]),
            (Step::Service("a", None), &[("a", None)]),
            (Step::Service("b", Some("2001:db8::1")), &[("a", None), ("b", None)]),
            (POOL, &[("a", Some(X)), ("b", None)]),
        ],
    },
    Row {
        name: "a pool that does not assign by itself serves who asks",
        steps: &[
            (Step::Pool("small", "{addresses: [192.0.2.1-192.0.2.3], autoAssign: false}"), &[]),
            (Step::Service("a", None), &[("a", None)]),
            (Step::Service("b", Some(X)), &[("a", None), ("b", Some(X))]),
        ],
    },
    Row {
        name: "a pool of another namespace does not count",
        steps: &[
            (Step::ForeignPool("foreign", "{addresses: [192.0.2.1-192.0.2.3]}"), &[]),
            (Step::Service("a", Some(X)), &[("a", None)]),
            (POOL, &[("a", Some(X))]),
        ],
    },
    Row {
        name: "a pool that goes takes its addresses along",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::NoPool("small"), &[("a", None)]),
            (POOL, &[("a", Some(X))]),
        ],
    },
    Row {
        name: "a pool that shrinks takes back what it no longer holds",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(Z)), &[("a", Some(Z))]),
            (Step::Service("b", None), &[("a", Some(Z)), ("b", Some(X))]),
            (Step::Pool("small", "{addresses: [192.0.2.1-192.0.2.2]}"), &[("a", None), ("b", Some(X))]),
        ],
    },
    Row {
        name: "while a pool is invalid, what was loaded before counts",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Pool("bad", "{addresses: [192.0.2.9-192.0.2.5]}"), &[("a", Some(X))]),
            (Step::Pool("more", "{addresses: [198.51.100.0/24]}"), &[("a", Some(X))]),
            (Step::Service("b", Some("198.51.100.1")), &[("a", Some(X)), ("b", None)]),
            (Step::Service("c", Some(Y)), &[("a", Some(X)), ("b", None), ("c", Some(Y))]),
            (Step::NoPool("bad"), &[("a", Some(X)), ("b", Some("198.51.100.1")), ("c", Some(Y))]),
        ],
    },
    Row {
        name: "pools that overlap are invalid",
        steps: &[
            (POOL, &[]),
            // The address of this Service shows that the pool is loaded.
            (Step::Service("loaded", Some(X)), &[("loaded", Some(X))]),
            (Step::Pool("again", "{addresses: [192.0.2.3-192.0.2.4]}"), &[("loaded", Some(X))]),
            (Step::Service("a", Some("192.0.2.4")), &[("a", None), ("loaded", Some(X))]),
            (Step::Service("b", Some(Z)), &[("a", None), ("b", Some(Z)), ("loaded", Some(X))]),
        ],
    },
    Row {
        name: "a pool may be for some namespaces only",
        steps: &[
            (
                Step::Pool(
                    "other",
                    "{addresses: [192.0.2.1-192.0.2.3], serviceAllocation: {namespaces: [default]}}",
                ),
                &[],
            ),
            (Step::Service("a", Some(X)), &[("a", None)]),
            (
                Step::Pool(
                    "other",
                    "{addresses: [192.0.2.1-192.0.2.3], serviceAllocation: {namespaces: [default, metallb-table]}}",
                ),
                &[("a", Some(X))],
            ),
        ],
    },
    Row {
        name: "a pool for one address of one namespace serves who asks, and an address stays while both are in it",
        steps: &[
            (
                Step::Pool(
                    "own",
                    "{addresses: [192.0.2.1/32], autoAssign: false, avoidBuggyIPs: false, serviceAllocation: {namespaces: [metallb-table]}}",
                ),
                &[],
            ),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", None), &[("a", Some(X)), ("b", None)]),
            (
                Step::Pool(
                    "own",
                    "{addresses: [192.0.2.2/32, 192.0.2.1/32], autoAssign: false, avoidBuggyIPs: false, serviceAllocation: {namespaces: [metallb-table]}}",
                ),
                &[("a", Some(X)), ("b", None)],
            ),
            (Step::Ask("a", Some(Y)), &[("a", Some(Y)), ("b", None)]),
            (
                Step::Pool(
                    "own",
                    "{addresses: [192.0.2.2/32], autoAssign: false, avoidBuggyIPs: false, serviceAllocation: {namespaces: [metallb-table]}}",
                ),
                &[("a", Some(Y)), ("b", None)],
            ),
        ],
    },
    Row {
        name: "a pool may be for namespaces with a label",
        steps: &[
            (
                Step::Pool(
                    "labelled",
                    "{addresses: [192.0.2.1-192.0.2.3], serviceAllocation: {namespaceSelectors: [{matchLabels: {name: default}}, {matchLabels: {name: metallb-system}}]}}",
                ),
                &[],
            ),
            (Step::Service("a", Some(X)), &[("a", None)]),
            (
                Step::Pool(
                    "labelled",
                    "{addresses: [192.0.2.1-192.0.2.3], serviceAllocation: {namespaceSelectors: [{matchLabels: {name: metallb-table}}]}}",
                ),
                &[("a", Some(X))],
            ),
        ],
    },
    Row {
        name: "a pool for labels that no namespace has is for all",
        steps: &[
            (
                Step::Pool(
                    "labelled",
                    "{addresses: [192.0.2.1-192.0.2.3], serviceAllocation: {namespaceSelectors: [{matchLabels: {name: missing}}]}}",
                ),
                &[],
            ),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
        ],
    },
    Row {
        name: "a pool may be for Services with a label",
        steps: &[
            (
                Step::Pool(
                    "labelled",
                    "{addresses: [192.0.2.1-192.0.2.3], serviceAllocation: {serviceSelectors: [{matchLabels: {tier: front}}]}}",
                ),
                &[],
            ),
            (Step::Service("a", Some(X)), &[("a", None)]),
            (Step::Change("a", "{metadata: {labels: {tier: front}}}"), &[("a", Some(X))]),
            (Step::Change("a", "{metadata: {labels: {tier: null}}}"), &[("a", None)]),
        ],
    },
    Row {
        name: "the pool of the higher priority is used first, of those that are for a Service",
        steps: &[
            (
                Step::Pool(
                    "late",
                    "{addresses: [192.0.2.1/32], serviceAllocation: {priority: 20, namespaces: [metallb-table]}}",
                ),
                &[],
            ),
            (
                Step::Pool(
                    "soon",
                    "{addresses: [192.0.2.2/32], serviceAllocation: {priority: 10, namespaces: [metallb-table]}}",
                ),
                &[],
            ),
            (Step::Pool("any", "{addresses: [192.0.2.3/32]}"), &[]),
            (Step::Service("a", None), &[("a", Some(Y))]),
            (Step::Service("b", None), &[("a", Some(Y)), ("b", Some(X))]),
            (Step::Service("c", None), &[("a", Some(Y)), ("b", Some(X)), ("c", Some(Z))]),
        ],
    },
    Row {
        name: "another load balancer's Services are not MetalLB's",
        steps: &[
            (POOL, &[]),
            (Step::Special("a", "{spec: {loadBalancerClass: example.com/other}}"), &[("a", None)]),
            (Step::Service("b", None), &[("a", None), ("b", Some(X))]),
        ],
    },
    Row {
        name: "the field and the older annotation are honoured, but not both at once",
        steps: &[
            (POOL, &[]),
            (Step::Special("a", "{spec: {loadBalancerIP: 192.0.2.3}}"), &[("a", Some(Z))]),
            (
                Step::Special(
                    "b",
                    "{metadata: {annotations: {metallb.universe.tf/loadBalancerIPs: 192.0.2.2}}}",
                ),
                &[("a", Some(Z)), ("b", Some(Y))],
            ),
            (
                Step::Special(
                    "c",
                    "{metadata: {annotations: {metallb.io/loadBalancerIPs: 192.0.2.1}}, spec: {loadBalancerIP: 192.0.2.1}}",
                ),
                &[("a", Some(Z)), ("b", Some(Y)), ("c", None)],
            ),
        ],
    },
    Row {
        name: "ranges may be written with spaces, and need not be aligned",
        steps: &[
            (Step::Pool("spaces", "{addresses: [\"192.0.2.1 - 192.0.2.2\", 198.51.100.77/28]}"), &[]),
            (Step::Service("a", Some(Y)), &[("a", Some(Y))]),
            (Step::Service("b", Some("198.51.100.64")), &[("a", Some(Y)), ("b", Some("198.51.100.64"))]),
        ],
    },
    Row {
        name: "two that swap in one after the other: the second has none, the first gets what it asks for at the next write",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(Y)), &[("a", Some(X)), ("b", Some(Y))]),
            (Step::Ask("a", Some(Y)), &[("a", None), ("b", Some(Y))]),
            (Step::Ask("b", Some(X)), &[("a", None), ("b", Some(X))]),
            (Step::Change("a", "{metadata: {labels: {looked: at}}}"), &[("a", Some(Y)), ("b", Some(X))]),
        ],
    },
    Row {
        name: "a release with a write that fails at first triggers no evaluation of others",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(X)), &[("a", Some(X)), ("b", None)]),
            (Step::Service("c", Some(Y)), &[("a", Some(X)), ("b", None), ("c", Some(Y))]),
            (
                Step::Change("a", "{metadata: {annotations: {closed: \"\"}}}"),
                &[("a", Some(X)), ("b", None), ("c", Some(Y))],
            ),
            (Step::Ask("a", Some(Y)), &[("a", Some(X)), ("b", None), ("c", Some(Y))]),
            (
                Step::Change("a", "{metadata: {annotations: {closed: null}}}"),
                &[("a", None), ("b", None), ("c", Some(Y))],
            ),
            (
                Step::Change("b", "{metadata: {labels: {looked: at}}}"),
                &[("a", None), ("b", Some(X)), ("c", Some(Y))],
            ),
        ],
    },
    Row {
        name: "who gets an address by a write that fails at first has it for itself",
        steps: &[
            (POOL, &[]),
            (Step::Special("a", "{metadata: {annotations: {closed: \"\"}}}"), &[("a", None)]),
            (Step::Service("b", None), &[("a", None), ("b", Some(Y))]),
            (
                Step::Change("a", "{metadata: {annotations: {closed: null}}}"),
                &[("a", Some(X)), ("b", Some(Y))],
            ),
        ],
    },
    Row {
        name: "who loses the address in its status gets the first free one",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", None), &[("a", Some(X)), ("b", Some(Y))]),
            (Step::Gone("a"), &[("b", Some(Y))]),
            (Step::Status("b", "{loadBalancer: {ingress: null}}"), &[("b", Some(X))]),
        ],
    },
    Row {
        name: "the address in the status is taken for its own, if it is free",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", None), &[("a", Some(X))]),
            (Step::Service("b", None), &[("a", Some(X)), ("b", Some(Y))]),
            (
                Step::Status("b", "{loadBalancer: {ingress: [{ip: 192.0.2.3}]}}"),
                &[("a", Some(X)), ("b", Some(Z))],
            ),
            (
                Step::Status("b", "{loadBalancer: {ingress: [{ip: 192.0.2.1}]}}"),
                &[("a", Some(X)), ("b", Some(Y))],
            ),
        ],
    },
    Row {
        name: "a Service that is being deleted keeps its address until it is gone",
        steps: &[
            (POOL, &[]),
            (Step::Special("a", "{metadata: {finalizers: [example.com/held]}}"), &[("a", Some(X))]),
            (Step::Gone("a"), &[("a", Some(X))]),
            (Step::Service("b", Some(X)), &[("a", Some(X)), ("b", None)]),
            (Step::Change("a", "{metadata: {finalizers: null}}"), &[("b", Some(X))]),
        ],
    },
    Row {
        name: "a Service of another type gives its address to who was refused",
        steps: &[
            (POOL, &[]),
            (Step::Service("a", Some(X)), &[("a", Some(X))]),
            (Step::Service("b", Some(X)), &[("a", Some(X)), ("b", None)]),
            (Step::Change("a", "{spec: {type: ClusterIP}}"), &[("a", None), ("b", Some(X))]),
        ],
    },
];

/// Returns the annotations that request an address for a Service.
pub(super) fn requested_address(address: Option<&str>) -> Value {
    json!({ "metallb.io/loadBalancerIPs": address })
}

/// Merges a change into an object.
pub(super) fn merge(object: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *object = change.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (field, value) in change {
        merge(&mut object[field.as_str()], value);
    }
}

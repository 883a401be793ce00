//! A pool: its addresses, and the Services that may use them.

use std::net::IpAddr;

use lockstep_engine::object::{annotation, metadata};
use serde_json::Value;

use super::super::addresses::Range;
use super::super::labels;

/// A pool in MetalLB's configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pool {
    pub(super) name: String,
    ranges: Vec<Range>,
    auto_assign: bool,
    avoid_buggy: bool,
    namespaces: Vec<String>,
    namespace_selectors: Vec<Value>,
    service_selectors: Vec<Value>,
    /// The order in which pools are used, lowest first: pools for selected Services by their priority, if they have one; then
    /// those for all.
    rank: (bool, bool, u64),
}

impl Pool {
    /// Parses a pool; none if one of its ranges is invalid.
    pub(super) fn read(pool: &Value) -> Option<Self> {
        let spec = &pool["spec"];
        let allocation = &spec["serviceAllocation"];
        let list = |field: &str| allocation[field].as_array().cloned().unwrap_or_default();
        let ranges = spec["addresses"].as_array()?.iter();
        let namespaces = list("namespaces").into_iter();
        Some(Self {
            name: metadata(pool, "name").to_owned(),
            ranges: ranges.map(|range| Range::parse(range.as_str()?)).collect::<Option<_>>()?,
            auto_assign: spec["autoAssign"] != false,
            avoid_buggy: spec["avoidBuggyIPs"] == true,
            namespaces: namespaces.filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
            namespace_selectors: list("namespaceSelectors"),
            service_selectors: list("serviceSelectors"),
            rank: {
                let priority = allocation["priority"].as_u64().unwrap_or_default();
                (allocation.is_null(), priority == 0, priority)
            },
        })
    }

    /// Returns the order in which pools are used, lowest first.
    pub(super) fn rank(&self) -> (bool, bool, u64) {
        self.rank
    }

    /// Returns whether two pools contain the same address: MetalLB refuses such a configuration.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.ranges.iter().any(|range| other.ranges.iter().any(|other| range.overlaps(other)))
    }

    /// Adds the namespaces that its selectors match. If the list stays empty, every namespace may use the pool.
    pub(super) fn resolve(&mut self, namespaces: &[&Value]) {
        let is_matched = |namespace: &&&Value| {
            self.namespace_selectors.iter().any(|selector| labels::matches(selector, namespace))
        };
        let matched = namespaces.iter().filter(is_matched);
        let matched: Vec<String> = matched.map(|namespace| metadata(namespace, "name").to_owned()).collect();
        self.namespaces.extend(matched);
    }

    /// Returns whether a Service may use its addresses.
    pub(super) fn serves(&self, service: &Value) -> bool {
        let namespace = metadata(service, "namespace");
        let wanted = annotation(service, "metallb.io/address-pool");
        let is_selected = |selector: &Value| labels::matches(selector, service);
        (self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == namespace))
            && (self.service_selectors.is_empty() || self.service_selectors.iter().any(is_selected))
            && wanted.is_none_or(|wanted| wanted == self.name)
    }

    fn may_give(&self, address: IpAddr) -> bool {
        let buggy = match address {
            IpAddr::V4(address) => matches!(address.octets()[3], 0 | 255),
            IpAddr::V6(_) => false,
        };
        !(self.avoid_buggy && buggy)
    }

    /// Returns whether it contains an address.
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        self.may_give(address) && self.ranges.iter().any(|range| range.contains(address))
    }

    /// Returns the first free address, if the pool has automatic assignment.
    pub(super) fn next(&self, is_free: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
        let mut all = self.ranges.iter().flat_map(Range::iter);
        self.auto_assign.then(|| all.find(|address| self.may_give(*address) && is_free(address)))?
    }

    /// Returns the number of its addresses of a family.
    pub(super) fn size(&self, is_v4: bool) -> u64 {
        let ranges = self.ranges.iter().filter(|range| range.is_v4() == is_v4);
        ranges.map(Range::size).fold(0, u64::saturating_add)
    }
}

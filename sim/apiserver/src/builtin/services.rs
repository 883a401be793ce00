//! The server's allocations for Services: cluster addresses, address families and node ports.
//!
//! The cluster of the model has one address family, IPv4, and the range of the real servers that tests start.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::field::Path;
use super::view::{integer, list, part, text};
use crate::cause::Cause;

const FIRST_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const LAST_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 255, 254);
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// The allocations of other Services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocations {
    ips: BTreeSet<String>,
    node_ports: BTreeSet<(String, i64)>,
}

impl Allocations {
    /// Collects the allocations of these Services.
    pub fn of<'a>(services: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut held = Self::default();
        for spec in services.into_iter().map(|service| part(service, "spec")) {
            held.ips.extend(list(spec, "clusterIPs").iter().filter_map(Value::as_str).map(str::to_owned));
            held.node_ports.extend(list(spec, "ports").iter().filter_map(|port| {
                let number = integer(port, "nodePort").filter(|number| *number != 0)?;
                Some((text(port, "protocol").to_owned(), number))
            }));
        }
        held
    }

    /// Completes a Service after defaulting and before preparation and validation. `self` has the allocations of the others, and
    /// `old` is the stored Service on update.
    ///
    /// # Errors
    /// An address or port is taken or out of range.
    pub fn allocate(&self, service: &mut Value, old: Option<&Value>) -> Result<(), Cause> {
        let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        if let Some(old) = old {
            keep_allocated(spec, part(old, "spec"));
        }
        let kind = of(spec, "type").to_owned();
        mirror_cluster_ip(spec);
        if kind == "ExternalName" {
            return Ok(());
        }
        families(spec, old.map(|old| part(old, "spec")));
        self.cluster_ip(spec, old)?;
        let wants_ports = kind == "NodePort"
            || kind == "LoadBalancer"
                && spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
        self.node_ports(spec, wants_ports, old)
    }

    fn cluster_ip(&self, spec: &mut Map<String, Value>, old: Option<&Value>) -> Result<(), Cause> {
        let path = Path::root("spec").child("clusterIPs");
        let given = of(spec, "clusterIP").to_owned();
        if given == "None" {
            return Ok(());
        }
        if given.is_empty() && spec.get("clusterIPs").and_then(|ips| ips.get(0)).is_some() {
            return Ok(());
        }
        if given.is_empty() {
            // A Service without an address keeps none: its status was applied before it existed.
            if old.is_some_and(|old| text(part(old, "spec"), "type") != "ExternalName") {
                return Ok(());
            }
            let free =
                (FIRST_IP.to_bits()..=LAST_IP.to_bits()).map(|bits| Ipv4Addr::from_bits(bits).to_string());
            let Some(ip) = free.into_iter().find(|ip| !self.ips.contains(ip)) else {
                return Err(path.invalid(Value::Null, "failed to allocate IP: range is full"));
            };
            spec.insert("clusterIP".to_owned(), ip.clone().into());
            spec.insert("clusterIPs".to_owned(), json!([ip]));
            return Ok(());
        }
        let kept = old.is_some_and(|old| text(part(old, "spec"), "clusterIP") == given);
        let in_range = given.parse::<Ipv4Addr>().map(|ip| (FIRST_IP..=LAST_IP).contains(&ip));
        // Validation reports malformed addresses.
        let reason = match in_range {
            Ok(false) if !kept => "the provided network does not match the current range".to_owned(),
            Ok(true) if !kept && self.ips.contains(&given) => "provided IP is already allocated".to_owned(),
            _ => return Ok(()),
        };
        Err(path.invalid(json!([given]), &format!("failed to allocate IP {given}: {reason}")))
    }

    fn node_ports(
        &self,
        spec: &mut Map<String, Value>,
        wanted: bool,
        old: Option<&Value>,
    ) -> Result<(), Cause> {
        let own = old.map(|old| Self::of([old]).node_ports).unwrap_or_default();
        let mut taken = self.node_ports.clone();
        let path = Path::root("spec").child("ports");
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for (index, port) in ports.enumerate() {
            let protocol = text(port, "protocol").to_owned();
            let number = integer(port, "nodePort").filter(|number| *number != 0);
            let path = path.index(index).child("nodePort");
            match number {
                Some(number) if !NODE_PORTS.contains(&number) && wanted => {
                    let message =
                        "provided port is not in the valid range. The range of valid ports is 30000-32767";
                    return Err(path.invalid(number, message));
                }
                Some(number) if wanted => {
                    let key = (protocol, number);
                    if taken.contains(&key) && !own.contains(&key) {
                        return Err(path.invalid(number, "provided port is already allocated"));
                    }
                    taken.insert(key);
                }
                None if wanted => {
                    let free = |number: &i64| {
                        !taken.contains(&(protocol.clone(), *number))
                            && !own.contains(&(protocol.clone(), *number))
                    };
                    let Some(number) = NODE_PORTS.into_iter().find(free) else { return Ok(()) };
                    port["nodePort"] = number.into();
                    taken.insert((protocol, number));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn of<'a>(spec: &'a Map<String, Value>, field: &str) -> &'a str {
    spec.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Copies a lone `clusterIP` to `clusterIPs`. A lone list is refused by validation.
fn mirror_cluster_ip(spec: &mut Map<String, Value>) {
    let has_list = spec.get("clusterIPs").and_then(|ips| ips.get(0)).is_some();
    if let Some(ip) = spec.get("clusterIP").filter(|_| !has_list).cloned() {
        spec.insert("clusterIPs".to_owned(), json!([ip]));
    }
}

/// Sets the address families. A headless Service without a selector has both, because the server does not choose its addresses.
fn families(spec: &mut Map<String, Value>, old: Option<&Value>) {
    let selectorless = of(spec, "clusterIP") == "None" && !spec.contains_key("selector");
    for field in ["ipFamilyPolicy", "ipFamilies"] {
        if let Some(value) = old.and_then(|old| old.get(field))
            && !spec.contains_key(field)
        {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    let policy = if selectorless { "RequireDualStack" } else { "SingleStack" };
    spec.entry("ipFamilyPolicy").or_insert_with(|| policy.into());
    let both = selectorless && of(spec, "ipFamilyPolicy") != "SingleStack";
    spec.entry("ipFamilies").or_insert_with(|| if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
}

/// Keeps earlier allocations, which an update need not repeat.
fn keep_allocated(spec: &mut Map<String, Value>, old: &Value) {
    let needs_ip = |kind: &str| kind != "ExternalName";
    let needs_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    let kinds = (of(spec, "type").to_owned(), text(old, "type"));
    // A client that changes only the single address also changes the list.
    let given = of(spec, "clusterIP").to_owned();
    let list_untouched = spec.get("clusterIPs").is_none_or(|ips| Some(ips) == old.get("clusterIPs"));
    if !given.is_empty() && given != text(old, "clusterIP") && list_untouched {
        spec.insert("clusterIPs".to_owned(), json!([given]));
    }
    if needs_ip(&kinds.0) && needs_ip(kinds.1) {
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(value) = old.get(field)
                && !spec.contains_key(field)
            {
                spec.insert(field.to_owned(), value.clone());
            }
        }
    }
    if !needs_ports(&kinds.0) || !needs_ports(kinds.1) {
        return;
    }
    let numbers = |ports: &[Value]| -> BTreeSet<i64> {
        ports.iter().filter_map(|port| integer(port, "nodePort")).collect()
    };
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    let repeated: BTreeSet<i64> = ports.iter().flat_map(|ports| numbers(ports)).collect();
    for port in ports.into_iter().flatten().filter(|port| integer(port, "nodePort").is_none()) {
        let before = list(old, "ports").iter().find(|old| text(old, "name") == text(port, "name"));
        let number =
            before.and_then(|port| integer(port, "nodePort")).filter(|number| !repeated.contains(number));
        if let Some(number) = number {
            port["nodePort"] = number.into();
        }
    }
}

/// Drops the fields that only the old type needed, if the update did not change them.
pub(super) fn drop_by_type(service: &mut Value, old: &Value) {
    let old = part(old, "spec");
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let (kind, before) = (of(spec, "type").to_owned(), text(old, "type"));
    let mut drop_same = |fields: &[&str]| {
        for field in fields {
            if spec.get(*field) == old.get(*field) {
                spec.remove(*field);
            }
        }
    };
    if before != "ExternalName" && kind == "ExternalName" {
        drop_same(&["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if before == "LoadBalancer" && kind != "LoadBalancer" {
        drop_same(&["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]);
    }
    let exposed = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if exposed(before) && !exposed(&kind) {
        drop_same(&["externalTrafficPolicy"]);
        let old_ports: Vec<_> = list(old, "ports").iter().map(|port| integer(port, "nodePort")).collect();
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        let same = ports.as_ref().is_some_and(|ports| {
            ports.iter().map(|port| integer(port, "nodePort")).collect::<Vec<_>>() == old_ports
        });
        for port in ports.into_iter().flatten().filter(|_| same).filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if kind != "LoadBalancer" {
        service["status"]["loadBalancer"] = json!({});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_out_what_is_free() {
        let taken =
            json!({"spec": {"clusterIPs": ["10.0.0.1"], "ports": [{"protocol": "TCP", "nodePort": 30000}]}});
        let held = Allocations::of([&taken]);
        let mut service = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
        assert_eq!(held.allocate(&mut service, None), Ok(()));
        assert_eq!(
            service["spec"],
            json!({
                "type": "NodePort", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}],
            })
        );
        let mut again = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1"}});
        let refusal = held.allocate(&mut again, None).expect_err("the address is taken");
        assert_eq!(
            refusal.to_string(),
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: failed to allocate IP 10.0.0.1: provided IP is already \
             allocated"
        );
    }

    #[test]
    fn an_update_keeps_what_was_given() {
        let old = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}});
        let mut new = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}});
        assert_eq!(Allocations::default().allocate(&mut new, Some(&old)), Ok(()));
        assert_eq!(new["spec"]["clusterIP"], "10.0.0.7");
    }
}

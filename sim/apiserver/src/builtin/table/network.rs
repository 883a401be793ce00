//! Rows of network kinds.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format::{address, label_selector, labels, or_none, some_of};
use super::row::{Cells, Row, marked_default, row};
use crate::builtin::view::{given, integer, list, part, text};

impl Row<'_> {
    pub(super) fn network(self, kind: &str) -> Cells {
        let Self { object, spec, status, name, .. } = self;
        match kind {
            "NetworkPolicy" => row![name, or_none(&label_selector(part(spec, "podSelector"))), self.age],
            "Ingress" => {
                let hosts = ingress_hosts(list(spec, "rules"));
                let ports = if list(spec, "tls").is_empty() { "80" } else { "80, 443" };
                let addresses = address(list(part(status, "loadBalancer"), "ingress"));
                row![name, or_none(text(spec, "ingressClassName")), hosts, addresses, ports, self.age]
            }
            "IngressClass" => {
                let default = "ingressclass.kubernetes.io/is-default-class";
                let shown = marked_default(object, name, &[default]);
                let parameters = given(spec, "parameters").map(|parameters| {
                    let group = given(parameters, "apiGroup").and_then(Value::as_str);
                    let group = group.map(|group| format!(".{group}")).unwrap_or_default();
                    format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name"))
                });
                row![shown, text(spec, "controller"), or_none(&parameters.unwrap_or_default()), self.age]
            }
            "ServiceCIDR" => {
                let ranges: Vec<&str> = list(spec, "cidrs").iter().filter_map(Value::as_str).collect();
                row![name, ranges.join(","), self.age]
            }
            "IPAddress" => {
                let parent = given(spec, "parentRef").map(|parent| {
                    let fields = ["group", "namespace"].map(|field| text(parent, field));
                    let group = if fields[0].is_empty() { String::new() } else { format!(".{}", fields[0]) };
                    let place = if fields[1].is_empty() { String::new() } else { format!("{}/", fields[1]) };
                    format!(
                        "{}/{place}{}",
                        format!("{}{group}", text(parent, "resource")).to_lowercase(),
                        text(parent, "name")
                    )
                });
                row![name, or_none(&parent.unwrap_or_default()), self.age]
            }
            "EndpointSlice" => {
                let ports = list(object, "ports").iter().map(|port| match integer(port, "port") {
                    Some(number) => number.to_string(),
                    None => given(port, "name").and_then(Value::as_str).unwrap_or("*").to_owned(),
                });
                let addresses =
                    list(object, "endpoints").iter().flat_map(|endpoint| list(endpoint, "addresses"));
                let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
                let kind = text(object, "addressType");
                row![
                    name,
                    kind,
                    some_of(&ports.collect::<Vec<_>>(), 3, "<unset>"),
                    some_of(&addresses, 3, "<unset>"),
                    self.age
                ]
            }
            _ => None,
        }
    }

    pub(super) fn service(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let external = list(spec, "externalIPs").iter().filter_map(Value::as_str).map(str::to_owned);
        let shown = match text(spec, "type") {
            "ExternalName" => text(spec, "externalName").to_owned(),
            "LoadBalancer" => {
                let balanced = address(list(part(status, "loadBalancer"), "ingress"));
                let all: Vec<String> =
                    Some(balanced).filter(|ips| !ips.is_empty()).into_iter().chain(external).collect();
                if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
            }
            _ => or_none(&external.collect::<Vec<_>>().join(",")),
        };
        let ports = list(spec, "ports").iter().map(|port| {
            let node_port = integer(port, "nodePort").filter(|number| *number > 0);
            let node_port = node_port.map(|number| format!(":{number}")).unwrap_or_default();
            format!("{}{node_port}/{}", integer(port, "port").unwrap_or(0), text(port, "protocol"))
        });
        let ports = or_none(&ports.collect::<Vec<_>>().join(","));
        let internal = list(spec, "clusterIPs").first().and_then(Value::as_str).unwrap_or_default();
        row![
            name,
            text(spec, "type"),
            or_none(internal),
            shown,
            ports,
            self.age,
            labels(part(spec, "selector"))
        ]
    }
}

fn ingress_hosts(rules: &[Value]) -> String {
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == 3;
        let host = text(rule, "host");
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - 3),
        (false, false) => hosts.join(","),
    }
}

pub(super) fn endpoints(object: &Value) -> String {
    let mut shown = Vec::new();
    for subset in list(object, "subsets") {
        let ips: Vec<&str> = list(subset, "addresses").iter().map(|address| text(address, "ip")).collect();
        let ports: BTreeSet<Option<i64>> = match list(subset, "ports") {
            [] => BTreeSet::from([None]),
            ports => ports.iter().map(|port| integer(port, "port")).collect(),
        };
        for port in ports {
            shown.extend(ips.iter().map(|ip| match port {
                Some(port) if ip.contains(':') => format!("[{ip}]:{port}"),
                Some(port) => format!("{ip}:{port}"),
                None => (*ip).to_owned(),
            }));
        }
    }
    some_of(&shown, 3, "<none>")
}

//! What the server hands out to services: cluster addresses and node ports.

use serde_json::{Value, json};

use super::registry::Resource;
use super::{ApiServer, meta};

/// Node ports start here, as in kube-apiserver.
const NODE_PORT_MIN: u32 = 30_000;
/// Node ports there are.
const NODE_PORTS: u32 = 2768;

/// The next address and port to hand out.
#[derive(Debug, Clone, Default)]
pub(super) struct Allocator {
    address: u16,
    port: u32,
}

impl Allocator {
    /// An address of `10.96.0.0/16`, the first of which belongs to the API server itself.
    fn address(&mut self) -> String {
        self.address = self.address.checked_add(1).unwrap_or(2).max(2);
        let [high, low] = self.address.to_be_bytes();
        format!("10.96.{high}.{low}")
    }

    fn port(&mut self) -> u32 {
        let port = NODE_PORT_MIN + self.port % NODE_PORTS;
        self.port += 1;
        port
    }
}

impl ApiServer {
    /// Gives a service what it has not brought along and does not have yet.
    pub(super) fn allocate(&mut self, resource: &Resource, object: &mut Value, live: Option<&Value>) {
        if !resource.is("", "services") {
            return;
        }
        let kind = object.pointer("/spec/type").and_then(Value::as_str).unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return;
        }
        let before = live.and_then(|live| live.pointer("/spec/clusterIP")).and_then(Value::as_str);
        let spec = meta::map_at(object, "spec");
        let given = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default();
        let address = match (given, before) {
            ("", Some(before)) if !before.is_empty() => before.to_owned(),
            ("", _) => self.allocator.address(),
            (given, _) => given.to_owned(),
        };
        spec.insert("clusterIPs".to_owned(), json!([address]));
        spec.insert("clusterIP".to_owned(), address.into());
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
        if kind != "NodePort" && kind != "LoadBalancer" {
            return;
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let unset = port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() == 0;
            if let Some(port) = port.as_object_mut().filter(|_| unset) {
                port.insert("nodePort".to_owned(), self.allocator.port().into());
            }
        }
    }
}

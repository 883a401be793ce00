//! Nodes.

use serde_json::Value;

/// Returns the address of node ports on a Node, if it has one. A more public address is preferred.
pub fn address(node: &Value) -> Option<String> {
    let addresses = node["status"]["addresses"].as_array()?;
    ["ExternalDNS", "ExternalIP", "InternalIP"].into_iter().find_map(|kind| {
        let address = addresses.iter().find(|address| address["type"] == kind)?;
        address["address"].as_str().map(str::to_owned)
    })
}

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

/// Returns whether a Node has an address, of any type.
pub fn has_address(node: &Value, wanted: &str) -> bool {
    let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    addresses.any(|address| address["address"] == wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_more_public_address_is_preferred() {
        let node = |addresses: &[(&str, &str)]| {
            let addresses =
                addresses.iter().map(|(kind, address)| json!({ "type": kind, "address": address }));
            address(&json!({ "status": { "addresses": addresses.collect::<Vec<_>>() } }))
        };
        let (internal, external) = (("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1"));
        assert_eq!(
            node(&[internal, external, ("ExternalDNS", "a.example.com")]).as_deref(),
            Some("a.example.com")
        );
        assert_eq!(node(&[internal, external]).as_deref(), Some("192.0.2.1"));
        assert_eq!(node(&[("Hostname", "a"), internal]).as_deref(), Some("10.0.0.1"));
        assert_eq!(node(&[("Hostname", "a")]), None);
    }
}

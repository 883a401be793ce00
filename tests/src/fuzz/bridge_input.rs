use std::net::IpAddr;

use lockstep_bridge::parse::address::AddressRange;
use lockstep_bridge::parse::docker_config::DockerConfig;
use lockstep_bridge::parse::ssh_key;
use lockstep_bridge::parse::version::{ReleaseVersion, supported_versions};
use lockstep_engine::image::ImageReference;
use serde_json::Value;

/// Runs one fuzz input. The first byte chooses the format of the rest: an image, a version, the supported versions, a pull
/// secret, SSH keys, or addresses of a pool.
pub fn bridge_input(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let text = std::str::from_utf8(rest).ok();
    match (choice % 6, text) {
        (0, Some(text)) => image(text),
        (1, Some(text)) => version(text),
        (2, Some(text)) => supported(text),
        (3, _) => pull_secret(rest),
        (4, _) => ssh_keys(rest),
        (5, Some(text)) => addresses(text),
        _ => {}
    }
}

fn image(text: &str) {
    let Ok(image) = ImageReference::parse(text) else { return };
    assert_eq!(ImageReference::parse(&image.to_string()).as_ref(), Ok(&image));
    let name = image.digest.as_deref().or(image.tag.as_deref()).unwrap_or("latest");
    let path = format!("/v2/{}/manifests/{name}", image.repository);
    let url: http::Uri = format!("https://{}{path}", image.registry).parse().expect("a URL");
    assert_eq!(url.authority().map(http::uri::Authority::as_str), Some(image.registry.as_str()));
    assert_eq!((url.path(), url.query()), (path.as_str(), None));
}

fn version(text: &str) {
    for version in [ReleaseVersion::of_tag(text), ReleaseVersion::of_release(text)].into_iter().flatten() {
        let read = ReleaseVersion::of_release(&format!("{version}.0"));
        assert_eq!(read.map(|read| (read.major, read.minor)), Some((version.major, version.minor)));
    }
}

fn supported(text: &str) {
    for supported in supported_versions(text).into_iter().flatten() {
        version(&format!("{supported}.0"));
    }
}

/// The secret that must appear in no message.
const SECRET: &str = "hunter2";

fn pull_secret(data: &[u8]) {
    // Test the text as it is, and with a known secret in it.
    let mut variants = vec![data.to_vec()];
    if let Ok(mut document) = serde_json::from_slice::<Value>(data)
        && !document.to_string().contains(SECRET)
        && let Some(auths) = document.get_mut("auths")
    {
        hide(auths);
        variants.push(document.to_string().into_bytes());
    }
    for (index, text) in variants.iter().enumerate() {
        match DockerConfig::parse(text) {
            Ok(config) => {
                assert_eq!(format!("{config:?}"), "DockerConfig(***)");
                for image in ["busybox", "quay.io/a/b", "host:5000/a", "[::1]:1/a"] {
                    let image = ImageReference::parse(image).expect("an image");
                    let credentials = config.credentials_for(&image);
                    assert!(credentials.is_none_or(|credentials| credentials.reveal().contains(':')));
                }
            }
            Err(error) => assert!(index == 0 || !error.contains(SECRET), "{error}"),
        }
    }
}

/// Inserts the secret into all strings below the registries.
fn hide(value: &mut Value) {
    match value {
        Value::String(text) => text.insert_str(0, SECRET),
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(fields) => fields.values_mut().for_each(hide),
        _ => {}
    }
}

fn ssh_keys(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match ssh_key::check(data) {
        Ok(keys) => assert!((1..=text.lines().count()).contains(&keys)),
        Err(error) => {
            // Messages contain no such words of their own.
            let is_key = |word: &&str| word.len() > 12 && word.contains(|c: char| c.is_ascii_uppercase());
            let shown = text.split_whitespace().filter(is_key).find(|word| error.contains(word));
            assert!(shown.is_none(), "{error}");
        }
    }
}

fn addresses(text: &str) {
    let Ok(range) = AddressRange::parse(text) else { return };
    let ends = text.split_once('-').or_else(|| text.split_once('/'));
    let (first, last) = ends.expect("a separator");
    for end in [first, last].into_iter().filter_map(|end| end.trim().parse::<IpAddr>().ok()) {
        // An IPv4 address in IPv6 notation belongs to the IPv6 family.
        assert!(range.contains(end, false) || end != end.to_canonical(), "{text}");
    }
}

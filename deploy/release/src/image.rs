//! The container image: a single layer with the program, certificates and a user, without a shell or a package.
//!
//! The archive is an OCI image layout, which skopeo, podman and containerd read. Its `manifest.json` is for
//! `docker load`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use serde_json::{Value, json};

use crate::archive::{Entry, gzip, tar};
use crate::digest::sha256;
use crate::target::Target;

/// The user and group, by number. If an image names its user, Kubernetes can't check `runAsNonRoot`.
pub const USER: &str = "65532:65532";
/// The path of the program.
pub const PROGRAM: &str = "usr/local/bin/lockstep";
/// A link to the program. With this name, the program is the HyperFleet Sentinel.
pub const SENTINEL: &str = "sentinel";
/// The path of the CA certificates: the first place where the TLS library looks for them on most systems.
pub const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The time in the documents: the start of Unix time, so that two builds give the same image.
const CREATED: &str = "1970-01-01T00:00:00Z";
/// The number of Base64 characters in a line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// Returns the image of a program as an archive.
///
/// # Errors
/// Never in practice: everything is in memory.
pub fn archive(program: &[u8], target: Target, level: Compression) -> anyhow::Result<Vec<u8>> {
    let layer = tar(&root_file_system(program))?;
    let diff_id = format!("sha256:{}", sha256(&layer));
    let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&layer, level)?);
    let config = Blob::json("application/vnd.oci.image.config.v1+json", &configuration(target, &diff_id));
    let manifest = Blob::json(
        "application/vnd.oci.image.manifest.v1+json",
        &json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        }),
    );
    let docker = json!([{
        "Config": config.path(),
        "RepoTags": [format!("lockstep:{VERSION}")],
        "Layers": [layer.path()],
    }]);
    let mut entries = BTreeMap::from([
        ("index.json".to_owned(), document(&index(target, &manifest))),
        ("manifest.json".to_owned(), document(&docker)),
        ("oci-layout".to_owned(), document(&json!({"imageLayoutVersion": "1.0.0"}))),
    ]);
    for blob in [&layer, &config, &manifest] {
        entries.insert(blob.path(), Entry::Data(Cow::Borrowed(&blob.bytes)));
    }
    Ok(tar(&entries)?)
}

/// Returns the files of the image.
fn root_file_system(program: &[u8]) -> BTreeMap<String, Entry<'_>> {
    let text = |text: &str| Entry::Data(Cow::Owned(text.as_bytes().to_vec()));
    [
        ("etc/group", text("nonroot:x:65532:\n")),
        ("etc/passwd", text("nonroot:x:65532:65532::/nonexistent:/sbin/nologin\n")),
        (CERTIFICATES, text(&certificates())),
        (SENTINEL, Entry::Link(PROGRAM)),
        (PROGRAM, Entry::Program(program)),
    ]
    .map(|(path, entry)| (path.to_owned(), entry))
    .into()
}

/// Returns Mozilla's CA certificates in PEM.
fn certificates() -> String {
    let mut pem = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(certificate);
        for start in (0..text.len()).step_by(PEM_LINE) {
            let end = text.len().min(start + PEM_LINE);
            let _ = writeln!(pem, "{}", &text[start..end]);
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem
}

fn configuration(target: Target, diff_id: &str) -> Value {
    json!({
        "created": CREATED,
        "architecture": target.architecture(),
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [format!("/{PROGRAM}")],
            "Cmd": ["run"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "lockstep",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": CREATED, "created_by": "lockstep-release"}],
    })
}

fn index(target: Target, manifest: &Blob) -> Value {
    let mut descriptor = manifest.descriptor();
    descriptor["platform"] = json!({"architecture": target.architecture(), "os": "linux"});
    descriptor["annotations"] = json!({
        "org.opencontainers.image.ref.name": VERSION,
        // The name that containerd gives the image when it imports the archive.
        "io.containerd.image.name": format!("docker.io/library/lockstep:{VERSION}"),
    });
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    })
}

fn document(value: &Value) -> Entry<'static> {
    Entry::Data(Cow::Owned(value.to_string().into_bytes()))
}

/// A file that is addressed by its digest.
struct Blob {
    media_type: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: sha256(&bytes), bytes }
    }

    fn json(media_type: &'static str, value: &Value) -> Self {
        Self::new(media_type, value.to_string().into_bytes())
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.bytes.len(),
        })
    }
}

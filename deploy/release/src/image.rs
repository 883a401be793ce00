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
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The time in the documents: the start of Unix time, so that two builds give the same image.
const CREATED: &str = "1970-01-01T00:00:00Z";
/// The number of Base64 characters in a line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// Returns the image of a program as an archive. With programs for several platforms, the archive contains an image for each
/// and an index of them, which a registry serves by one name. `docker load` does not read such an archive.
///
/// # Errors
/// Never in practice: everything is in memory.
pub fn archive(programs: &[(Target, &[u8])], level: Compression) -> anyhow::Result<Vec<u8>> {
    let images = programs.iter().map(|(target, program)| {
        Image::new(&root_file_system(program), target.architecture(), &container(), level)
    });
    layout("lockstep", &images.collect::<Result<Vec<_>, _>>()?)
}

/// Returns an image of files alone as an archive. It names a platform, as images have to, but contains nothing to run.
pub(crate) fn files(name: &str, files: BTreeMap<String, Vec<u8>>, labels: &Value) -> anyhow::Result<Vec<u8>> {
    let entries = files.into_iter().map(|(path, bytes)| (path, Entry::Data(Cow::Owned(bytes)))).collect();
    let architecture = Target::Amd64.architecture();
    layout(name, &[Image::new(&entries, architecture, &json!({"Labels": labels}), Compression::best())?])
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

/// Options of the allocator: memory is committed when it is used, and returned when it is free.
pub const ENVIRONMENT: [(&str, &str); 2] =
    [("MIMALLOC_ARENA_EAGER_COMMIT", "0"), ("MIMALLOC_PURGE_DELAY", "0")];

/// Where `kubectl exec` finds the program. Runtimes have a default only for images without variables.
const PATH: (&str, &str) = ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

/// Returns the variables of a container, as an image lists them.
pub fn variables() -> Vec<String> {
    [PATH].iter().chain(&ENVIRONMENT).map(|(name, value)| format!("{name}={value}")).collect()
}

/// Returns how a container of the program starts.
fn container() -> Value {
    json!({
        "User": USER,
        "Env": variables(),
        "Entrypoint": [format!("/{PROGRAM}")],
        "Cmd": ["run"],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": "lockstep",
            "org.opencontainers.image.version": VERSION,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    })
}

/// An image for one platform.
struct Image {
    layer: Blob,
    config: Blob,
    manifest: Blob,
    platform: Value,
}

impl Image {
    fn new(
        entries: &BTreeMap<String, Entry<'_>>,
        architecture: &str,
        container: &Value,
        level: Compression,
    ) -> anyhow::Result<Self> {
        let layer = tar(entries)?;
        let configuration = json!({
            "created": CREATED,
            "architecture": architecture,
            "os": "linux",
            "config": container,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
            "history": [{"created": CREATED, "created_by": "lockstep-release"}],
        });
        let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&layer, level)?);
        let config = Blob::json("application/vnd.oci.image.config.v1+json", &configuration);
        let manifest = Blob::json(
            MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config.descriptor(),
                "layers": [layer.descriptor()],
            }),
        );
        Ok(Self { layer, config, manifest, platform: json!({"architecture": architecture, "os": "linux"}) })
    }

    fn descriptor(&self) -> Value {
        let mut descriptor = self.manifest.descriptor();
        descriptor["platform"] = self.platform.clone();
        descriptor
    }
}

/// Returns the layout of an image with this name. Several images become one by an index of them.
fn layout(name: &str, images: &[Image]) -> anyhow::Result<Vec<u8>> {
    let mut entries = BTreeMap::new();
    let mut add = |blob: &Blob| entries.insert(blob.path(), Entry::Data(Cow::Owned(blob.bytes.clone())));
    for blob in images.iter().flat_map(|image| [&image.layer, &image.config, &image.manifest]) {
        add(blob);
    }
    let mut root = if let [image] = images {
        image.descriptor()
    } else {
        let index = Blob::json(INDEX, &index(&images.iter().map(Image::descriptor).collect::<Vec<_>>()));
        add(&index);
        index.descriptor()
    };
    root["annotations"] = json!({
        "org.opencontainers.image.ref.name": VERSION,
        // The name that containerd gives the image when it imports the archive.
        "io.containerd.image.name": format!("docker.io/library/{name}:{VERSION}"),
    });
    entries.insert("index.json".to_owned(), document(&index(&[root])));
    entries.insert("oci-layout".to_owned(), document(&json!({"imageLayoutVersion": "1.0.0"})));
    if let [image] = images {
        let docker = json!([{
            "Config": image.config.path(),
            "RepoTags": [format!("{name}:{VERSION}")],
            "Layers": [image.layer.path()],
        }]);
        entries.insert("manifest.json".to_owned(), document(&docker));
    }
    Ok(tar(&entries)?)
}

fn index(manifests: &[Value]) -> Value {
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
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

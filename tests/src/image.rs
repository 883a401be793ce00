//! The container image, unpacked and run without a container engine.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use kube::config::Kubeconfig;
use lockstep_release::{Target, image};
use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType};
use sha2::{Digest as _, Sha256};

use crate::control_plane::ControlPlane;
use crate::program::program;

/// The variable that names a release directory. Its image is tested, instead of one with the program of the tests.
const RELEASE: &str = "LOCKSTEP_RELEASE";

/// Where the kubelet mounts the account of a pod.
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Returns the archive of the image to test.
pub fn archive() -> anyhow::Result<Vec<u8>> {
    let target = if cfg!(target_arch = "aarch64") { Target::Arm64 } else { Target::Amd64 };
    if let Some(directory) = std::env::var_os(RELEASE) {
        let name = format!("lockstep-image-linux-{}.tar", target.architecture());
        return Ok(fs::read(Path::new(&directory).join(name))?);
    }
    let program = program()?;
    let program = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    image::archive(&[(target, &program)], Compression::fast())
}

/// An entry of the image's file system.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path from the root.
    pub path: String,
    /// The permissions.
    pub mode: u32,
    /// User and group.
    pub owner: (u64, u64),
}

/// The unpacked image.
#[derive(Debug)]
pub struct Image {
    directory: tempfile::TempDir,
    /// The configuration.
    pub configuration: ImageConfiguration,
    /// The digest, by which a registry names the image.
    pub digest: String,
}

impl Image {
    /// Unpacks an archive. Checks the digest and the size of everything in it.
    pub fn unpack(archive: &[u8]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let layout = directory.path().join("layout");
        tar::Archive::new(archive).unpack(&layout)?;
        let index = ImageIndex::from_file(layout.join("index.json"))?;
        let [manifest] = &index.manifests()[..] else { anyhow::bail!("not one manifest: {index:?}") };
        let digest = manifest.digest().to_string();
        let manifest = ImageManifest::from_reader(&*blob(&layout, manifest, &MediaType::ImageManifest)?)?;
        let configuration = blob(&layout, manifest.config(), &MediaType::ImageConfig)?;
        let configuration = ImageConfiguration::from_reader(&*configuration)?;
        let root = directory.path().join("root");
        fs::create_dir(&root)?;
        let ids = configuration.rootfs().diff_ids();
        ensure!(ids.len() == manifest.layers().len(), "{} layers, but {ids:?}", manifest.layers().len());
        for (layer, id) in manifest.layers().iter().zip(ids) {
            let layer = unzipped(&blob(&layout, layer, &MediaType::ImageLayerGzip)?)?;
            ensure!(*id == sha256(&layer), "a layer has the digest {}, not {id}", sha256(&layer));
            tar::Archive::new(&*layer).unpack(&root)?;
            fs::write(directory.path().join("layer"), layer)?;
        }
        Ok(Self { directory, configuration, digest })
    }

    /// Returns the root of its file system.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// Returns the entries of its only layer.
    pub fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let layer = fs::File::open(self.directory.path().join("layer"))?;
        let mut layer = tar::Archive::new(layer);
        let entries = layer.entries()?.map(|entry| {
            let entry = entry?;
            let header = entry.header();
            let path = entry.path()?.to_str().context("a path that is not UTF-8")?.to_owned();
            Ok(Entry { path, mode: header.mode()?, owner: (header.uid()?, header.gid()?) })
        });
        entries.collect()
    }

    /// Returns a command that runs a program of the image in its file system, as its user, without environment. `None` if
    /// this process may not change its root; then a line on standard error says so.
    pub fn command(&self, program: &str) -> anyhow::Result<Option<Command>> {
        if !rustix::process::geteuid().is_root() {
            // Not the macro: its output is captured for tests that pass.
            writeln!(std::io::stderr(), "SKIPPED: not run as root; the program is not run in its image")?;
            return Ok(None);
        }
        // The user in the image has to reach the root of its file system, and the temporary directory belongs to root.
        fs::set_permissions(self.directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        add_libraries(&self.root())?;
        let config = self.configuration.config().as_ref().context("no configuration of containers")?;
        let user = config.user().as_ref().context("no user")?;
        let chroot =
            ["/usr/sbin/chroot", "/usr/bin/chroot"].into_iter().find(|path| Path::new(path).exists());
        let mut command = Command::new(chroot.context("no chroot")?);
        command.arg(format!("--userspec={user}")).arg("--groups=").arg(self.root()).arg(program).env_clear();
        Ok(Some(command))
    }

    /// Adds to a command what a pod with this account has to reach the API server: files and two variables.
    pub async fn mount_account(
        &self,
        command: &mut Command,
        plane: &ControlPlane,
        namespace: &str,
        account: &str,
    ) -> anyhow::Result<()> {
        let directory = self.root().join(ACCOUNT);
        fs::create_dir_all(&directory)?;
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
        let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.as_ref());
        let authority = cluster.and_then(|cluster| cluster.certificate_authority_data.as_ref());
        fs::write(directory.join("ca.crt"), STANDARD.decode(authority.context("no CA certificate")?)?)?;
        fs::write(directory.join("namespace"), namespace)?;
        fs::write(directory.join("token"), plane.token(namespace, account).await?)?;
        let server = plane.server().trim_start_matches("https://");
        let (host, port) = server.rsplit_once(':').with_context(|| format!("no port in {server}"))?;
        command
            .envs(image::ENVIRONMENT)
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", port);
        Ok(())
    }
}

/// Returns a blob of the layout.
fn blob(layout: &Path, descriptor: &Descriptor, kind: &MediaType) -> anyhow::Result<Vec<u8>> {
    let digest = descriptor.as_digest_sha256().context("a digest that is not SHA-256")?;
    let blob = fs::read(layout.join("blobs/sha256").join(digest))?;
    ensure!(descriptor.media_type() == kind, "{descriptor:?} is not a {kind}");
    ensure!(descriptor.size() == blob.len() as u64, "{descriptor:?} has {} bytes", blob.len());
    ensure!(sha256(&blob) == format!("sha256:{digest}"), "{descriptor:?} has the digest {}", sha256(&blob));
    Ok(blob)
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

fn unzipped(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut unzipped = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unzipped)?;
    Ok(unzipped)
}

/// Adds the C library of this machine, if the program needs it. The program of a release does not; the program of the tests
/// does.
fn add_libraries(root: &Path) -> anyhow::Result<()> {
    let output = Command::new("ldd").arg(root.join(image::PROGRAM)).output().context("starting ldd")?;
    let lines = String::from_utf8(output.stdout)?;
    for library in lines.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':')) {
        let copy = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().context("a library without directory")?)?;
        fs::copy(library, copy)?;
    }
    Ok(())
}

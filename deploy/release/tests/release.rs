//! Writes releases of this checkout with a program of a few bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use lockstep_release::{CHECKSUMS, Metadata, Target, image, write};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lockstep");

/// Writes a release with the same program for each platform, and returns the directory that contains it.
fn released_for(targets: &[Target], program: &[u8]) -> TempDir {
    let directory = tempfile::tempdir().expect("succeeds");
    let metadata = Metadata::read(Path::new(env!("CARGO_MANIFEST_DIR")), targets).expect("succeeds");
    let programs: Vec<_> = targets.iter().map(|target| (*target, program.to_vec())).collect();
    write(&directory.path().join("release"), &metadata, &programs, BTreeMap::new()).expect("succeeds");
    directory
}

/// Writes a release for one platform, and returns the directory that contains it.
fn released(program: &[u8]) -> TempDir {
    released_for(&[Target::Amd64], program)
}

/// Returns a file of a release.
fn file(directory: &TempDir, name: &str) -> Vec<u8> {
    fs::read(directory.path().join("release").join(name)).expect("succeeds")
}

/// Returns the files of an archive, by their paths.
fn unpacked(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        assert_eq!(entry.header().mtime().expect("a time"), 0);
        let (path, mut bytes) =
            (entry.path().expect("a path").to_str().expect("is UTF-8").to_owned(), Vec::new());
        entry.read_to_end(&mut bytes).expect("succeeds");
        if !path.ends_with('/') {
            files.insert(path, bytes);
        }
    }
    files
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut unzipped = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unzipped).expect("succeeds");
    unzipped
}

#[test]
fn two_releases_of_one_program_have_the_same_checksums() {
    let (one, two, other) = (released(b"program"), released(b"program"), released(b"other"));
    let sums = file(&one, CHECKSUMS);
    assert_eq!(String::from_utf8(sums.clone()), String::from_utf8(file(&two, CHECKSUMS)));
    assert_ne!(sums, file(&other, CHECKSUMS));
}

#[test]
fn the_checksums_are_those_of_all_files() {
    let directory = released(b"program");
    let release = directory.path().join("release");
    let check =
        Command::new("sha256sum").args(["--check", "--strict", CHECKSUMS]).current_dir(&release).output();
    let check = check.unwrap();
    assert!(check.status.success(), "{check:?}");

    let names = |text: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| Some(line.split_once("  ")?.1.to_owned())).collect()
    };
    let mut summed = names(&String::from_utf8(file(&directory, CHECKSUMS)).unwrap());
    summed.insert(CHECKSUMS.to_owned());
    let entries = fs::read_dir(&release).unwrap();
    let found: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, summed);
    let mode = fs::metadata(release.join("lockstep-linux-amd64")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn a_release_does_not_replace_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata::read(Path::new(env!("CARGO_MANIFEST_DIR")), &[Target::Amd64]).unwrap();
    let programs = [(Target::Amd64, b"program".to_vec())];
    let error = write(directory.path(), &metadata, &programs, BTreeMap::new()).unwrap_err();
    assert!(error.to_string().starts_with("creating "), "{error:#}");
}

#[test]
fn the_packaged_chart_and_the_crds_are_those_of_the_checkout() {
    let directory = released(b"program");
    let chart = unpacked(&unzipped(&file(&directory, &format!("lockstep-{VERSION}.tgz"))));
    for (path, bytes) in &chart {
        let path = path.strip_prefix("lockstep/").unwrap();
        assert_eq!(&fs::read(Path::new(CHART).join(path)).unwrap(), bytes, "{path}");
    }
    let text = String::from_utf8(file(&directory, "crds.yaml")).unwrap();
    let crds: Vec<&str> = text.split("---\n").skip(1).collect();
    assert_eq!(crds.len(), 5);
    assert!(crds.iter().all(|crd| crd.contains("kind: CustomResourceDefinition\n")));
    for required in ["Chart.yaml", "values.yaml", "values.schema.json", "templates/_helpers.tpl"] {
        assert!(chart.contains_key(&format!("lockstep/{required}")), "no {required}");
    }
    assert_eq!(chart.keys().filter(|path| path.contains("/crds/")).count(), crds.len());
}

#[test]
fn the_certificates_of_the_image_are_read_by_a_tls_library() {
    let programs = [(Target::Amd64, &b"program"[..])];
    let layout = unpacked(&image::archive(&programs, flate2::Compression::fast()).unwrap());
    let manifest: Value = serde_json::from_slice(&layout["manifest.json"]).unwrap();
    let layer = unpacked(&unzipped(&layout[manifest[0]["Layers"][0].as_str().unwrap()]));
    let certificates = CertificateDer::pem_slice_iter(&layer[image::CERTIFICATES]);
    let certificates: Vec<_> = certificates.map(Result::unwrap).collect();
    assert_eq!(certificates, webpki_root_certs::TLS_SERVER_ROOT_CERTS);
}

/// A registry serves the image of each platform by one name.
#[test]
fn a_release_for_two_platforms_has_an_index_of_both_images() {
    let directory = released_for(&[Target::Amd64, Target::Arm64], b"program");
    let layout = unpacked(&file(&directory, "lockstep-image.tar"));
    let document = |path: &str| -> Value { serde_json::from_slice(&layout[path]).unwrap() };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        document(&format!("blobs/sha256/{digest}"))
    };
    let index = blob(&document("index.json")["manifests"][0]);
    let images = index["manifests"].as_array().unwrap();
    let architectures: Vec<&Value> = images.iter().map(|image| &image["platform"]["architecture"]).collect();
    assert_eq!(architectures, ["amd64", "arm64"]);
    for (image, architecture) in images.iter().zip(architectures) {
        assert_eq!(blob(&blob(image)["config"])["architecture"], *architecture);
        // It is the image of the archive with one platform, byte for byte.
        let name = format!("lockstep-image-linux-{}.tar", architecture.as_str().unwrap());
        let alone = unpacked(&file(&directory, &name));
        let alone: Value = serde_json::from_slice(&alone["index.json"]).unwrap();
        assert_eq!(alone["manifests"][0]["digest"], image["digest"]);
    }
}

#[test]
fn the_sbom_lists_what_the_program_is_compiled_from() {
    let sbom: Value = serde_json::from_slice(&file(&released(b"program"), "lockstep.cdx.json")).unwrap();
    let components = sbom["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|component| component["name"] == name);
    let kube = find("kube").unwrap();
    assert_eq!(kube["hashes"][0]["content"].as_str().map(str::len), Some(64));
    assert_eq!(kube["licenses"][0]["expression"], "Apache-2.0");
    assert!(find("lockstep-engine").is_some() && find("ring").is_some());
    // Only tests use the first two. The others are for other platforms.
    for absent in ["proptest", "lockstep-tests", "windows-sys", "security-framework"] {
        assert!(find(absent).is_none(), "{absent}");
    }

    let references: BTreeSet<&str> =
        components.iter().filter_map(|component| component["bom-ref"].as_str()).collect();
    assert_eq!(references.len(), components.len());
    let program = &sbom["metadata"]["component"]["bom-ref"];
    for relation in sbom["dependencies"].as_array().unwrap() {
        let on = relation["dependsOn"].as_array().unwrap().iter().chain([&relation["ref"]]);
        for reference in on {
            let is_known = reference.as_str().is_some_and(|reference| references.contains(reference));
            assert!(is_known || reference == program, "{reference}");
        }
    }
}

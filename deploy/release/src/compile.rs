//! Builds the program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::cargo::{Metadata, cargo};
use crate::target::Target;

/// The separator of `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// Builds the program with the profile `release`, linked statically, without paths of this machine. Returns its path.
///
/// # Errors
/// If the C compiler, the headers of the C library or Rust's standard library for the target are missing, or if the program
/// does not compile.
pub fn compile(metadata: &Metadata, target: Target) -> anyhow::Result<PathBuf> {
    let (compiler, package) = target.compiler();
    let found = Command::new(compiler).arg("--version").output();
    ensure!(
        found.is_ok_and(|output| output.status.success()),
        "no C compiler {compiler}; on Debian: apt-get install {package}"
    );
    if let Some((headers, package)) = target.headers() {
        ensure!(
            Path::new(headers).is_dir(),
            "no directory {headers}; on Debian: dpkg --add-architecture arm64, apt-get update, apt-get install {package}"
        );
    }
    let triple = target.triple();
    let mut command = cargo();
    command
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            "lockstep-cli",
            "--bin",
            "lockstep",
            "--target",
            triple,
        ])
        .current_dir(&metadata.workspace_root)
        .env("CARGO_TARGET_DIR", &metadata.target_directory);
    for (name, value) in environment(metadata, target)? {
        command.env(name, value);
    }
    let status = command.status().context("starting cargo")?;
    ensure!(
        status.success(),
        "the program does not compile; if Rust's standard library is missing: rustup target add {triple}"
    );
    Ok(metadata.target_directory.join(triple).join("release/lockstep"))
}

/// Returns the variables of the build.
fn environment(metadata: &Metadata, target: Target) -> anyhow::Result<Vec<(String, String)>> {
    let variable = target.triple().replace('-', "_");
    let compiler = target.compiler().0.to_owned();
    let replaced = replaced_paths(metadata)?;
    let flags = |option: &str, separator: &str| {
        let flags: Vec<String> = replaced.iter().map(|(from, to)| format!("{option}={from}={to}")).collect();
        flags.join(separator)
    };
    let mut c_flags = flags("-ffile-prefix-map", " ");
    if let Some((headers, _)) = target.headers() {
        c_flags.push_str(" -isystem ");
        c_flags.push_str(headers);
    }
    let mut variables = vec![
        ("CARGO_ENCODED_RUSTFLAGS".to_owned(), flags("--remap-path-prefix", SEPARATOR)),
        (format!("CFLAGS_{variable}"), c_flags),
        (format!("CC_{variable}"), compiler.clone()),
        // For `__DATE__` and `__TIME__` in C.
        ("SOURCE_DATE_EPOCH".to_owned(), "0".to_owned()),
    ];
    if target == Target::Arm64 {
        variables.push((format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), compiler));
    }
    Ok(variables)
}

/// Returns the paths that the compilers write into a program, for messages of panics, with their replacements. If several
/// match, the last one counts: the directory of the build may be in the checkout.
fn replaced_paths(metadata: &Metadata) -> anyhow::Result<Vec<(String, &'static str)>> {
    let dependencies = metadata.packages.iter().filter(|package| package.source.is_some());
    let registries: BTreeSet<&Path> =
        dependencies.filter_map(|package| package.manifest_path.parent()?.parent()).collect();
    let paths = [(&*metadata.workspace_root, "/lockstep")]
        .into_iter()
        .chain(registries.into_iter().map(|path| (path, "/cargo")))
        .chain([(&*metadata.target_directory, "/target")]);
    paths
        .map(|(path, to)| {
            let path = path.to_str().filter(|path| !path.contains([' ', '=']));
            let path =
                path.context("a path of the build contains a space, \"=\" or other characters than UTF-8")?;
            Ok((path.to_owned(), to))
        })
        .collect()
}

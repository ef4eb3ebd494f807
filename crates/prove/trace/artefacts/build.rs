//! Builds the embedded programs with a nested cargo, so that a plain `cargo run` or `cargo test`
//! builds everything.
//!
//! The nested build has its own target directory, so the two builds share no lock. With a shared lock, they
//! would deadlock, because the outer build waits for the nested build. All profiles of the outer build use
//! the same directory, so the programs are built once for all of them. The outer build's settings for rustc
//! (flags, clippy's wrapper, a target) are not meant for these programs, so this script removes them from the
//! environment. The programs contain no path of this machine, so that a release can be reproduced.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target of these programs, whatever the target of knee is.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The cargo profile with which these programs are built.
const PROFILE: &str = "guest";
/// Crates whose changes require a rebuild.
const SOURCES: [&str; 6] =
    ["../agent", "../harness", "../marks", "../operations", "../plugin", "../../commute"];
const OVERRIDES: [&str; 6] = [
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
];

fn main() {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-changed=../../../../Cargo.toml");
    println!("cargo::rerun-if-changed=build.rs");

    // OUT_DIR is TARGET/PROFILE/build/PACKAGE/out.
    let target =
        out.ancestors().nth(4).expect("OUT_DIR is in a target directory").join("artefacts");
    let workspace = here.ancestors().nth(4).expect("this crate is four levels below the workspace");
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        PathBuf::from,
    );
    let remap = [(workspace, "/knee"), (&cargo_home, "/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    for (krate, file, flags) in [
        ("../plugin/Cargo.toml", "libknee_plugin.so", None),
        // A guest has no C library, so the agent is linked statically.
        ("../agent/Cargo.toml", "knee-agent", Some("-Ctarget-feature=+crt-static".to_owned())),
    ] {
        let flags: Vec<_> = remap.iter().cloned().chain(flags).collect();
        let from = build(&here.join(krate), &target, &flags).join(file);
        let to = out.join(file);
        if let Err(error) = std::fs::copy(&from, &to) {
            panic!("cannot copy {} to {}: {error}", from.display(), to.display());
        }
    }
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name} for build scripts"))
}

/// Builds a crate. Returns the directory of the results.
fn build(manifest: &Path, target_dir: &Path, flags: &[String]) -> PathBuf {
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--profile", PROFILE, "--locked", "--quiet", "--target", TARGET]);
    cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target_dir);
    for name in OVERRIDES {
        cargo.env_remove(name);
    }
    // Unlike RUSTFLAGS, this variable allows spaces in a path.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    match cargo.status() {
        Ok(status) if status.success() => target_dir.join(TARGET).join(PROFILE),
        Ok(status) => panic!("cargo build of {} ended with {status}", manifest.display()),
        Err(error) => panic!("cannot start cargo for {}: {error}", manifest.display()),
    }
}

//! Passes the linker script to rustc, and compiles the programs that the kernel runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    println!("cargo::rerun-if-changed=src/arch");
    println!("cargo::rerun-if-changed=user");
    if variable("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let architecture = variable("CARGO_CFG_TARGET_ARCH");
    let script = here.join(format!("src/arch/{architecture}.ld"));
    println!("cargo::rustc-link-arg=-T{}", script.display());
    println!("cargo::rustc-link-arg=--no-pie");
    for program in ["calls", "devices", "processes", "threads"] {
        compile(&here, program, &variable("TARGET"), &variable("OUT_DIR"));
    }
}

/// Compiles a static program for the kernel's target.
fn compile(here: &Path, program: &str, target: &str, out: &str) {
    let user = here.join("user");
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc.args(["--edition", "2024", "--crate-type", "bin", "--target", target]);
    rustc.args([
        "-Copt-level=2",
        "-Cpanic=abort",
        "-Crelocation-model=static",
        "-Clink-arg=--no-pie",
    ]);
    // The default code model of x86_64-unknown-none is for code in the upper 2 GiB.
    rustc.arg(if target.starts_with("x86_64") {
        "-Ccode-model=small"
    } else {
        "-Ccode-model=medium"
    });
    if target.starts_with("aarch64") {
        rustc.arg("-Ccode-model=small");
    }
    rustc.arg(format!("-Clink-arg=-T{}", user.join("program.ld").display()));
    rustc.arg(user.join(format!("{program}.rs"))).arg("-o").arg(Path::new(out).join(program));
    let status = rustc.status().expect("start rustc");
    assert!(status.success(), "rustc of {program} ended with {status}");
}

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
    let here = &here;
    let out = PathBuf::from(variable("OUT_DIR"));
    // Each crate depends only on crates that are listed before it.
    let libraries = ["marks", "operations"].map(|name| {
        let source = here.join("../../../prove/trace").join(name).join("src");
        println!("cargo::rerun-if-changed={}", source.display());
        Library { name: format!("knee_{name}"), source: source.join("lib.rs") }
    });
    let mut rustc = Rustc { target: variable("TARGET"), out, libraries: Vec::new() };
    for library in libraries {
        rustc.library(library);
    }
    for program in ["calls", "devices", "processes", "tasks", "threads"] {
        rustc.program(here, program);
    }
}

/// A crate that programs use.
struct Library {
    name: String,
    source: PathBuf,
}

/// Compiles static programs for the kernel's target.
struct Rustc {
    target: String,
    out: PathBuf,
    /// The names of the crates that have been compiled.
    libraries: Vec<String>,
}

impl Rustc {
    fn library(&mut self, Library { name, source }: Library) {
        let mut rustc = self.command();
        rustc.args(["--crate-type", "rlib", "--crate-name", &name]).arg(source);
        run(rustc.arg("-o").arg(self.path(&name)), &name);
        self.libraries.push(name);
    }

    fn program(&self, here: &Path, program: &str) {
        let user = here.join("user");
        let mut rustc = self.command();
        rustc.args(["--crate-type", "bin", "-Clink-arg=--no-pie"]);
        rustc.arg(format!("-Clink-arg=-T{}", user.join("program.ld").display()));
        rustc.arg(user.join(format!("{program}.rs"))).arg("-o").arg(self.out.join(program));
        run(&mut rustc, program);
    }

    /// Returns a `rustc` command with the options that all programs and crates need.
    fn command(&self) -> Command {
        let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
        rustc.args(["--edition", "2024", "--target", &self.target]);
        rustc.args(["-Copt-level=2", "-Cpanic=abort", "-Crelocation-model=static"]);
        // The default code model of x86_64-unknown-none is for code in the upper 2 GiB.
        let model = match self.target.split('-').next() {
            Some("x86_64" | "aarch64") => "small",
            _ => "medium",
        };
        rustc.arg(format!("-Ccode-model={model}"));
        rustc.arg("-L").arg(&self.out);
        for library in &self.libraries {
            rustc.arg("--extern").arg(format!("{library}={}", self.path(library).display()));
        }
        rustc
    }

    /// The file of a compiled crate.
    fn path(&self, library: &str) -> PathBuf {
        self.out.join(format!("lib{library}.rlib"))
    }
}

fn run(rustc: &mut Command, what: &str) {
    let status = rustc.status().expect("start rustc");
    assert!(status.success(), "rustc of {what} ended with {status}");
}

//! Builds of the crate that can be any mutant.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// A program that is the crate, and wrong in the place that it is told.
pub(crate) struct Program {
    path: PathBuf,
    /// Seconds after which it is ended: what is wrong may also never end, as where a lock is freed while
    /// somebody waits for it.
    patience: u32,
}

impl Program {
    /// The torture, as it is or with mutants.
    pub(crate) fn torture(flags: &[&str]) -> Program {
        Program { path: build(flags, "3", &["build", "--example", "torture"]), patience: 100 }
    }

    /// The models, for `loom` or `shuttle`.
    pub(crate) fn models(tool: &str) -> Program {
        let path = build(&["mutants", tool], "1", &["test", "--no-run", "--lib"]);
        Program { path, patience: 1200 }
    }

    /// The unit tests.
    pub(crate) fn units() -> Program {
        Program { path: build(&["mutants"], "0", &["test", "--no-run", "--lib"]), patience: 600 }
    }

    /// Runs it as this mutant, or as it is, to its end or that of the patience; that is a failure, of
    /// status 124.
    pub(crate) fn run(&self, mutant: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--foreground", &self.patience.to_string()]).arg(&self.path).args(arguments);
        command.env_remove("KNEE_MUTANT").envs(mutant.map(|m| ("KNEE_MUTANT", m)));
        // To name the functions of a backtrace takes longer than most models.
        command.env("RUST_BACKTRACE", "0");
        command.output().expect("run what was built")
    }
}

/// Builds the crate with these `cfg`s, in the directory where cargo has built all that it depends on.
fn build(flags: &[&str], optimised: &str, arguments: &[&str]) -> PathBuf {
    /// Builds wait for each other anyway, and cargo would say so.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut cargo = Command::new(env!("CARGO"));
    for setting in ["debug=0", &format!("opt-level={optimised}")] {
        cargo.args([
            "--config",
            &format!("profile.dev.package.{}.{setting}", env!("CARGO_PKG_NAME")),
        ]);
    }
    cargo.args(arguments);
    cargo.args(["--quiet", "--locked", "--offline", "--message-format", "json"]);
    cargo.args(["--package", env!("CARGO_PKG_NAME"), "--target-dir"]);
    cargo.arg(directory.parent().expect("it is in the target directory"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    if !flags.is_empty() {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", wrapper(directory, flags));
    }
    let output = cargo.output().expect("run cargo");
    assert!(output.status.success(), "{}", said(&output));
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable =
        messages.split("\"executable\":\"").nth(1).and_then(|rest| rest.split('"').next());
    executable.expect("cargo says where the program is").into()
}

/// A compiler of the crates of this workspace alone with these `cfg`s. cargo keeps what it makes apart from
/// what others make, by its name.
fn wrapper(directory: &Path, flags: &[&str]) -> PathBuf {
    let path = directory.join(format!("rustc-{}", flags.join("-")));
    let cfgs: String = flags.iter().map(|flag| format!(" --cfg {flag}")).collect();
    let script = format!("#!/bin/sh\nexec \"$@\"{cfgs}\n");
    // One that changes has all be built anew.
    if fs::read_to_string(&path).ok().as_ref() != Some(&script) {
        fs::write(&path, script).expect("write a script");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("it is ours");
    }
    path
}

/// Has Miri run this unit test, in some schedules, as this mutant or as it is.
pub(crate) fn interpret(mutant: Option<&str>, test: &str) -> Output {
    let mut rustup = Command::new("rustup");
    rustup.args(["run", "nightly", "cargo", "miri", "test", "--quiet", "--locked", "--lib"]);
    rustup.args(["--", "--exact", test]);
    rustup.current_dir(env!("CARGO_MANIFEST_DIR"));
    rustup.env("RUSTFLAGS", "--cfg mutants");
    // parking_lot makes pointers of integers.
    let flags = "-Zmiri-many-seeds=0..16 -Zmiri-disable-isolation -Zmiri-permissive-provenance";
    // Not by the environment: Miri keeps that of the build.
    let mutant = mutant.map(|mutant| format!(" -Zmiri-env-set=KNEE_MUTANT={mutant}"));
    rustup.env("MIRIFLAGS", flags.to_owned() + &mutant.unwrap_or_default());
    rustup.env_remove("KNEE_MUTANT");
    rustup.output().expect("run rustup")
}

/// All that a program has said.
pub(crate) fn said(output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    said(&output.stdout) + &said(&output.stderr)
}

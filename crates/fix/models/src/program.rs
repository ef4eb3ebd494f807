//! Builds crates with planted mutants, and runs the resulting programs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A crate whose mutants are tested.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// The directory that contains the crate's `Cargo.toml`.
    pub manifest_dir: &'static str,
    /// A directory in the target directory, for builds and scripts.
    pub target_tmpdir: &'static str,
}

/// How to compile a crate.
pub(crate) struct Build<'a> {
    /// The `cfg`s for the crates of this workspace only. Builds with different `cfg`s share the compiled
    /// dependencies.
    pub(crate) workspace: &'a [&'a str],
    /// The model checker, loom or shuttle. The build sets the checker's `--cfg` for all crates, because cargo
    /// uses this `--cfg` to select dependencies.
    pub(crate) checker: Option<&'a str>,
    pub(crate) optimised: u8,
    /// The cargo arguments that select what to build.
    pub(crate) targets: &'a [&'a str],
}

/// A program that makes the planted mistake that `KNEE_MUTANT` names.
pub(crate) struct Program(PathBuf);

/// The result of a run of a program.
pub(crate) struct Run {
    pub(crate) is_success: bool,
    pub(crate) is_timed_out: bool,
    pub(crate) time: Duration,
    /// Everything that the program printed.
    pub(crate) printed: String,
}

/// The exit status of timeout(1) if the program reached its time limit.
const TIMED_OUT: i32 = 124;

impl Build<'_> {
    fn cfgs(&self) -> Vec<&str> {
        self.checker.iter().chain(self.workspace).copied().collect()
    }
}

impl Program {
    /// Runs the program for at most `limit`. If `mutant` is given, the program makes the planted mistake with
    /// this name.
    pub(crate) fn run(&self, mutant: Option<&str>, arguments: &[&str], limit: Duration) -> Run {
        let mut command = Command::new("timeout");
        command.args(["--foreground", &limit.as_secs().to_string()]).arg(&self.0).args(arguments);
        command.env_remove("KNEE_MUTANT").envs(mutant.map(|mutant| ("KNEE_MUTANT", mutant)));
        // Symbolizing a backtrace takes longer than running most models.
        command.env("RUST_BACKTRACE", "0");
        let begin = Instant::now();
        let output = command.output().expect("run timeout(1)");
        Run {
            is_success: output.status.success(),
            is_timed_out: output.status.code() == Some(TIMED_OUT),
            time: begin.elapsed(),
            printed: printed(&output),
        }
    }

    /// The program's tests whose paths contain `filter`.
    pub(crate) fn tests(&self, filter: &str) -> Vec<String> {
        let output = Command::new(&self.0).args([filter, "--list"]).output().expect("list tests");
        let tests = printed(&output);
        tests.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    }
}

impl Run {
    /// Whether the program failed because a test failed, and not for another reason. Under loom, a panic
    /// while unwinding ends the process before the harness prints its result, so a printed panic without a
    /// result from the harness counts too.
    pub(crate) fn is_failed_test(&self) -> bool {
        let is_failed = ["test result: FAILED", "panicked at"];
        !self.is_success
            && !self.is_timed_out
            && is_failed.iter().any(|text| self.printed.contains(text))
    }

    /// Whether exactly one test has run and passed. The harness also succeeds if no test has the given name.
    pub(crate) fn is_passed_test(&self) -> bool {
        self.is_success && self.printed.contains("1 passed; 0 failed")
    }
}

/// Compiles a crate and returns its programs, each under the name of its target.
pub(crate) fn build(package: &Package, build: &Build) -> BTreeMap<String, Program> {
    /// Allows one build at a time: cargo makes concurrent builds wait for each other, and prints a message
    /// for each wait.
    static CARGO: Mutex<()> = Mutex::new(());
    let _one = CARGO.lock();
    let tmpdir = Path::new(package.target_tmpdir);
    let mut cargo = Command::new(env!("CARGO"));
    for name in ["knee-sync", "knee-models", package.name] {
        for setting in ["debug=0", &format!("opt-level={}", build.optimised)] {
            cargo.args(["--config", &format!("profile.dev.package.{name}.{setting}")]);
        }
    }
    cargo.args(build.targets).args(["--package", package.name]);
    cargo.args(["--quiet", "--locked"]);
    cargo.args(["--message-format", "json-render-diagnostics", "--target-dir"]);
    if let Some(checker) = build.checker {
        // The `--cfg` applies to all crates, so this build has a target directory of its own.
        cargo.arg(tmpdir.join(checker));
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", format!("--cfg {checker}"));
    } else {
        cargo.arg(tmpdir.parent().expect("`tmpdir` is in the target directory"));
    }
    if !build.workspace.is_empty() {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", wrapper(tmpdir, build.workspace));
    }
    cargo.current_dir(package.manifest_dir);
    let output = cargo.output().expect("run cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot build {}: {errors}", package.name);
    let messages = String::from_utf8_lossy(&output.stdout);
    messages.lines().filter_map(|message| program(message, tmpdir, &build.cfgs())).collect()
}

/// If this cargo message reports a program, copies the program. Returns the copy and the name of the
/// program's target. The copy is needed because another build would overwrite the executable of an example.
fn program(message: &str, tmpdir: &Path, cfgs: &[&str]) -> Option<(String, Program)> {
    let value = |key: &str| message.split_once(key)?.1.split('"').next();
    let executable = value("\"executable\":\"")?;
    let (_, target) = message.split_once("\"target\":{")?;
    let name = target.split_once("\"name\":\"")?.1.split('"').next()?.to_owned();
    let copy = tmpdir.join(format!("{name}-{}", cfgs.join("-")));
    // A running program cannot be overwritten, but it can be replaced.
    let _ = fs::remove_file(&copy);
    fs::copy(executable, &copy).expect("copy a program");
    Some((name, Program(copy)))
}

/// A compiler wrapper that adds these `cfg`s. cargo uses it only for the crates of this workspace, and
/// separates the output of wrappers with different names.
fn wrapper(tmpdir: &Path, cfgs: &[&str]) -> PathBuf {
    let path = tmpdir.join(format!("rustc-{}", cfgs.join("-")));
    let flags: String = cfgs.iter().map(|cfg| format!(" --cfg {cfg}")).collect();
    let script = format!("#!/bin/sh\nexec \"$@\"{flags}\n");
    // cargo recompiles everything if this file is written, so it is written only if its content changes.
    if fs::read_to_string(&path).ok().as_ref() != Some(&script) {
        fs::write(&path, script).expect("write a script");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("make a script executable");
    }
    path
}

/// Runs a unit test under a toolchain's Miri with several seeds. If `mutant` is given, the program makes the
/// planted mistake with this name. If the test fails, returns Miri's output.
pub(crate) fn interpret(
    package: &Package,
    toolchain: &OsStr,
    mutant: Option<&str>,
    test: &str,
) -> Result<(), String> {
    let mut rustup = Command::new("rustup");
    rustup.arg("run").arg(toolchain);
    rustup.args(["cargo", "miri", "test", "--quiet", "--locked", "--lib"]);
    rustup.args(["--", "--exact", test]);
    rustup.current_dir(package.manifest_dir);
    rustup.env("RUSTFLAGS", "--cfg mutants");
    // parking_lot converts integers to pointers.
    let flags = "-Zmiri-many-seeds=0..16 -Zmiri-disable-isolation -Zmiri-permissive-provenance";
    // Under Miri, a program sees the environment of its build, not of its run. So a flag of Miri sets
    // `KNEE_MUTANT`.
    let mutant = mutant.map(|mutant| format!(" -Zmiri-env-set=KNEE_MUTANT={mutant}"));
    rustup.env("MIRIFLAGS", flags.to_owned() + &mutant.unwrap_or_default());
    rustup.env_remove("KNEE_MUTANT");
    let output = rustup.output().expect("run rustup");
    if output.status.success() { Ok(()) } else { Err(printed(&output)) }
}

fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

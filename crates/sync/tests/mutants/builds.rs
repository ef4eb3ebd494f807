//! Builds of the crate that can be any mutant.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program that is the crate, and wrong in the place that it is told.
pub(crate) struct Program(PathBuf);

impl Program {
    /// The torture, as it is or with mutants.
    pub(crate) fn torture(flags: &str) -> Program {
        let arguments = ["--release", "--example", "torture"];
        build(if flags.is_empty() { "real" } else { "mutants" }, flags, "build", &arguments, &[])
    }

    /// The models for loom. The mutants are told to the compiler of this crate alone, so that loom is
    /// built as it is.
    pub(crate) fn models() -> Program {
        Program::tests("loom", "--cfg loom")
    }

    /// The models for shuttle.
    pub(crate) fn schedules() -> Program {
        Program::tests("shuttle", "--cfg shuttle")
    }

    /// The unit tests.
    pub(crate) fn units() -> Program {
        Program::tests("units", "")
    }

    fn tests(name: &str, flags: &str) -> Program {
        let arguments = ["--lib", "--profile", "test"];
        build(name, flags, "rustc", &arguments, &["--", "--cfg", "mutants"])
    }

    /// Runs it as this mutant, or as it is.
    pub(crate) fn run(&self, mutant: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.0);
        command.args(arguments).env_remove("KNEE_MUTANT").envs(mutant.map(|m| ("KNEE_MUTANT", m)));
        // To name the functions of a backtrace takes longer than most models.
        command.env("RUST_BACKTRACE", "0");
        command.output().expect("run what was built")
    }
}

fn build(name: &str, flags: &str, verb: &str, arguments: &[&str], last: &[&str]) -> Program {
    let output = Command::new(env!("CARGO"))
        .args([verb, "--quiet", "--locked", "--offline", "--message-format", "json"])
        .args(["--package", env!("CARGO_PKG_NAME"), "--target-dir"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
        .args(arguments)
        .args(last)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .expect("run cargo");
    assert!(output.status.success(), "{}", said(&output));
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable =
        messages.split("\"executable\":\"").nth(1).and_then(|rest| rest.split('"').next());
    Program(executable.expect("cargo says where the program is").into())
}

/// All that a program has said.
pub(crate) fn said(output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    said(&output.stdout) + &said(&output.stderr)
}

//! Builds of the crate that can be any mutant.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Programs that have tests, each of which is the crate, and wrong in the place that it is told.
pub(crate) struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    /// The tests of `tests/`, by these names.
    pub(crate) fn tests(names: &[&str]) -> Programs {
        let each = names.iter().flat_map(|name| ["--test", name]);
        let arguments: Vec<_> = ["--no-run"].into_iter().chain(each).collect();
        build("tests", "--cfg mutants", "test", &arguments)
    }

    /// The models. The mutants are told to the compiler of this crate alone, so that loom is built as
    /// it is.
    pub(crate) fn models() -> Programs {
        let arguments = ["--lib", "--profile", "test", "--", "--cfg", "mutants"];
        build("loom", "--cfg loom", "rustc", &arguments)
    }

    /// Runs all tests whose names have this in them, as they are.
    pub(crate) fn run_all(&self, program: &str, tests: &str) -> Output {
        self.run_with(program, None, &[tests])
    }

    /// Runs a test as this mutant, or as it is.
    pub(crate) fn run(&self, program: &str, mutant: Option<&str>, test: &str) -> Output {
        self.run_with(program, mutant, &["--exact", test])
    }

    fn run_with(&self, program: &str, mutant: Option<&str>, arguments: &[&str]) -> Output {
        // What is wrong may also never end: that is a failure, of status 124.
        let mut command = Command::new("timeout");
        command.args(["--foreground", "600"]).arg(&self.0[program]).args(arguments);
        command.env_remove("KNEE_MUTANT").envs(mutant.map(|mutant| ("KNEE_MUTANT", mutant)));
        // To name the functions of a backtrace takes longer than most tests.
        command.env("RUST_BACKTRACE", "0");
        command.output().expect("run what was built")
    }
}

fn build(name: &str, flags: &str, verb: &str, arguments: &[&str]) -> Programs {
    let output = Command::new(env!("CARGO"))
        .args([verb, "--quiet", "--locked", "--offline", "--message-format", "json"])
        .args(["--package", env!("CARGO_PKG_NAME"), "--target-dir"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", flags)
        // Nobody looks at it with a debugger, and what it takes is time to compile.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .expect("run cargo");
    assert!(output.status.success(), "{}", said(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let programs = said.lines().filter_map(|line| {
        let path = PathBuf::from(line.split("\"executable\":\"").nth(1)?.split('"').next()?);
        // Without the hash that cargo adds.
        let name = path.file_stem()?.to_str()?.rsplit_once('-')?.0.to_owned();
        Some((name, path))
    });
    Programs(programs.collect())
}

/// All that a program has printed.
pub(crate) fn said(output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    said(&output.stdout) + &said(&output.stderr)
}

//! loom tries every order of the protocols' accesses. It replaces the atomics of the whole crate, which
//! so has to be built again; and where the crate is a mutant, a model has to fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds the models; returns where they are. The mutant is told to the compiler of this crate alone, so
/// that loom is built once.
fn build(mutant: Option<&str>) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["rustc", "--quiet", "--locked", "--lib", "--profile", "test"])
        .args(["--message-format", "json", "--package", env!("CARGO_PKG_NAME")])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("loom"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", "--cfg loom")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    if let Some(mutant) = mutant {
        cargo.args(["--", "--cfg", &format!("mutant=\"{mutant}\"")]);
    }
    let output = cargo.output().expect("run cargo");
    assert!(output.status.success(), "{}", said(&output));
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable =
        messages.split("\"executable\":\"").nth(1).and_then(|rest| rest.split('"').next());
    executable.expect("cargo says where the tests are").into()
}

fn models(mutant: Option<&str>) -> Output {
    Command::new(build(mutant)).arg("modelled").output().expect("run the models")
}

fn said(output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    said(&output.stdout) + &said(&output.stderr)
}

#[test]
fn models_hold_and_those_of_mutants_do_not() {
    let real = models(None);
    assert!(real.status.success(), "{}", said(&real));
    for mutant in ["no_light_fence", "no_fence", "early", "future"] {
        let output = models(Some(mutant));
        let said = said(&output);
        assert!(
            !output.status.success() && said.contains("test result: FAILED"),
            "{mutant}: {said}"
        );
    }
}

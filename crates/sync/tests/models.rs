//! loom tries every order of the protocols' accesses. It replaces the atomics of the whole crate, which
//! so has to be built again; and where the crate is a mutant, a model has to fail.

use std::path::Path;
use std::process::{Command, Output};

fn models(mutant: Option<&str>) -> Output {
    let mut flags = "--cfg loom".to_owned();
    if let Some(mutant) = mutant {
        flags.push_str(&format!(" --cfg mutant=\"{mutant}\""));
    }
    Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--release", "--locked", "--lib", "modelled"])
        .args(["--package", env!("CARGO_PKG_NAME")])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("loom"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .expect("run cargo")
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

//! Every order that matters can be made wrong, and then the torture has to notice: else it would prove
//! nothing about the real code.
//!
//! A mutant is the crate with `--cfg mutant="…"`, built into a directory of its own.

use std::path::PathBuf;
use std::process::Command;
use std::thread::available_parallelism;

/// Long enough for any of them on a busy machine; most are noticed within a second.
const PATIENCE: &str = "90";

/// What is made wrong, whether both sides execute fences, and whether it takes the luck of two CPUs to
/// notice.
const MUTANTS: [(&str, bool, bool); 6] = [
    // `heavy` is a fence of the caller alone.
    ("own_fence", false, true),
    // A barrier that has begun before serves those who come after.
    ("joins_late", false, true),
    // `scan` looks without a fence.
    ("no_fence", false, true),
    // Readers of a symmetric domain execute no fence.
    ("no_light_fence", true, true),
    // What readers of the same time may hold is freed.
    ("early", false, false),
    // Readers say that they have begun later than they have.
    ("future", false, false),
];

/// Builds the torture; returns where it is.
fn build(mutant: Option<&str>) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(mutant.unwrap_or("real"));
    let flags = mutant.map_or(String::new(), |mutant| format!("--cfg mutant=\"{mutant}\""));
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--offline", "--example", "torture"])
        .args(["--package", env!("CARGO_PKG_NAME")])
        .arg("--target-dir")
        .arg(&directory)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .expect("run cargo");
    assert!(built.success(), "cargo build of {mutant:?}");
    directory.join("release/examples/torture")
}

/// Whether it has noticed something.
fn run(torture: &PathBuf, seconds: &str, symmetric: bool) -> bool {
    let arguments = [seconds, if symmetric { "symmetric" } else { "" }];
    let status = Command::new(torture).args(arguments).status().expect("run the torture");
    match status.code() {
        Some(0) => false,
        Some(1) => true,
        _ => panic!("the torture ended with {status}"),
    }
}

#[test]
fn the_torture_notices_each_mutant_and_nothing_in_the_real_code() {
    if available_parallelism().map_or(1, |cpus| cpus.get()) < 2 {
        eprintln!("skipped: on one CPU nothing happens at once");
        return;
    }
    let real = build(None);
    for symmetric in [false, true] {
        assert!(!run(&real, "3", symmetric), "symmetric: {symmetric}");
    }
    for (mutant, symmetric, takes_luck) in MUTANTS {
        let noticed = run(&build(Some(mutant)), PATIENCE, symmetric);
        if !noticed && takes_luck {
            eprintln!("skipped: {mutant} was not noticed in {PATIENCE} s; is the machine busy?");
            continue;
        }
        assert!(noticed, "{mutant} survives");
    }
}

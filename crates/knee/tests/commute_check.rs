//! `knee commute check`: a kernel of Debian in a guest. Skipped, with a reason, where there is no
//! QEMU or no such kernel.

mod support;

use std::process::Command;

use knee_trace::Archive;
use support::{Finished, Scratch, finish};

/// The Debian release whose kernel is checked.
const RELEASE: &str = "bookworm";

fn check(args: &[&str]) -> Option<Finished> {
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        eprintln!("skipped: qemu-system-x86_64 is not installed");
        return None;
    }
    if let Err(error) = Archive::of_user().fetch(RELEASE) {
        eprintln!("skipped: there is no kernel of {RELEASE}: {error}");
        return None;
    }
    let scratch = Scratch::new();
    Some(finish(scratch.knee(&["commute", "check", "--kernel", RELEASE]).args(args)))
}

fn tests(finished: &Finished) -> Vec<serde_json::Value> {
    let lines = finished.assert_code(0).stdout.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn calls_that_look_up_what_is_not_there_share_nothing_and_renames_share_the_directory() {
    let Some(stats) = check(&["stat", "stat", "--json"]) else { return };
    let stats = tests(&stats);
    assert_eq!(stats.len(), 7);
    for test in &stats {
        assert_eq!(test["unexpected"], serde_json::Value::Null, "{test}");
        assert!(test["verdict"] == "conflict-free" || !test["conflicts"].is_null(), "{test}");
    }
    let free = stats.iter().filter(|test| test["verdict"] == "conflict-free").count();
    assert!(free > 0, "{stats:?}");
    // Linux locks the directory for each, whatever is renamed in it.
    let Some(renames) = check(&["rename", "rename"]) else { return };
    renames
        .assert_code(0)
        .assert_stdout_has("tests are conflict-free")
        .assert_stdout_has("Writers of shared lines")
        .assert_stdout_has("down_write");
}

#[test]
fn kernels_are_listed_and_fetched_by_name() {
    if let Err(error) = Archive::of_user().fetch(RELEASE) {
        eprintln!("skipped: there is no kernel of {RELEASE}: {error}");
        return;
    }
    let scratch = Scratch::new();
    let kernel = |args: &[&str]| finish(scratch.knee(&["kernel"]).args(args));
    let listed = kernel(&["list", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&listed.assert_code(0).stdout).unwrap();
    let kernels = document["kernels"].as_array().unwrap();
    assert!(kernels.iter().any(|kernel| kernel["release"] == RELEASE), "{document:#}");
    kernel(&["list"]).assert_code(0).assert_stdout_has(RELEASE);
    let fetched = kernel(&["fetch", RELEASE]);
    assert!(std::path::Path::new(fetched.assert_code(0).stdout.trim()).is_file());
    kernel(&["fetch", "0.99"]).assert_code(3).assert_stderr_has("0.99");
}

#[test]
fn what_is_no_kernel_is_told() {
    let scratch = Scratch::new();
    let told = |kernel: &str| {
        finish(&mut scratch.knee(&["commute", "check", "stat", "stat", "--kernel", kernel]))
    };
    told("/nowhere/vmlinuz").assert_code(3).assert_stderr_has("there is no file /nowhere/vmlinuz");
    told("/bin/true").assert_code(3).assert_stderr_has("is neither an x86 kernel image");
}

//! The choice of QEMU for guests: `knee qemu` and `KNEE_QEMU`. Tests that require the network or QEMU are
//! skipped, with a reason, if it is missing.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use knee_trace::{Emulator, Emulators};
use serde_json::Value;
use support::{Finished, Scratch, finish, has_guests, skip};

/// The Debian release whose kernel runs.
const KERNEL: &str = "bookworm";
/// The Debian release whose QEMU is fetched.
const QEMU: &str = "trixie";

/// Whether that QEMU can be fetched. Prints the reason if not.
fn has_network() -> bool {
    if let Err(error) = Emulators::of_user().unwrap().fetch(QEMU) {
        skip("network", error);
        return false;
    }
    true
}

fn qemu(args: &[&str]) -> Finished {
    finish(Scratch::new().knee(&["qemu"]).args(args))
}

#[test]
fn qemus_are_listed_and_fetched_by_name() {
    if !has_network() {
        return;
    }
    let document: Value =
        serde_json::from_str(&qemu(&["list", "--json"]).assert_code(0).stdout).unwrap();
    let qemus = document["qemus"].as_array().unwrap();
    assert!(qemus.iter().any(|qemu| qemu["release"] == QEMU), "{document:#}");
    assert!(qemus.iter().any(|qemu| qemu["fetched"] == true), "{document:#}");
    qemu(&["list"]).assert_code(0).assert_stdout_has(QEMU).assert_stdout_has("fetched");
    let fetched = qemu(&["fetch", QEMU]);
    let name = fetched.assert_code(0).stdout.trim();
    fetched.assert_stderr_has("knee: QEMU ");
    let scratch = Scratch::new();
    let doctor = finish(scratch.knee(&["doctor"]).env("KNEE_QEMU", name));
    doctor.assert_code(0).assert_stdout_has(&format!("), KNEE_QEMU={name}\n"));
    qemu(&["fetch", "0.99"]).assert_code(2).assert_stderr_has("no QEMU is named 0.99");
}

#[test]
fn a_record_names_its_qemu_and_plugin_and_resuming_with_others_warns() {
    if !has_network() || !has_guests(KERNEL) {
        return;
    }
    let scratch = Scratch::new();
    let all = finish(&mut scratch.knee(&["commute", "tests", "fstat", "fstat"]));
    let few: Vec<&str> = all.assert_code(0).stdout.lines().take(10).collect();
    fs::write(scratch.path().join("tests.jsonl"), few.join("\n") + "\n").unwrap();
    let check = |resume: &[&str]| {
        let args = ["commute", "check", "--tests", "tests.jsonl", "--kernel", KERNEL];
        let mut knee = scratch.knee(&args);
        finish(knee.args(["-o", "record"]).args(resume).env("KNEE_QEMU", QEMU))
    };
    check(&[]).assert_code(0);
    let path = scratch.path().join("record/check.json");
    let record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let version = Emulators::of_user().unwrap().find(QEMU).unwrap().unwrap().version().unwrap();
    assert_eq!(record["qemu"], version);
    assert_eq!(record["plugin"].as_str().map(str::len), Some(16), "{record:#}");
    // As if another QEMU had started the check, and knee had been killed.
    fs::write(&path, record.to_string().replace(&version, "7.2.0")).unwrap();
    let tests = scratch.path().join("record/tests.jsonl");
    let text = fs::read_to_string(&tests).unwrap();
    fs::write(&tests, &text[..text.find('\n').unwrap() + 1]).unwrap();
    let told = format!("knee: record: QEMU differs (7.2.0, then {version})");
    check(&["--resume"]).assert_code(0).assert_stderr_has(&told);
}

#[test]
fn a_qemu_that_cannot_be_used_is_reported_with_what_to_set() {
    let scratch = Scratch::new();
    let cost =
        |qemu: &str| finish(scratch.knee(&["commute", "cost", "open"]).env("KNEE_QEMU", qemu));
    let unset = "set KNEE_QEMU to a qemu-system-x86_64, or unset it to use the installed one";
    cost("/nowhere/qemu")
        .assert_code(3)
        .assert_stderr_has("cannot start /nowhere/qemu: it does not exist")
        .assert_stderr_has(unset);
    cost("/bin/true").assert_code(3).assert_stderr_has("/bin/true is not qemu-system-x86_64");
    let doctor = |qemu: &str| {
        let mut doctor = scratch.knee(&["doctor", "--json"]);
        doctor.env("XDG_CACHE_HOME", scratch.path()).env("KNEE_QEMU", qemu);
        let document: Value = serde_json::from_str(&finish(&mut doctor).stdout).unwrap();
        let checks = document["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "QEMU").unwrap().clone()
    };
    assert_eq!(doctor("/bin/true")["status"], "missing");
    assert_eq!(doctor("trixie")["remedy"]["command"], "knee qemu fetch trixie");
}

#[test]
fn the_installed_qemu_is_the_default() {
    let Ok(version) = Emulator::default().version() else {
        return skip("qemu", "qemu-system-x86_64 is not installed");
    };
    let scratch = Scratch::new();
    let doctor = |named: &str| {
        let told = finish(scratch.knee(&["doctor"]).env("KNEE_QEMU", named)).stdout;
        told.lines().find(|line| line.contains(" QEMU  ")).unwrap().to_owned()
    };
    assert!(doctor("").ends_with(&format!("{version}, installed")), "{}", doctor(""));
    let installed = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|dir| dir.join("qemu-system-x86_64"))
        .find(|file| Path::is_file(file))
        .unwrap();
    let named = doctor(installed.to_str().unwrap());
    assert!(named.ends_with(&format!("KNEE_QEMU={}", installed.display())), "{named}");
}

/// A script that runs the user's QEMU with a part of its arguments replaced.
fn changed(scratch: &Scratch, from: &str, to: &str) -> PathBuf {
    let emulator = Emulator::of_user().unwrap().command();
    let environment = emulator.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let environment: String = environment
        .map(|(name, value)| format!("export {}='{}'\n", name.display(), value.display()))
        .collect();
    let words = std::iter::once(emulator.get_program()).chain(emulator.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
    let words = words.join(" ");
    let script = format!("#!/bin/bash\n{environment}exec {words} \"${{@/{from}/{to}}}\"\n");
    let path = scratch.path().join("qemu");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_qemu_that_does_not_show_two_cpus_is_refused_by_check_cost_and_doctor() {
    if !has_guests(KERNEL) {
        return;
    }
    let scratch = Scratch::new();
    // Then both sides have their windows open on one CPU.
    let qemu = changed(&scratch, "nokaslr", "nokaslr maxcpus=1");
    let refused = |args: &[&str]| finish(scratch.knee(args).env("KNEE_QEMU", &qemu));
    let check = refused(&["commute", "check", "fstat", "fstat", "--kernel", KERNEL]);
    check
        .assert_code(3)
        .assert_stderr_has("does not distinguish two CPUs")
        .assert_stderr_has("KNEE_QEMU");
    assert!(!check.stdout.contains("conflict-free"), "{}", check.stdout);
    let cost = refused(&["commute", "cost", "lseek_shared", "--cpus", "2", "--kernel", KERNEL]);
    cost.assert_code(3).assert_stderr_has("does not distinguish two CPUs");
    let doctor = refused(&["doctor"]);
    doctor.assert_code(0).assert_stdout_has("missing  calibration");
}

#[test]
fn a_qemu_that_confuses_cpus_is_refused() {
    if !has_guests(KERNEL) {
        return;
    }
    let version = Emulator::of_user().unwrap().version().unwrap();
    // QEMU before 10.0 passed the right number, and versions after 11.1 may do so again.
    if !["10.", "11."].iter().any(|wrong| version.starts_with(wrong)) {
        return skip("qemu-10", format_args!("QEMU {version} passes the right CPU to plugins"));
    }
    let scratch = Scratch::new();
    // knee does not rely on the CPU number that QEMU passes.
    let qemu = changed(&scratch, ",user=", ",cpu=number,user=");
    let args = ["commute", "check", "fstat", "fstat", "--kernel", KERNEL];
    let check = finish(scratch.knee(&args).env("KNEE_QEMU", &qemu));
    check.assert_code(3).assert_stderr_has("failed its calibration");
}

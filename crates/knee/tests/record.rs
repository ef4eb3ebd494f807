//! Where a record goes, and what cannot be one.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use support::{Scratch, finish, start};

#[test]
fn a_directory_without_a_run_is_reported_once() {
    let scratch = Scratch::new();
    for command in [&["show", "work"][..], &["run", "--resume", "work"]] {
        let finished = finish(&mut scratch.knee(command));
        finished.assert_code(3).assert_stderr_has("work contains no run.json");
        assert!(!finished.stderr.contains("os error"), "{finished:#?}");
    }
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_path_that_is_not_utf_8_is_rejected() {
    let scratch = Scratch::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    fs::create_dir(scratch.path().join(name)).unwrap();
    for option in ["--dir", "-o", "--plugin"] {
        let finished = finish(scratch.knee(&["run", "getppid1", "-q", option]).arg(name));
        finished.assert_code(2).assert_stderr_has(option).assert_stderr_has("not UTF-8");
    }
    let finished = finish(scratch.knee(&["run", "getppid1", "-q"]).env("TMPDIR", name));
    finished.assert_code(2).assert_stderr_has("not UTF-8");
    assert!(!scratch.path().join("runs").exists());
    assert_eq!(fs::read_dir(scratch.path().join(name)).unwrap().count(), 0);
}

#[test]
fn runs_of_the_same_second_have_a_directory_each() {
    let scratch = Scratch::new();
    let run = ["run", "-q", "getppid1", "-t", "1", "-m", "threads", "-r", "1", "-s", "1"];
    let mut runs: Vec<_> = (0..4).map(|_| start(&mut scratch.knee(&run))).collect();
    for run in &mut runs {
        assert_eq!(run.wait().unwrap().code(), Some(0));
    }
    let records = fs::read_dir(scratch.path().join("runs")).unwrap();
    let whole = records.filter(|dir| dir.as_ref().unwrap().path().join("run.json").exists());
    assert_eq!(whole.count(), 4);
}

#[test]
fn an_error_on_a_full_disk_names_the_file_that_was_written() {
    let scratch = Scratch::new();
    let mut shell = std::process::Command::new("sh");
    // 64 blocks of 512 bytes are less than these tests.
    shell.args(["-c", "ulimit -f 64; exec \"$0\" commute tests open link -o out.jsonl"]);
    shell.arg(env!("CARGO_BIN_EXE_knee")).current_dir(scratch.path());
    let finished = finish(&mut shell);
    finished.assert_code(3).assert_stderr_has("out.jsonl: File too large");
    assert!(!finished.stderr.contains(".tmp"), "{finished:#?}");
    assert!(!scratch.path().join("out.jsonl").exists());
}

#[test]
fn a_debug_build_says_that_its_rates_mean_nothing() {
    let scratch = Scratch::new();
    let is_debug = cfg!(debug_assertions);
    let finished = finish(&mut scratch.run(&["getppid1", "-t", "1", "-m", "threads"]));
    let says = "knee: this is a debug build, so the rates of its testcases are meaningless";
    assert_eq!(finished.assert_code(0).stderr.contains(says), is_debug, "{finished:#?}");
    let head = finished.stdout.lines().next().unwrap();
    assert_eq!(head.ends_with(" · debug build of knee"), is_debug, "{finished:#?}");
    assert_eq!(scratch.run_json()["environment"]["debug_build"] == true, is_debug);
    // Commands are as fast as they are.
    let mut ab = scratch.knee(&["ab", "-q", "-r", "6", "--before", "true", "--after", "true"]);
    let finished = finish(&mut ab);
    assert!(!finished.assert_code(0).stderr.contains("mean nothing"), "{finished:#?}");
}

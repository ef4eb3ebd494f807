//! `knee commute verify`: the model against the kernel that the tests run on.

mod support;

use std::fs;

use support::{Finished, Scratch, finish};

fn verify(scratch: &Scratch, args: &[&str]) -> Finished {
    let dir = scratch.work();
    let dir = dir.to_str().unwrap();
    let finished = finish(scratch.knee(&["commute", "verify", "--dir", dir]).args(args));
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
    finished
}

#[test]
fn this_kernel_matches_the_model_in_every_order() {
    let scratch = Scratch::new();
    for pair in [
        ["rename", "link"],
        ["pipe", "close"],
        ["open", "open"],
        ["lseek", "read"],
        ["write", "memread"],
        ["mmap", "munmap"],
        ["mprotect", "memwrite"],
        ["pwrite", "stat"],
        ["fstat", "unlink"],
    ] {
        verify(&scratch, &pair).assert_code(0).assert_stdout_has("matched the model.");
    }
}

#[test]
fn a_kernel_result_that_differs_is_reported() {
    let scratch = Scratch::new();
    let tests = finish(&mut scratch.knee(&["commute", "tests", "unlink", "unlink"]));
    // A model that expects another error if the file does not exist.
    let wrong = tests.assert_code(0).stdout.replace("ENOENT", "EISDIR");
    fs::write(scratch.path().join("wrong.jsonl"), wrong).unwrap();
    verify(&scratch, &["--tests", "wrong.jsonl"])
        .assert_code(1)
        .assert_stdout_has(r#"unlink returned ENOENT, expected {"result":"EISDIR"}"#);
}

#[test]
fn a_test_that_cannot_run_is_reported_and_fails() {
    let scratch = Scratch::new();
    let of_map = finish(&mut scratch.knee(&["commute", "tests", "--interface", "map"]));
    fs::write(scratch.path().join("map.jsonl"), &of_map.assert_code(0).stdout).unwrap();
    verify(&scratch, &["--tests", "map.jsonl"])
        .assert_code(1)
        .assert_stdout_has("not run: a test of map; only posix is supported");
    fs::write(scratch.path().join("bad.jsonl"), "{").unwrap();
    verify(&scratch, &["--tests", "bad.jsonl"]).assert_code(3).assert_stderr_has("line 1");
    verify(&scratch, &["--tests", "none.jsonl"]).assert_code(3).assert_stderr_has("none.jsonl");
    finish(&mut scratch.knee(&["commute", "verify", "--dir", "/nowhere", "stat", "stat"]))
        .assert_code(3)
        .assert_stderr_has("cannot use /nowhere");
    verify(&scratch, &["unlnk"]).assert_code(2).assert_stderr_has("did you mean unlink?");
}

#[test]
fn json_has_one_line_for_each_test() {
    let scratch = Scratch::new();
    let told = verify(&scratch, &["stat", "stat", "--json"]);
    let lines: Vec<serde_json::Value> = told
        .assert_code(0)
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (last, tests) = lines.split_last().unwrap();
    assert_eq!(last["done"]["tests"], tests.len());
    assert!(tests.iter().all(|line| line["test"][1] == "as_expected"), "{tests:?}");
}

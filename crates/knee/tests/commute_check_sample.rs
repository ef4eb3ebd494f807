//! A sample of all tests of the interface on a Debian kernel, and the crash of a guest in a test. Tests
//! are skipped, with a reason, if QEMU or the kernel is missing.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Scratch, finish, has_guests};

/// The Debian release whose kernel is checked.
const RELEASE: &str = "bookworm";
/// One of this many tests runs: 2,000 in total.
const ONE_OF: usize = 16;

/// Writes every `one_of`-th test of all pairs to a file in the scratch directory.
fn sample(scratch: &Scratch, one_of: usize) -> (std::path::PathBuf, usize) {
    let all = finish(&mut scratch.knee(&["commute", "tests"]));
    let sample: Vec<&str> = all.assert_code(0).stdout.lines().step_by(one_of).collect();
    let path = scratch.path().join("sample.jsonl");
    std::fs::write(&path, sample.join("\n")).expect("write the sample");
    (path, sample.len())
}

#[test]
fn two_thousand_tests_return_what_the_model_allows() {
    if !has_guests(RELEASE) {
        return;
    }
    let scratch = Scratch::new();
    let (sample, count) = sample(&scratch, ONE_OF);
    assert!(count >= 2000, "{count}");
    let mut knee = scratch.knee(&["commute", "check", "--kernel", RELEASE, "--json", "--tests"]);
    let checked = finish(knee.arg(&sample));
    let tests = checked.json_lines();
    assert_eq!(tests.len(), count);
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    for test in &tests {
        assert_eq!(test["unexpected"], Value::Null, "{test}");
        *verdicts.entry(test["verdict"].as_str().expect("a verdict")).or_default() += 1;
    }
    let share = |verdict: &str| verdicts.get(verdict).copied().unwrap_or(0) * 100 / count;
    // On Linux 6.1, 61% of all tests are conflict-free (docs/commuting.md).
    assert!((50..75).contains(&share("conflict-free")), "{verdicts:?}");
    assert!((20..50).contains(&share("conflict")), "{verdicts:?}");
    assert!(share("sometimes") + share("disturbed") < 5, "{verdicts:?}");
}

#[test]
fn a_guest_crash_loses_one_test_and_the_others_continue() {
    if !has_guests(RELEASE) {
        return;
    }
    let scratch = Scratch::new();
    let (sample, count) = sample(&scratch, 8 * ONE_OF);
    let mut knee = scratch.knee(&["commute", "check", "--kernel", RELEASE, "--json", "--tests"]);
    knee.arg(&sample).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut knee = knee.spawn().expect("start knee");
    let stdout = knee.stdout.take().expect("its output");
    let mut reader = BufReader::new(stdout);
    let mut first = String::new();
    reader.read_line(&mut first).expect("the first test");
    // The guest is running its tests.
    let guest = qemu_of(knee.id()).expect("knee has a guest");
    kill_process(guest, Signal::KILL).expect("kill it");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).expect("the other tests");
    let status = knee.wait().expect("its end");
    let all = first + &rest;
    let tests: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tests.len(), count, "{status}");
    let died = tests.iter().filter(|test| test["verdict"] == "died").count();
    assert!((1..=count / 2).contains(&died), "{died} of {count} died");
    assert_ne!(tests.last().expect("a test")["verdict"], "died");
}

/// The first QEMU among the children of a process.
fn qemu_of(parent: u32) -> Option<Pid> {
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let pid: Option<i32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        let Ok(status) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = status.rsplit_once(')') else { continue };
        let parent_of = rest.split_ascii_whitespace().nth(1)?;
        // A QEMU of `knee qemu` runs as a process with the name of the dynamic linker.
        let Ok(command) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let is_qemu = String::from_utf8_lossy(&command).contains("qemu-system");
        if is_qemu && parent_of == parent.to_string() {
            return Pid::from_raw(pid);
        }
    }
    None
}

//! A long run prints a first table after its first round.

mod support;

use std::fs::{self, File};

use rustix::process::Signal;
use support::{Finished, Scratch, finish, signal, start_telling, wait_until};

/// The beginning of the first table.
const FIRST: &str = "Rates of the first round, of 100000 rounds.";

/// What a run of two testcases prints to standard error, if Ctrl-C ends it in its second round or later.
fn interrupted(args: &[&str]) -> Finished {
    let scratch = Scratch::new();
    let plan = ["run", "getppid1", "lseek1", "-m", "processes", "-t", "1,2", "-r", "100000"];
    let short = ["-s", "1", "--interval", "0.01", "--warmup", "0", "-o", "record"];
    let told = scratch.path().join("told");
    let mut command = scratch.knee(&[&plan[..], &short, args].concat());
    let mut child = start_telling(&mut command, File::create(&told).unwrap().into());
    let samples = scratch.record().join("samples.jsonl");
    wait_until("in its second round", || {
        fs::read_to_string(&samples).is_ok_and(|text| text.contains("\"round\":1"))
    });
    signal(&child, Signal::INT);
    let code = child.wait().unwrap().code();
    Finished { code, stdout: String::new(), stderr: fs::read_to_string(told).unwrap() }
}

#[test]
fn a_long_run_prints_the_rates_of_its_first_round_without_knees_and_intervals() {
    let finished = interrupted(&[]);
    finished.assert_code(130);
    let (_, table) = finished.stderr.split_once(FIRST).expect("a first table");
    let columns = table.lines().find(|line| line.contains("per second")).expect("a head");
    assert!(columns.contains("2 tasks"), "{columns}");
    for claim in ["±", "knee", "effic.", "speed-up"] {
        assert!(!columns.contains(claim), "{columns}");
    }
    for name in ["getppid1", "lseek1"] {
        let is_its = |line: &&str| line.trim_start().starts_with(name);
        let line = table.lines().find(is_its).expect("a line of each testcase");
        assert!(line.chars().any(|c| c.is_ascii_digit()), "{line}");
    }
}

#[test]
fn the_first_table_does_not_depend_on_the_format_of_the_results() {
    interrupted(&["--json"]).assert_code(130).assert_stderr_has(FIRST);
}

#[test]
fn a_quiet_run_prints_no_first_table() {
    let finished = interrupted(&["-q"]);
    finished.assert_code(130);
    assert!(!finished.stderr.contains(FIRST), "{finished:#?}");
}

#[test]
fn a_short_run_prints_no_first_table() {
    let scratch = Scratch::new();
    let short = ["-r", "2", "-s", "1", "--interval", "0.01", "--warmup", "0", "--patience", "1"];
    let args = [&["run", "getppid1", "-t", "1", "-o", "record"], &short[..]].concat();
    let finished = finish(&mut scratch.knee(&args));
    finished.assert_code(0);
    assert!(!finished.stderr.contains("Rates of the first"), "{finished:#?}");
}

//! The page of real records; how it behaves in a browser is tested in the crate that draws it.

mod support;

use std::fs;

use support::{Scratch, finish};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

#[test]
fn the_page_of_a_record_holds_every_curve_and_gap_and_is_the_same_each_time() {
    let scratch = Scratch::new();
    let page = |name: &str| {
        let path = scratch.path().join(name);
        let mut command = scratch.knee(&["report", "record", "-o"]);
        finish(command.arg(&path).current_dir(DATA)).assert_code(0).assert_stderr_has("wrote");
        fs::read_to_string(path).unwrap()
    };
    let html = page("a.html");
    for text in ["mmap1", "tcp_loopback1", "build1", "there is no C compiler called cc"] {
        assert!(html.contains(text), "{text}");
    }
    assert_eq!(html, page("b.html"));
    let mut command = scratch.knee(&["report", "record", "-o", "-"]);
    assert_eq!(finish(command.current_dir(DATA)).stdout, html);
}

#[test]
fn further_runs_are_compared_with_the_first() {
    let scratch = Scratch::new();
    let copy = scratch.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for file in ["run.json", "samples.jsonl"] {
        fs::copy(format!("{DATA}/record/{file}"), copy.join(file)).unwrap();
    }
    let mut command = scratch.knee(&["report", "copy", "-o", "-"]);
    let finished = finish(command.arg(format!("{DATA}/record")));
    finished.assert_code(0).assert_stdout_has("\"verdict\":\"same\"");
}

#[test]
fn what_is_no_record_is_refused_and_no_page_is_left() {
    let scratch = Scratch::new();
    let refuse = |args: &[&str], code: i32, says: &str| {
        let mut command = scratch.knee(&["report"]);
        finish(command.args(args)).assert_code(code).assert_stderr_has(says);
    };
    refuse(&["nowhere"], 3, "nowhere holds no run.json");
    refuse(&["a", "a"], 2, "a is named twice");
    assert!(!scratch.path().join("report.html").exists());
    let record = format!("{DATA}/record");
    refuse(&[&record, "-o", "no/where.html"], 3, "cannot write no/where.html");
}

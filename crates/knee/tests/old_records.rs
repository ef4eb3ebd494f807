//! Records of before 2026-11-23, whose testcases have words such as `@same-file` for parameters.

mod support;

use std::fs;
use std::path::Path;

use support::{Scratch, finish};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/records-before-keys");

fn old(name: &str) -> String {
    format!("{DATA}/{name}")
}

#[test]
fn an_old_record_is_shown_under_the_names_of_today() {
    let scratch = Scratch::new();
    let shown = finish(&mut scratch.knee(&["show", &old("run")]));
    shown.assert_code(0);
    for name in [
        "read1@file=same ",
        "open1@path=same-file ",
        "context_switch1@helper=next-cpu ",
        "pthread_mutex1@mutex=process ",
        "vm_mmap1@map=tree ",
        "vm_mmap1@map=tree,di=epoch ",
    ] {
        shown.assert_stdout_has(name);
    }
    // What the record does not say: which testcases are for threads only, and take two CPUs.
    let missing = finish(&mut scratch.knee(&["show", &old("run"), "--format", "json"]));
    assert!(!missing.assert_code(0).stdout.contains(r#""testcase":"epoch1","mode":"processes""#));
    shown.assert_stdout_has("two CPUs per task, as in context_switch1@helper=next-cpu");
}

#[test]
fn an_old_record_is_compared_with_one_of_today() {
    let scratch = Scratch::new();
    let run = ["read1@file=same", "vm_mmap1@di=mutex", "-m", "threads", "-t", "1,2"];
    finish(scratch.run(&run).args(["-r", "2"])).assert_code(0);
    let compared = finish(&mut scratch.knee(&["compare", &old("run"), "record"]));
    compared.assert_code(0).assert_stdout_has("4 points: ");
    for name in ["read1@file=same threads ×2", "vm_mmap1@map=tree threads ×2"] {
        compared.assert_stdout_has(name);
    }
}

#[test]
fn the_sides_of_an_old_comparison_are_known() {
    let scratch = Scratch::new();
    let shown = finish(&mut scratch.knee(&["ab", "--resume", &old("ab")]));
    shown.assert_code(0).assert_stdout_has("read1 → read1@file=same threads ×2");
}

#[test]
fn an_old_capture_belongs_to_the_curve_of_its_testcase() {
    let scratch = Scratch::new();
    let report = ["report", &old("run"), &old("capture.json"), "-o", "-"];
    finish(&mut scratch.knee(&report)).assert_code(0).assert_stdout_has("read1@file=same");
}

#[test]
fn a_resumed_record_keeps_its_parameters_and_refuses_unknown_ones() {
    let scratch = Scratch::new();
    let run = ["read1@file=same", "-m", "threads", "-t", "1"];
    finish(&mut scratch.run(&run)).assert_code(0);
    let change = |from: &str, to: &str| {
        for file in ["run.json", "samples.jsonl"] {
            let path = scratch.record().join(file);
            let text = fs::read_to_string(&path).unwrap().replace(from, to);
            fs::write(&path, text.replace("\"complete\": true", "\"complete\": false")).unwrap();
        }
    };
    let resume = || finish(&mut scratch.knee(&["run", "-q", "--resume", "record"]));
    change("read1@file=same", "read1@same-file");
    resume().assert_code(0).assert_stdout_has("read1@file=same threads");
    assert!(scratch.samples().iter().all(|line| line["testcase"] == "read1@file=same"));

    change("read1@file=same", "read1@file=nosuch");
    resume()
        .assert_code(2)
        .assert_stderr_has("this knee cannot measure read1@file=nosuch: read1 has no file=nosuch");
    assert!(Path::new(&scratch.record().join("run.json")).exists());
}

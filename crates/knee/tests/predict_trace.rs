//! Saved traces of `knee predict`. The test in a guest is skipped, with a reason, if QEMU or the kernel is missing.

mod support;

use std::fs;

use serde_json::Value;
use support::{Finished, Scratch, finish, has_guests};

/// open1 on Linux 6.12: two visits of one count, in 16 iterations.
const OPEN: &str = include_str!("../../../fuzz/corpus/prediction_trace/good");

/// Runs `knee predict` in a directory with the trace `open.json`.
fn predict(scratch: &Scratch, args: &[&str]) -> Finished {
    fs::write(scratch.path().join("open.json"), OPEN).unwrap();
    finish(scratch.knee(&["predict", "--machine", "sapphire-rapids-2x24"]).args(args))
}

fn points(scratch: &Scratch, args: &[&str]) -> Vec<Value> {
    let run = predict(scratch, &[args, &["-t", "1,24", "--json"]].concat());
    let document: Value = serde_json::from_str(&run.assert_code(0).stdout).unwrap();
    let curves = document["predictions"][0]["curves"].as_array().unwrap();
    curves.iter().map(|curve| curve["points"][1].clone()).collect()
}

#[test]
fn a_saved_trace_needs_no_guest_and_can_be_changed() {
    let scratch = Scratch::new();
    let [point] = &points(&scratch, &["--trace", "open.json"])[..] else { panic!("one curve") };
    // Two transfers of 55 ns.
    let rate = point["rate"].as_f64().unwrap();
    assert!((8.5e6..9.7e6).contains(&rate) && point["class"] == "B", "{point:#}");
    let [changed] = &points(&scratch, &["--trace", "open.json", "--split", "label.count"])[..]
    else {
        panic!("one curve")
    };
    assert_eq!(changed["class"], "A", "{changed:#}");
    let other = predict(&scratch, &["--trace", "open.json", "--at", "1M", "-t", "1"]);
    other.assert_code(0).assert_stdout_has("one task: 1.00 M/s (given by --at)");
}

#[test]
fn traces_of_several_files_are_compared() {
    let scratch = Scratch::new();
    let other = OPEN.replace("6.12.117+deb13", "6.1").replace("a0 3283 a0", "a0 1600 a0 1683 a0");
    fs::write(scratch.path().join("other.json"), other).unwrap();
    let [before, after] = &points(&scratch, &["--trace", "other.json", "--trace", "open.json"])[..]
    else {
        panic!("two curves")
    };
    let ratio = after["ratio"]["value"].as_f64().unwrap();
    assert!((1.4..1.6).contains(&ratio), "{before:#} {after:#}");
}

#[test]
fn what_does_not_fit_a_trace_is_refused() {
    let scratch = Scratch::new();
    for args in [["open1"].as_slice(), &["--kernel", "trixie"], &["-m", "threads"], &["-r", "9"]] {
        let args = [args, &["--trace", "open.json"]].concat();
        predict(&scratch, &args).assert_code(2).assert_stderr_has("--trace");
    }
    predict(&scratch, &["--trace", "no.json"]).assert_code(3).assert_stderr_has("no.json");
    let saves = predict(&scratch, &["open1", "--save-trace", "open.json"]);
    saves.assert_code(2).assert_stderr_has("exists already");
    let saves = predict(&scratch, &["open1", "--save-trace", "no/open.json"]);
    saves.assert_code(3).assert_stderr_has("its directory does not exist");
}

#[test]
fn a_prediction_from_the_saved_trace_is_that_from_the_guest() {
    if !has_guests("trixie") {
        return;
    }
    let scratch = Scratch::new();
    let what = ["open1", "--kernel", "trixie", "--rounds", "8", "--at", "2M"];
    let common = ["-t", "2,48", "--json"];
    let first = [&what[..], &common, &["--save-trace", "new.json"]].concat();
    let first = predict(&scratch, &first);
    first.assert_code(0);
    let again = predict(&scratch, &[&["--trace", "new.json"][..], &common].concat());
    assert_eq!(again.assert_code(0).stdout, first.stdout);
}

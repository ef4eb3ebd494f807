//! `knee commute check --program`: libraries under QEMU's user mode. Skipped, with a reason, where
//! there is no `qemu-x86_64`.

mod support;

use std::process::Command;

use serde_json::Value;
use support::{Finished, Scratch, example, finish};

/// Repetitions of what is always so.
const ALWAYS: usize = 1000;

fn check(scratch: &Scratch, name: &str, args: &[&str]) -> Option<Finished> {
    if Command::new("qemu-x86_64").arg("--version").output().is_err() {
        eprintln!("skipped: qemu-x86_64 is not installed");
        return None;
    }
    let program = example("knee-bind", name);
    Some(finish(scratch.knee(&["commute", "check", "--program"]).arg(program).args(args)))
}

/// What each of these operations shares with itself, [`ALWAYS`] times.
fn always(operation: &str) -> Option<Vec<Value>> {
    let scratch = Scratch::new();
    let program = example("knee-bind", "planted");
    let mut generate = scratch.knee(&["commute", "tests", operation, operation, "--model"]);
    let test = finish(generate.arg(&program)).assert_code(0).stdout.repeat(ALWAYS);
    let file = scratch.path().join("tests.jsonl");
    std::fs::write(&file, test).unwrap();
    let checked = check(&scratch, "planted", &["--json", "--tests", file.to_str()?])?;
    let results = checked.json_lines();
    assert_eq!(results.len(), ALWAYS);
    Some(results)
}

fn check_all(name: &str, args: &[&str]) -> Option<Vec<Value>> {
    let checked = check(&Scratch::new(), name, &[&["--json"], args].concat())?;
    let results = checked.json_lines();
    assert!(results.iter().all(|test| test["unexpected"].is_null()), "{results:?}");
    Some(results)
}

#[test]
fn calls_that_do_nothing_and_calls_on_lines_of_their_own_share_nothing() {
    for operation in ["null", "own"] {
        let Some(results) = always(operation) else { return };
        for test in results {
            assert_eq!(test["verdict"], "conflict-free", "{test}");
        }
    }
}

#[test]
fn a_word_that_both_write_is_always_found_and_named() {
    let Some(results) = always("count") else { return };
    for test in results {
        let [conflict] = test["conflicts"].as_array().unwrap().as_slice() else {
            panic!("{test}");
        };
        assert_eq!((&test["verdict"], &conflict["same_bytes"]), (&"conflict".into(), &true.into()));
        assert_eq!(conflict["data"], serde_json::json!(["planted::COUNTER"]));
        // The function that counts, or a primitive with it as its caller; and not who made the call.
        let side = conflict["sides"]["0"].to_string();
        assert!(side.contains("Planted as knee_bind::Binding>::prepare::{{closure}}"), "{side}");
        assert!(!side.contains("\"knee_bind::"), "{side}");
    }
}

#[test]
fn neighbouring_bytes_are_always_found_and_are_false_sharing() {
    let Some(results) = always("neighbour") else { return };
    for test in results {
        let [conflict] = test["conflicts"].as_array().unwrap().as_slice() else {
            panic!("{test}");
        };
        assert_eq!(conflict["same_bytes"], false);
        let bytes = |side: &str| conflict["sides"][side]["bytes"].clone();
        assert_eq!((bytes("0"), bytes("1")), ([0, 0].into(), [1, 1].into()));
        let data = serde_json::json!(["planted::NEIGHBOURS, planted::NEIGHBOURS+0x1"]);
        assert_eq!(conflict["data"], data);
    }
}

#[test]
fn lookups_of_different_keys_share_the_word_of_a_rwlock() {
    let Some(results) = check_all("rwlock_hashmap", &["get", "get"]) else { return };
    assert!(results.len() > 2, "{results:?}");
    for test in results {
        assert_eq!(test["verdict"], "conflict", "{test}");
    }
    let checked = check(&Scratch::new(), "rwlock_hashmap", &["get", "get"]);
    checked.unwrap().assert_code(0).assert_stdout_has("0 of 7 tests are conflict-free (0 %)");
}

#[test]
fn lookups_in_different_shards_of_a_map_share_nothing() {
    let scratch = Scratch::new();
    let program = example("knee-bind", "dashmap");
    let mut generate = scratch.knee(&["commute", "tests", "get", "get", "--model"]);
    let tests = finish(generate.arg(&program));
    let tests: Vec<Value> =
        tests.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let Some(results) = check_all("dashmap", &["get", "get"]) else { return };
    for (test, result) in tests.iter().zip(&results) {
        assert_eq!(test["id"], result["test"]);
        let keys = |call: usize| &test["calls"][call]["arguments"]["key"];
        let expected = if keys(0) == keys(1) { "conflict" } else { "conflict-free" };
        assert_eq!(result["verdict"], expected, "{test} {result}");
    }
}

#[test]
fn the_answer_is_the_same_each_time() {
    let answer = || check(&Scratch::new(), "dashmap", &["--json"]);
    let Some(first) = answer() else { return };
    assert_eq!(first.assert_code(0).stdout, answer().unwrap().stdout);
}

#[test]
fn producers_share_the_end_of_a_queue_unless_it_is_full() {
    let Some(results) = check_all("crossbeam_queue", &["push", "push"]) else { return };
    let verdicts: Vec<(&str, &str)> = results
        .iter()
        .map(|test| (test["test"].as_str().unwrap(), test["verdict"].as_str().unwrap()))
        .collect();
    let expected = [
        ("push,push/0.0", "conflict-free"),
        ("push,push/0.1", "conflict-free"),
        ("push,push/2.0", "conflict"),
    ];
    assert_eq!(verdicts, expected);
}

#[test]
fn threads_of_the_c_library_allocate_without_each_other() {
    let Some(results) = check_all("malloc", &["malloc", "malloc"]) else { return };
    for test in results {
        assert_eq!(test["verdict"], "conflict-free", "{test}");
    }
}

#[test]
fn what_does_not_go_as_the_model_says_is_told() {
    let scratch = Scratch::new();
    let told = |operation: &str| check(&scratch, "planted", &[operation, "null"]);
    let Some(wrong) = told("wrong") else { return };
    wrong.assert_code(1).assert_stdout_has("returned: \"7\"");
    told("panics").unwrap().assert_code(1).assert_stdout_has("panicked: as it should");
    told("missing")
        .unwrap()
        .assert_code(1)
        .assert_stdout_has("the binding has no operation missing");
    // It takes only its own test with it.
    let checked = check(&scratch, "planted", &["aborts"]).unwrap();
    checked.assert_code(4).assert_stdout_has("null,aborts/0.0: it was ended by signal 6");
    checked.assert_stdout_has("8 tests did not return what the model says");
}

#[test]
fn what_is_no_binding_is_told() {
    let scratch = Scratch::new();
    let told =
        |program: &str| finish(&mut scratch.knee(&["commute", "check", "--program", program]));
    told("/bin/true").assert_code(4).assert_stderr_has("/bin/true: is not a model");
    told("/nowhere/binding").assert_code(4).assert_stderr_has("cannot be run: No such file");
    let both = ["commute", "check", "--program", "x", "--kernel", "y"];
    finish(&mut scratch.knee(&both)).assert_code(2);
}

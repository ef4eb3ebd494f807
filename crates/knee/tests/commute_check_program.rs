//! `knee commute check --program`: libraries under QEMU's user mode and in guests. Tests are skipped,
//! with a reason, if `qemu-x86_64` with plugins is missing, or guests cannot run.

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use knee_trace::GuestError;
use serde_json::Value;
use support::{Finished, Scratch, assert_schema, example, finish, has_guests, skip};

/// Repetitions of tests with a certain result, under QEMU's user mode and in a guest.
const ALWAYS: usize = 1000;
const ALWAYS_IN_GUEST: usize = 100;
/// The Debian release whose kernel runs in guests.
const RELEASE: &str = "bookworm";

fn has_user_mode() -> bool {
    match knee_trace::user_mode() {
        Ok(()) => true,
        // QEMU is installed, which is all that a strict test run can require.
        Err(error @ GuestError::NoPlugins(_)) => {
            println!("skipped: {error}");
            false
        }
        Err(error) => {
            skip("qemu", error);
            false
        }
    }
}

fn check(scratch: &Scratch, name: &str, args: &[&str]) -> Option<Finished> {
    has_user_mode().then(|| check_anywhere(scratch, name, args))
}

fn check_in_guest(scratch: &Scratch, name: &str, args: &[&str]) -> Option<Finished> {
    let args = [&["--kernel", RELEASE], args].concat();
    has_guests(RELEASE).then(|| check_anywhere(scratch, name, &args))
}

fn check_anywhere(scratch: &Scratch, name: &str, args: &[&str]) -> Finished {
    let program = example("knee-bind", name);
    finish(scratch.knee(&["commute", "check", "--program"]).arg(program).args(args))
}

/// Writes a file with `times` tests of each of these pairs of operations of `planted`.
fn planted_tests(scratch: &Scratch, pairs: &[[&str; 2]], times: usize) -> PathBuf {
    let program = example("knee-bind", "planted");
    let tests = |pair: &[&str; 2]| {
        let mut generate = scratch.knee(&["commute", "tests"]);
        finish(generate.args(pair).arg("--model").arg(&program)).assert_code(0).stdout.clone()
    };
    let tests: String = pairs.iter().map(tests).collect();
    let file = scratch.path().join("tests.jsonl");
    std::fs::write(&file, tests.repeat(times)).unwrap();
    file
}

/// What an operation shares with itself, [`ALWAYS`] times.
fn always(operation: &str) -> Option<Vec<Value>> {
    let scratch = Scratch::new();
    let file = planted_tests(&scratch, &[[operation; 2]], ALWAYS);
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
fn shards_have_the_verdicts_of_the_whole_check() {
    // Before a test of a shard, fewer tests have allocated memory. The table of dashmap is then at other addresses, at
    // which a bucket and the control bytes share a line.
    let verdicts = |results: Vec<Value>| -> Vec<(String, Value)> {
        let of = |test: Value| (test["test"].as_str().unwrap().to_owned(), test["verdict"].clone());
        let mut verdicts: Vec<_> = results.into_iter().map(of).collect();
        verdicts.sort_by(|a, b| a.0.cmp(&b.0));
        verdicts
    };
    let Some(whole) = check_all("dashmap", &["swap", "swap"]) else { return };
    let shard = |nr| check_all("dashmap", &["swap", "swap", "--shard", &format!("{nr}/8")]);
    let shards = (1..=8).flat_map(|nr| shard(nr).unwrap()).collect();
    assert_eq!(verdicts(shards), verdicts(whole));
}

fn assert_free(test: &Value) {
    assert_eq!(test["verdict"], "conflict-free", "{test}");
}

fn assert_counter(test: &Value) {
    let [conflict] = test["conflicts"].as_array().unwrap().as_slice() else {
        panic!("{test}");
    };
    assert_eq!((&test["verdict"], &conflict["same_bytes"]), (&"conflict".into(), &true.into()));
    assert_eq!(conflict["data"], serde_json::json!(["planted::COUNTER"]));
    // The function that counts, or a primitive that it calls, but not the caller of the operation.
    let side = conflict["sides"]["0"].to_string();
    assert!(side.contains("Planted as knee_bind::Binding>::prepare::{{closure}}"), "{side}");
    assert!(!side.contains("\"knee_bind::"), "{side}");
}

fn assert_neighbours(test: &Value) {
    let [conflict] = test["conflicts"].as_array().unwrap().as_slice() else {
        panic!("{test}");
    };
    assert_eq!(conflict["same_bytes"], false);
    let bytes = |side: &str| conflict["sides"][side]["bytes"].clone();
    assert_eq!((bytes("0"), bytes("1")), ([0, 0].into(), [1, 1].into()));
    let data = serde_json::json!(["planted::NEIGHBOURS / planted::NEIGHBOURS+0x1"]);
    assert_eq!(conflict["data"], data);
}

fn assert_local(test: &Value) {
    let named = serde_json::json!(["the stack or the thread-local variables of a thread"]);
    assert_eq!(test["conflicts"][0]["data"], named, "{test}");
}

#[test]
fn empty_calls_and_calls_on_separate_lines_share_nothing() {
    for operation in ["null", "own"] {
        let Some(results) = always(operation) else { return };
        results.iter().for_each(assert_free);
    }
}

#[test]
fn a_word_that_both_calls_write_is_always_found_and_named() {
    let Some(results) = always("count") else { return };
    results.iter().for_each(assert_counter);
}

#[test]
fn neighbouring_bytes_are_always_reported_as_false_sharing() {
    let Some(results) = always("neighbour") else { return };
    results.iter().for_each(assert_neighbours);
}

#[test]
fn thread_local_data_are_always_named() {
    let Some(results) = always("visit") else { return };
    results.iter().for_each(assert_local);
}

#[test]
fn a_guest_always_gives_these_results() {
    let scratch = Scratch::new();
    let operations = ["null", "own", "count", "neighbour", "visit"];
    let file = planted_tests(&scratch, &operations.map(|one| [one; 2]), ALWAYS_IN_GUEST);
    let args = ["--json", "--tests", file.to_str().unwrap()];
    let Some(checked) = check_in_guest(&scratch, "planted", &args) else { return };
    checked.assert_code(0).assert_stderr_has("the program runs in a guest with Linux 6.1");
    let results = checked.json_lines();
    assert_eq!(results.len(), operations.len() * ALWAYS_IN_GUEST);
    for test in &results {
        match test["test"].as_str().unwrap().split(',').next().unwrap() {
            "count" => assert_counter(test),
            "neighbour" => assert_neighbours(test),
            "visit" => assert_local(test),
            _ => assert_free(test),
        }
    }
}

/// The other examples use a hash map with a random seed, or take a minute for each run.
#[test]
fn a_guest_and_user_mode_give_the_same_results() {
    for name in ["dashmap", "crossbeam_queue", "seg_queue", "malloc"] {
        let answer = |checked: Finished| -> Vec<(Value, Value, Vec<Value>)> {
            let results = checked.assert_code(0).json_lines().into_iter();
            let data = |test: &Value| {
                let conflicts = test["conflicts"].as_array().unwrap().iter();
                conflicts.map(|one| one["data"].clone()).collect()
            };
            let of = |test: Value| (test["test"].clone(), test["verdict"].clone(), data(&test));
            results.map(of).collect()
        };
        let Some(user) = check(&Scratch::new(), name, &["--json"]) else { return };
        let Some(guest) = check_in_guest(&Scratch::new(), name, &["--json"]) else { return };
        assert_eq!(answer(user), answer(guest), "{name}");
    }
}

#[test]
fn in_a_guest_a_call_that_ends_the_program_loses_only_its_own_test() {
    let scratch = Scratch::new();
    let pairs = [["count", "count"], ["aborts", "null"], ["panics", "null"]];
    let file = planted_tests(&scratch, &pairs, 1);
    let args = ["--tests", file.to_str().unwrap()];
    let Some(checked) = check_in_guest(&scratch, "planted", &args) else { return };
    checked
        .assert_code(4)
        .assert_stdout_has("1 of 3 tests are conflict-free")
        .assert_stdout_has("aborts,null/0.0: it was killed by signal 6")
        .assert_stdout_has("panicked: as it should");
}

/// A user-mode QEMU without plugins, like that of Debian 13.
#[test]
fn a_program_runs_in_a_guest_where_user_mode_has_no_plugins() {
    if !has_guests(RELEASE) {
        return;
    }
    let scratch = Scratch::new();
    let bin = scratch.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = "#!/bin/sh\necho \"qemu-x86_64: unknown option 'plugin'\" >&2\nexit 1\n";
    std::fs::write(bin.join("qemu-x86_64"), script).unwrap();
    std::fs::set_permissions(bin.join("qemu-x86_64"), Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)));
    let mut knee = scratch.knee(&["commute", "check", "get", "get", "--program"]);
    finish(knee.arg(example("knee-bind", "rwlock_hashmap")).env("PATH", path.unwrap()))
        .assert_code(0)
        .assert_stdout_has("0 of 7 tests are conflict-free (0%)")
        .assert_stderr_has(
            "(qemu-x86_64: unknown option 'plugin'), so the program runs in a \
            guest",
        );
}

/// `explain` counts memory once, whichever functions of the type write it.
#[test]
fn allocated_memory_is_named_by_the_type_that_writes_it() {
    let scratch = Scratch::new();
    let pairs = [["add", "add"], ["add", "reset"], ["reset", "reset"]];
    let file = planted_tests(&scratch, &pairs, 1);
    let args = ["--tests", file.to_str().unwrap(), "-o", "record"];
    let checked = check(&scratch, "planted", &args);
    let Some(checked) = checked else { return };
    checked.assert_code(0).assert_stdout_has("3  memory that planted::Tally writes");
    let explained = finish(scratch.knee(&["commute", "explain", "record"]).args(["--json"]));
    let ranking: Value = serde_json::from_str(&explained.assert_code(0).stdout).unwrap();
    let [datum] = ranking["data"].as_array().unwrap().as_slice() else { panic!("{ranking}") };
    assert_eq!((&datum["frees"], &datum["tests"]), (&3.into(), &3.into()));
    let writers = datum["writers"].as_object().unwrap();
    assert!(writers.keys().eq(["add", "reset"]), "{datum}");
}

#[test]
fn lookups_of_different_keys_share_the_word_of_a_rwlock() {
    let Some(results) = check_all("rwlock_hashmap", &["get", "get"]) else { return };
    assert!(results.len() > 2, "{results:?}");
    for test in results {
        assert_eq!(test["verdict"], "conflict", "{test}");
    }
    let checked = check(&Scratch::new(), "rwlock_hashmap", &["get", "get"]);
    checked.unwrap().assert_code(0).assert_stdout_has("0 of 7 tests are conflict-free (0%)");
}

#[test]
fn lookups_under_a_read_mostly_lock_share_nothing_even_for_one_key() {
    let Some(results) = check_all("rm_hashmap", &["get", "get"]) else { return };
    assert!(results.len() > 2, "{results:?}");
    for test in results {
        assert_eq!(test["verdict"], "conflict-free", "{test}");
    }
}

/// knee-vm guarantees this. A CPU that counts resident pages reads what all CPUs write, which shows that
/// the test can fail. docs/conflicts.md has the other conflicts.
#[test]
fn a_page_fault_shares_nothing_with_operations_on_pages_of_other_tables() {
    let Some(results) = check_all("vm_space", &["fault"]) else { return };
    assert!(results.len() > 30, "{results:?}");
    let known = ["remap", "remap_anywhere", "mappings", "resident", "reclaim"];
    let known = known.map(|other| format!("fault,{other}/0.0"));
    for test in results {
        let is_known = known.iter().any(|known| test["test"] == *known);
        let expected = if is_known { "conflict" } else { "conflict-free" };
        assert_eq!(test["verdict"], expected, "{test}");
    }
}

/// Each operation of the model has a binding, and calls on one value are distinguished by their results.
#[test]
fn loads_of_a_value_that_is_replaced_as_a_whole_share_nothing() {
    let Some(results) = check_all("rcu", &[]) else { return };
    assert!(results.len() > 4, "{results:?}");
    for test in results {
        let is_load = test["test"] == "load,load/0.0";
        let expected = if is_load { "conflict-free" } else { "conflict" };
        assert_eq!(test["verdict"], expected, "{test}");
    }
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
fn the_results_are_reproducible() {
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
fn a_consumer_reads_the_end_of_a_short_queue_of_segments() {
    let Some(results) = check_all("seg_queue", &["push", "pop"]) else { return };
    assert!(results.len() > 1, "{results:?}");
    for test in results {
        let conflicts = test["conflicts"].as_array().unwrap();
        let shared = conflicts.iter().filter(|line| line["same_bytes"] == true);
        // The producer writes the shared data, and the consumer only reads them.
        let wrote =
            |line: &Value| [0, 1].map(|call| line["sides"][call.to_string()]["wrote"] == true);
        assert_eq!(shared.map(wrote).collect::<Vec<_>>(), [[true, false]], "{test}");
    }
}

#[test]
fn threads_of_the_c_library_allocate_independently() {
    let Some(results) = check_all("malloc", &["malloc", "malloc"]) else { return };
    for test in results {
        assert_eq!(test["verdict"], "conflict-free", "{test}");
    }
}

/// The verdict of each test of the record in a directory, ordered by id.
fn verdicts(scratch: &Scratch, dirs: &[&str]) -> Vec<(String, String)> {
    let read =
        |dir: &&str| std::fs::read_to_string(scratch.path().join(dir).join("tests.jsonl")).unwrap();
    support::verdicts(&dirs.iter().map(read).collect::<String>())
}

#[test]
fn a_killed_check_is_resumed_and_shards_add_up_to_the_whole() {
    let scratch = Scratch::new();
    let run = |args: &[&str]| check(&scratch, "rwlock_hashmap", args);
    let Some(whole) = run(&["-o", "whole"]) else { return };
    whole.assert_code(0).assert_stdout_has("rwlock_hashmap: 0 of 70 tests are conflict-free");
    let all = verdicts(&scratch, &["whole"]);
    assert_eq!(all.len(), 70);

    // The state after knee was killed while it wrote the sixth line.
    let one = ["-o", "one", "--shard", "1/2"];
    run(&one).unwrap().assert_code(0);
    let half = verdicts(&scratch, &["one"]);
    let tests = scratch.path().join("one/tests.jsonl");
    let text = std::fs::read_to_string(&tests).unwrap();
    let few: String = text.split_inclusive('\n').take(6).collect();
    std::fs::write(&tests, &few[..few.len() - 7]).unwrap();
    run(&one).unwrap().assert_code(2).assert_stderr_has("continue it with --resume");
    let resume = [one.as_slice(), &["--resume"]].concat();
    let other = run(&["-o", "one", "--resume", "--shard", "2/2"]).unwrap();
    other.assert_code(2).assert_stderr_has("it is shard 1/2, not 2/2");
    let other = check(&scratch, "dashmap", &resume).unwrap();
    other.assert_code(2).assert_stderr_has("the program is rwlock_hashmap, not dashmap");
    let resumed = run(&resume).unwrap();
    resumed.assert_code(0).assert_stderr_has("knee: one has 5 of 35 tests");
    assert_eq!(verdicts(&scratch, &["one"]), half);
    let check: Value =
        serde_json::from_slice(&std::fs::read(scratch.path().join("one/check.json")).unwrap())
            .unwrap();
    assert_eq!(check["complete"], true);
    assert_eq!(check["program"]["name"], "rwlock_hashmap");

    run(&["-o", "two", "--shard", "2/2"]).unwrap().assert_code(0);
    assert_eq!(verdicts(&scratch, &["one", "two"]), all);
    // No test remains, and knee prints the results of all.
    let again = run(&resume).unwrap();
    assert_eq!(again.assert_code(0).stdout, resumed.stdout);
}

#[test]
fn a_record_of_a_library_is_shown_explained_and_compared() {
    let scratch = Scratch::new();
    let run = |name: &str, dir: &str| check(&scratch, name, &["get", "get", "-o", dir]);
    let Some(locked) = run("rwlock_hashmap", "base") else { return };
    run("dashmap", "new").unwrap().assert_code(0);
    let file = |name| std::fs::read_to_string(scratch.path().join("base").join(name)).unwrap();
    assert_schema("check", &serde_json::from_str(&file("check.json")).unwrap());
    for line in file("tests.jsonl").lines() {
        assert_schema("check-test", &serde_json::from_str(line).unwrap());
    }
    let commute = |args: &[&str]| finish(scratch.knee(&["commute"]).args(args));
    let matrix = commute(&["matrix", "base"]);
    assert_eq!(matrix.assert_code(0).stdout, locked.assert_code(0).stdout);
    matrix.assert_stdout_has("Functions that write shared lines");
    commute(&["matrix", "new", "-o", "new.html"]).assert_code(0);
    let page = std::fs::read_to_string(scratch.path().join("new.html")).unwrap();
    assert!(page.contains("<h1>dashmap: 5 of 7 tests are conflict-free (71.4%)</h1>"));
    commute(&["explain", "base"])
        .assert_code(0)
        .assert_stdout_has("rwlock_hashmap: 0 of 7 tests are conflict-free (0%).")
        .assert_stdout_has("would make 7 more tests conflict-free");
    commute(&["diff", "base", "new"])
        .assert_code(0)
        .assert_stdout_has("before: rwlock_hashmap\nafter:  dashmap\n")
        .assert_stdout_has("5 tests that conflicted are now conflict-free");
    commute(&["diff", "new", "base"])
        .assert_code(1)
        .assert_stdout_has("5 tests are no longer conflict-free");
    commute(&["matrix", "base", "new"])
        .assert_code(2)
        .assert_stderr_has("the program is rwlock_hashmap, not dashmap");
}

#[test]
fn a_record_has_each_test_once() {
    let scratch = Scratch::new();
    let file = planted_tests(&scratch, &[["null", "null"]], 2);
    let args = ["--tests", file.to_str().unwrap()];
    let Some(twice) = check(&scratch, "planted", &args) else { return };
    twice.assert_code(0).assert_stdout_has("2 of 2 tests are conflict-free");
    let kept = check(&scratch, "planted", &[&args[..], &["-o", "record"]].concat()).unwrap();
    kept.assert_code(2).assert_stderr_has("test null,null/0.0 occurs twice");
}

#[test]
fn a_check_without_tests_is_an_error() {
    let scratch = Scratch::new();
    let program = example("knee-bind", "planted");
    let mut nothing = scratch.knee(&["commute", "check", "--tests", "/dev/null", "--program"]);
    finish(nothing.arg(&program)).assert_code(2).assert_stderr_has("there are no tests to run");
}

#[test]
fn results_that_the_model_does_not_allow_are_reported() {
    let scratch = Scratch::new();
    let told = |operation: &str| check(&scratch, "planted", &[operation, "null"]);
    let Some(wrong) = told("wrong") else { return };
    wrong.assert_code(1).assert_stdout_has("a returned 7, expected {} (order ab)");
    told("panics").unwrap().assert_code(1).assert_stdout_has("panicked: as it should");
    told("missing")
        .unwrap()
        .assert_code(1)
        .assert_stdout_has("the binding has no operation missing");
    // It loses only its own test.
    let checked = check(&scratch, "planted", &["aborts"]).unwrap();
    checked.assert_code(4).assert_stdout_has("null,aborts/0.0: it was killed by signal 6");
    checked.assert_stdout_has("11 tests returned a result that the model does not allow");
}

#[test]
fn a_program_without_a_binding_is_reported() {
    let scratch = Scratch::new();
    let told =
        |program: &str| finish(&mut scratch.knee(&["commute", "check", "--program", program]));
    told("/bin/true").assert_code(4).assert_stderr_has("/bin/true: this is not a model");
    told("/bin/ls")
        .assert_code(4)
        .assert_stderr_has("/bin/ls: this is not a model, and does not bind");
    told("/nowhere/binding")
        .assert_code(3)
        .assert_stderr_has("cannot run /nowhere/binding: No such");
    let both = ["commute", "check", "--program", "x", "--fs", "xfs"];
    finish(&mut scratch.knee(&both)).assert_code(2);
}

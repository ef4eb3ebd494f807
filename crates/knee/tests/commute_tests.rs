//! `knee commute tests`: the contents of the tests, and their completeness.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use snapbox::{assert_data_eq, str};
use support::{Finished, Scratch, finish, signal, start, wait_until};

fn tests(args: &[&str]) -> (Vec<Value>, Finished) {
    let finished = finish(Scratch::new().knee(&["commute", "tests"]).args(args));
    let lines = finished.assert_code(0).stdout.lines();
    (lines.map(|line| serde_json::from_str(line).unwrap()).collect(), finished)
}

fn of_map(args: &[&str]) -> Vec<Value> {
    tests(&[&["--interface", "map"], args].concat()).0
}

#[test]
fn a_test_is_a_line_with_set_up_calls_and_results() {
    let all = of_map(&["put", "get"]);
    let same_value = all.iter().find(|test| test["id"] == "put,get/0.0").unwrap();
    assert_data_eq!(
        format!("{same_value:#}"),
        str![[r#"
{
  "calls": [
    {
      "arguments": {
        "key": "key0",
        "value": "content0"
      },
      "cpu": 0,
      "label": "a",
      "operation": "put",
      "process": 0,
      "thread": 0
    },
    {
      "arguments": {
        "key": "key0"
      },
      "cpu": 1,
      "label": "b",
      "operation": "get",
      "process": 0,
      "thread": 1
    }
  ],
  "commute": true,
  "condition": [
    "table has b.key",
    "a.key = b.key",
    "a.value = table[b.key]"
  ],
  "expect": [
    {
      "order": "any",
      "results": [
        {},
        {
          "result": {
            "name": "content0"
          }
        }
      ]
    }
  ],
  "id": "put,get/0.0",
  "interface": "map",
  "pattern": [],
  "schema": 1,
  "setup": [
    {
      "set": "table[key0]",
      "to": "content0"
    }
  ]
}
"#]]
    );
}

#[test]
fn every_pattern_of_equal_values_occurs_once() {
    // Each call has one key and one value. The keys differ, and the values are equal or not.
    let all = of_map(&["put", "put"]);
    let patterns: Vec<String> =
        all.iter().map(|test| format!("{} {}", test["condition"], test["pattern"])).collect();
    assert_data_eq!(
        patterns.join("\n"),
        str![[r#"
["b.key = a.key","b.value = a.value"] []
["b.key ≠ a.key"] ["a.value ≠ b.value"]
["b.key ≠ a.key"] ["a.value = b.value"]
"#]]
    );
    let (limited, finished) = tests(&["--interface", "map", "put", "put", "--patterns", "1"]);
    assert_eq!(limited.len(), all.len() - 1);
    finished.assert_stderr_has("1 situation has more tests than the limit of 1 for one situation");
}

#[test]
fn sequential_tests_include_single_operations_and_both_orders_of_pairs_that_do_not_commute() {
    let all = of_map(&["--sequential"]);
    let alone: BTreeSet<&str> = all
        .iter()
        .filter(|test| test["calls"].as_array().unwrap().len() == 1)
        .map(|test| test["calls"][0]["operation"].as_str().unwrap())
        .collect();
    assert_eq!(alone, BTreeSet::from(["get", "put", "remove", "swap"]));
    let differing: Vec<&Value> = all.iter().filter(|test| test["commute"] == false).collect();
    assert!(!differing.is_empty());
    for test in differing {
        let [one, other] = [0, 1].map(|nr| &test["expect"][nr]);
        assert_eq!((&one["order"], &other["order"]), (&"ab".into(), &"ba".into()), "{test:#}");
    }
    let commuting = of_map(&[]).len();
    let marked =
        |test: &&Value| test["commute"] == true && test["calls"].as_array().unwrap().len() == 2;
    assert_eq!(all.iter().filter(marked).count(), commuting);
}

#[test]
fn all_pairs_of_posix_have_tests_and_the_file_is_the_same_each_time() {
    let scratch = Scratch::new();
    let write = |file: &str| {
        let finished = finish(&mut scratch.knee(&["commute", "tests", "-o", file]));
        finished.assert_code(0).assert_stderr_has("of 171 pairs to ");
        fs::read_to_string(scratch.path().join(file)).unwrap()
    };
    let text = write("one.jsonl");
    assert_eq!(text, write("two.jsonl"));
    let mut of_pair: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for line in text.lines() {
        let test: Value = serde_json::from_str(line).unwrap();
        let id = test["id"].as_str().unwrap().to_owned();
        *of_pair.entry(id.split_once('/').unwrap().0.to_owned()).or_default() += 1;
        assert!(ids.insert(id), "{line}");
        check_posix(&test);
    }
    assert_eq!(of_pair.len(), 171);
}

/// Asserts that the test can run: the set-up creates everything that the test names, opens no descriptor
/// twice, and gives each process the links and pipe ends that the test claims.
fn check_posix(test: &Value) {
    let steps: Vec<&Value> = test["setup"].as_array().unwrap().iter().collect();
    let done = |what: &str| steps.iter().filter(|step| step["do"] == what).collect::<Vec<_>>();
    let made =
        |kind: &str, field: &str, name: &Value| done(kind).iter().any(|step| step[field] == *name);
    let mut open = BTreeSet::new();
    let mut ends: BTreeMap<(String, String), i64> = BTreeMap::new();
    for step in done("open") {
        assert!(open.insert((step["process"].to_string(), step["fd"].as_i64())), "{test:#}");
        match step.get("pipe") {
            Some(pipe) => {
                assert!(made("pipe", "pipe", pipe), "{test:#}");
                *ends.entry((pipe.to_string(), step["end"].to_string())).or_default() += 1;
            }
            None => assert!(made("file", "inode", &step["inode"]), "{test:#}"),
        }
    }
    for step in done("occupy") {
        for fd in step["fds"].as_array().unwrap() {
            assert!(open.insert((step["process"].to_string(), fd.as_i64())), "{test:#}");
        }
    }
    for pipe in done("pipe") {
        for (end, count) in [("read", "readers"), ("write", "writers")] {
            let opened = ends.get(&(pipe["pipe"].to_string(), format!("{end:?}")));
            assert!(opened.copied().unwrap_or(0) <= pipe[count].as_i64().unwrap(), "{test:#}");
        }
    }
    let mut names = BTreeSet::new();
    for file in done("file") {
        let own = file["names"].as_array().unwrap();
        assert!(own.len() as i64 <= file["links"].as_i64().unwrap(), "{test:#}");
        for name in own {
            assert!(names.insert(name.to_string()), "{test:#}");
        }
    }
    let mut mapped = BTreeSet::new();
    for area in done("map") {
        assert!(mapped.insert((area["process"].to_string(), area["va"].to_string())), "{test:#}");
        assert!(area.get("inode").is_none_or(|inode| made("file", "inode", inode)), "{test:#}");
    }
    assert_eq!(test["expect"][0]["order"], "any");
    assert_eq!(test["expect"][0]["results"].as_array().unwrap().len(), 2);
}

#[test]
fn an_unwritable_file_is_reported_and_names_are_corrected() {
    let told = |args: &[&str]| finish(Scratch::new().knee(&["commute", "tests"]).args(args));
    told(&["-o", "/nowhere/tests.jsonl", "stat", "stat"])
        .assert_code(3)
        .assert_stderr_has("cannot write /nowhere/tests.jsonl");
    told(&["lsek"]).assert_code(2).assert_stderr_has("did you mean lseek?");
    told(&["--patterns", "0"]).assert_code(2);
}

#[test]
fn an_interrupt_or_an_early_exit_of_the_reader_leaves_no_file() {
    let scratch = Scratch::new();
    // Half a million tests take long enough for an interrupt.
    let mut knee = scratch.knee(&["commute", "tests", "lseek", "lseek", "lseek", "-o", "x.jsonl"]);
    let mut knee = start(&mut knee);
    let files = || {
        let entries = fs::read_dir(scratch.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).count()
    };
    wait_until("there is a file that is not whole", || files() == 1);
    signal(&knee, rustix::process::Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    assert_eq!(files(), 0);

    let mut knee = scratch.knee(&["commute", "tests"]);
    let mut knee = knee.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(knee.stdout.take());
    assert_eq!(knee.wait().unwrap().code(), Some(0));
}

#[test]
fn one_cpu_writes_the_same_tests_as_all() {
    let scratch = Scratch::new();
    let on_all = finish(&mut scratch.knee(&["commute", "tests", "--interface", "processes"]));
    let mut on_one = Command::new("taskset");
    on_one.args(["-c", &first_cpu(), env!("CARGO_BIN_EXE_knee")]);
    let on_one = on_one.args(["commute", "tests", "--interface", "processes"]).output().unwrap();
    assert!(on_one.status.success());
    assert_eq!(on_all.assert_code(0).stdout, String::from_utf8(on_one.stdout).unwrap());
}

/// The first of the CPUs that this process may use.
fn first_cpu() -> String {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    cpus.into_iter().find(|cpu| allowed.is_set(*cpu)).unwrap().to_string()
}

#[test]
fn every_set_of_three_operations_that_includes_the_named_ones_is_tested() {
    let sets = |args: &[&str]| -> BTreeSet<String> {
        let interface = ["--interface", "counter", "--sequential"];
        let (all, _) = tests(&[&interface, args].concat());
        let ids = all.iter().map(|test| test["id"].as_str().unwrap().split_once('/').unwrap().0);
        ids.filter(|set| set.contains(',')).map(str::to_owned).collect()
    };
    // The counter has four operations.
    let (pairs, three) = (sets(&[]), sets(&["--calls", "3"]));
    assert_eq!((pairs.len(), three.len()), (10, 20));
    assert!(three.iter().all(|set| set.split(',').count() == 3));
    let with_two = sets(&["inc", "inc", "--calls", "3"]);
    assert_eq!(with_two.len(), 4, "{with_two:?}");
    assert!(with_two.iter().all(|set| set.matches("inc").count() >= 2));
    let one = sets(&["get", "inc", "get", "--calls", "3"]);
    assert_eq!(one, BTreeSet::from(["get,inc,get".to_owned()]));
    let scratch = Scratch::new();
    let mut knee = scratch.knee(&["commute", "tests", "get", "inc", "get", "--calls", "2"]);
    finish(knee.args(["--interface", "counter"]))
        .assert_code(2)
        .assert_stderr_has("3 operations are too many for tests with 2 calls");
}

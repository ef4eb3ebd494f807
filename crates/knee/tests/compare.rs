//! Comparing runs: what changed is found and said, what did not is not.
//! `SNAPSHOTS=overwrite cargo test` accepts changes to the golden files.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use snapbox::{assert_data_eq, file};
use support::{Finished, Scratch, copy, finish};

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/record");

/// Multiplies the rate of a sample.
fn scale(sample: &mut Value, by: f64) {
    sample["total"] = (sample["total"].as_f64().unwrap() * by).into();
}

/// The same with other names of testcases.
fn renamed(scratch: &Scratch, name: &str, names: &[(&str, &str)]) {
    let rename = |value: &mut Value| {
        let new = names.iter().find(|(old, _)| *value == *old).map(|(_, new)| *new);
        *value = new.unwrap_or_else(|| value.as_str().unwrap()).into();
    };
    copy(
        scratch,
        name,
        |run| {
            run["cases"].as_array_mut().unwrap().iter_mut().for_each(|c| rename(&mut c["name"]));
            let failures = run["failures"].as_array_mut().unwrap();
            failures.iter_mut().for_each(|failure| rename(&mut failure["testcase"]));
        },
        |sample| rename(&mut sample["testcase"]),
    );
}

/// A run before, and one after in which mmap1 is faster and exec_static slower with threads, the
/// governor is another one and a point has died.
fn before_and_after() -> Scratch {
    let scratch = Scratch::new();
    copy(&scratch, "before", |_| {}, |_| {});
    copy(
        &scratch,
        "after",
        |run| {
            run["environment"]["governor"] = "powersave".into();
            let mut failure = run["failures"][0].clone();
            failure["testcase"] = "mmap1".into();
            failure["mode"] = "processes".into();
            failure["tasks"] = 8.into();
            failure["round"] = 0.into();
            failure["reason"] = "task 3 was killed by SIGSEGV".into();
            run["failures"].as_array_mut().unwrap().push(failure);
        },
        |sample| {
            let by = match (sample["testcase"].as_str(), sample["mode"].as_str()) {
                (Some("mmap1"), Some("threads")) => 1.25,
                (Some("tcp_loopback1"), Some("threads")) => 0.9,
                _ => 1.0,
            };
            scale(sample, by);
            let died = sample["testcase"] == "mmap1"
                && sample["mode"] == "processes"
                && sample["tasks"] == 8;
            if died {
                // What a task counted before its death is no round.
                sample["round"] = 0.into();
            }
        },
    );
    scratch
}

fn compare(scratch: &Scratch, args: &[&str]) -> Finished {
    finish(scratch.knee(&["compare"]).args(args))
}

#[test]
fn a_line_per_point_most_important_first() {
    let scratch = before_and_after();
    let finished = compare(&scratch, &["before", "after"]);
    finished.assert_code(0);
    assert_data_eq!(finished.stdout, file!["data/compare.txt"].raw());
}

#[test]
fn a_table_for_a_pull_request() {
    let scratch = before_and_after();
    let finished = compare(&scratch, &["before", "after", "--markdown"]);
    assert_data_eq!(finished.stdout, file!["data/compare.md"].raw());
}

#[test]
fn text_of_a_record_adds_no_links_images_or_mentions_to_markdown() {
    let scratch = Scratch::new();
    let [image, link, mention] = ["<img src=//evil/p.png>", "[x](javascript:alert)", "@all"];
    for name in ["before", "after"] {
        renamed(&scratch, name, &[("mmap1", image)]);
    }
    let file = scratch.path().join("after/run.json");
    let mut run: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    run["environment"]["cpu_model"] = link.into();
    run["failures"][0]["reason"] = mention.into();
    fs::write(&file, run.to_string()).unwrap();
    let finished = compare(&scratch, &["before", "after", "--markdown"]);
    finished.assert_code(0);
    // Code spans are between the odd and the even ticks.
    let outside: String = finished.stdout.split('`').step_by(2).collect();
    for hostile in [image, link, mention] {
        finished.assert_stdout_has(hostile);
        assert!(!outside.contains(hostile), "{finished:#?}");
    }
}

#[test]
fn a_policy_decides_the_exit_status_after_everything_has_been_printed() {
    let scratch = before_and_after();
    for (policy, code) in [("slower", 1), ("faster", 1), ("missing", 1), ("inconclusive,slower", 1)]
    {
        let finished = compare(&scratch, &["before", "after", "--fail-on", policy]);
        finished.assert_code(code).assert_stdout_has("points: ");
    }
    compare(&scratch, &["before", "before", "--fail-on", "slower,faster,missing"]).assert_code(0);
    // A tenth less does not matter to everyone.
    let tolerant = ["before", "after", "--threshold", "15%", "--fail-on", "slower"];
    compare(&scratch, &tolerant).assert_code(0);
}

/// A run before, and the same run after in which other work disturbed four of six rounds of mmap1
/// with four threads, and one round with two.
fn with_a_disturbed_point() -> Scratch {
    let scratch = Scratch::new();
    copy(&scratch, "before", |_| {}, |_| {});
    let disturb = |sample: &mut Value| {
        let rounds = match sample["tasks"].as_u64() {
            Some(4) => 4,
            Some(2) => 1,
            _ => 0,
        };
        let is_mmap1 = sample["testcase"] == "mmap1" && sample["mode"] == "threads";
        if is_mmap1 && sample["round"].as_u64() < Some(rounds) {
            sample["marks"] = serde_json::json!(["starved"]);
            scale(sample, 0.5);
        }
    };
    copy(&scratch, "after", |_| {}, disturb);
    scratch
}

#[test]
fn a_point_that_was_disturbed_is_inconclusive_in_every_format() {
    let scratch = with_a_disturbed_point();
    let note = "other work disturbed most rounds of 1 point on at least one side, so knee concludes \
                nothing there; reduce other load, or measure again with --wait-quiet or more \
                --patience\n";
    for format in ["human", "markdown"] {
        let finished = compare(&scratch, &["before", "after", "--format", format]);
        finished
            .assert_code(0)
            .assert_stdout_has(note)
            .assert_stdout_has("corrected for 22 points");
        let disturbed = finished.stdout.lines().filter(|line| line.contains("~ too disturbed"));
        let [row] = disturbed.collect::<Vec<_>>()[..] else { panic!("{finished:#?}") };
        assert!(row.contains("mmap1 threads ×4"), "{row}");
    }
    for (side, args) in [("before", ["after", "before"]), ("after", ["before", "after"])] {
        let finished = compare(&scratch, &[&args[..], &["--json"]].concat());
        let document: Value = serde_json::from_str(&finished.stdout).unwrap();
        let points = document["comparisons"][0]["points"].as_array().unwrap();
        let point = |tasks: u64| {
            let is = |p: &&Value| {
                (&p["testcase"], &p["mode"], &p["tasks"])
                    == (&"mmap1".into(), &"threads".into(), &tasks.into())
            };
            points.iter().find(is).unwrap()
        };
        assert_eq!(
            (&point(4)["disturbed"], &point(4)["verdict"]),
            (&true.into(), &"inconclusive".into())
        );
        assert_eq!(
            (&point(4)[side]["rounds"], &point(4)[side]["measured"]),
            (&2.into(), &6.into())
        );
        // A single disturbed round is left out, and the others suffice.
        assert_eq!((&point(2)["disturbed"], &point(2)["verdict"]), (&false.into(), &"same".into()));
        assert_eq!(
            (&point(2)[side]["rounds"], &point(2)[side]["measured"]),
            (&5.into(), &6.into())
        );
        let shared = points.iter().filter(|p| p["oversubscribed"] == true);
        assert_eq!(shared.map(|p| &p["testcase"]).collect::<Vec<_>>(), ["tcp_loopback1"; 2]);
    }
}

#[test]
fn a_policy_that_a_disturbed_point_leaves_open_has_a_status_of_its_own() {
    let scratch = with_a_disturbed_point();
    for (policy, code) in [
        ("slower", 5),
        ("faster,missing", 5),
        ("missing", 0),
        ("inconclusive", 1),
        ("slower,inconclusive", 1),
    ] {
        compare(&scratch, &["before", "after", "--fail-on", policy]).assert_code(code);
    }
    // A match elsewhere decides.
    let slow = |sample: &mut Value| {
        let by = if sample["testcase"] == "build1" { 0.5 } else { 1.0 };
        scale(sample, by);
    };
    copy(&scratch, "slow", |_| {}, slow);
    compare(&scratch, &["slow", "after", "--fail-on", "slower"]).assert_code(5);
    compare(&scratch, &["slow", "after", "--fail-on", "faster"]).assert_code(1);
    compare(&scratch, &["before", "slow", "after", "--fail-on", "slower"]).assert_code(1);
}

#[test]
fn an_inconclusive_point_says_what_its_rounds_are_needed_for() {
    let scratch = Scratch::new();
    let noisy = |by: f64| {
        move |sample: &mut Value| {
            let round = sample["round"].as_f64().unwrap();
            scale(sample, by * (1.0 + 0.1 * (round % 3.0)));
        }
    };
    copy(&scratch, "before", |_| {}, noisy(1.0));
    copy(&scratch, "same", |_| {}, noisy(1.0));
    copy(&scratch, "faster", |_| {}, noisy(1.05));
    compare(&scratch, &["before", "same"])
        .assert_stdout_has("~ no difference found; about ")
        .assert_stdout_has(" rounds needed to exclude a change of 2.0%\n");
    compare(&scratch, &["before", "faster"])
        .assert_stdout_has("~ unconfirmed; about ")
        .assert_stdout_has(" rounds needed to confirm the change\n");
}

#[test]
fn a_run_compared_with_itself_is_the_same_everywhere() {
    let scratch = before_and_after();
    let finished = compare(&scratch, &["before", "before", "after", "--json"]);
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    let [itself, after] = document["comparisons"].as_array().unwrap().as_slice() else {
        panic!("{document:#}");
    };
    let points = itself["points"].as_array().unwrap();
    assert!(points.iter().all(|point| point["verdict"] == "same" && point["ratio"] == 1.0));
    assert_eq!(itself["differences"], serde_json::json!([]));
    assert_eq!(after["differences"][0]["what"], "frequency governor");
    let faster = after["points"].as_array().unwrap().iter().filter(|p| p["verdict"] == "faster");
    for point in faster {
        assert_eq!((&point["testcase"], &point["mode"]), (&"mmap1".into(), &"threads".into()));
        assert!((point["ratio"].as_f64().unwrap() - 1.25).abs() < 1e-9, "{point:#}");
    }
}

#[test]
fn two_variants_of_a_testcase_are_compared_but_are_not_the_same_case() {
    let scratch = Scratch::new();
    renamed(&scratch, "own", &[("mmap1", "read1")]);
    renamed(&scratch, "same", &[("mmap1", "read1@file=same")]);
    let finished = compare(&scratch, &["own", "same"]);
    finished
        .assert_code(0)
        .assert_stdout_has("read1 → read1@file=same threads ×4")
        .assert_stdout_has("tcp_loopback1 threads ×4")
        .assert_stdout_has("knee ab --before read1 --after read1@file=same");
    compare(&scratch, &["own", "same", "--fail-on", "missing"]).assert_code(1);
    let json = compare(&scratch, &["own", "same", "--json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        document["comparisons"][0]["variants"],
        serde_json::json!([{ "before": "read1", "after": "read1@file=same" }])
    );
}

#[test]
fn runs_without_a_common_point_exit_with_status_2() {
    let scratch = Scratch::new();
    copy(&scratch, "one", |_| {}, |_| {});
    let others = [("mmap1", "brk1"), ("tcp_loopback1", "pipe1"), ("build1", "exec_static")];
    renamed(&scratch, "other", &others);
    let finished = compare(&scratch, &["one", "other"]);
    finished
        .assert_code(2)
        .assert_stderr_has("one and other have no points (testcase, mode and task count) in common")
        .assert_stderr_has("knee ab --before build1 --after brk1")
        .assert_stdout_has("0 points");
    compare(&scratch, &["one", "other", "--fail-on", "missing"]).assert_code(1);
    // Of those that have something in common nothing is said.
    let some = compare(&scratch, &["one", "one", "other"]);
    some.assert_code(0).assert_stderr_has("one and other have");

    renamed(&scratch, "two", &[("mmap1", "open1"), ("tcp_loopback1", "open1@path=same-file")]);
    let ambiguous =
        [("mmap1", "open1@path=own-directory"), ("build1", "x"), ("tcp_loopback1", "y")];
    renamed(&scratch, "third", &ambiguous);
    compare(&scratch, &["two", "third"])
        .assert_code(2)
        .assert_stderr_has("a run contains several variants of open1")
        .assert_stderr_has("knee ab --before open1 --after open1@path=own-directory");
}

#[test]
fn benchstat_gets_a_line_per_round() {
    let scratch = before_and_after();
    let finished = compare(&scratch, &["before", "after", "--format", "benchstat"]);
    finished
        .assert_code(0)
        .assert_stdout_has("\nrun: before\n")
        .assert_stdout_has("\nrun: after\n");
    let of = |name: &str| finished.stdout.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(of("BenchmarkMmap1/mode=threads/tasks=2 1 "), 2 * 6);
    assert_eq!(of("Unit "), 2);
}

#[test]
fn old_results_of_will_it_scale_are_compared_as_well() {
    let scratch = Scratch::new();
    for (dir, rate) in [("old", 1000), ("new", 1500)] {
        fs::create_dir(scratch.path().join(dir)).unwrap();
        let csv = format!(
            "tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,100,0,100,0\n\
             1,{rate},50.0,{rate},50.0,{rate}\n"
        );
        fs::write(scratch.path().join(dir).join("mmap1.csv"), csv).unwrap();
    }
    compare(&scratch, &["old", "new"])
        .assert_code(0)
        .assert_stdout_has("+50.0%")
        .assert_stdout_has("too few rounds");
    let block = |rate: u32| {
        format!(
            "testcase:Map\nwarmup\nmin:1 max:1 total:1\nmeasurement\nmin:{rate} max:{rate} \
             total:{rate}\naverage:{rate}\n"
        )
    };
    let outputs = |base: u32| (0..6).map(|i| block(base + i)).collect::<String>();
    fs::write(scratch.path().join("mmap1_threads-2.old"), outputs(1000)).unwrap();
    fs::write(scratch.path().join("mmap1_threads-2.new"), outputs(900)).unwrap();
    compare(&scratch, &["mmap1_threads-2.old", "mmap1_threads-2.new", "--fail-on", "slower"])
        .assert_code(1)
        .assert_stdout_has("mmap1 threads ×2");
}

#[test]
fn what_cannot_be_compared_is_named_with_its_place() {
    let scratch = before_and_after();
    let put = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
    let refuse = |args: &[&str], code: i32, says: &str| {
        compare(&scratch, args).assert_code(code).assert_stderr_has(says);
    };
    put("numbers", "1\n2\n3\n4\n");
    put("bad.csv", "tasks,processes,processes_idle,threads,threads_idle,linear\n1,NaN,0,1,0,0\n");
    fs::create_dir(scratch.path().join("empty")).unwrap();
    refuse(&["before"], 2, "name a run BEFORE and a run AFTER");
    refuse(&["before", "numbers"], 2, "numbers: this is neither a record");
    refuse(&["before", "empty"], 3, "empty contains no results");
    refuse(&["before", "nowhere"], 3, "nowhere: no such file");
    refuse(&["before", "bad.csv"], 3, "bad.csv:2: \"NaN\" is not a rate");
    refuse(&["before", "after", "-C", "2"], 2, "--column applies only to files of numbers");
    refuse(&["before", "after", "--format", "ministat"], 2, "only to files of numbers");
    refuse(&["numbers", "numbers", "--threshold", "3%"], 2, "--threshold applies only to runs");
    refuse(&["numbers", "numbers", "--json"], 2, "--format human and");

    let cut = fs::read_to_string(Path::new(RECORD).join("run.json")).unwrap();
    fs::create_dir(scratch.path().join("cut")).unwrap();
    put("cut/run.json", &cut[..cut.len() / 2]);
    refuse(&["before", "cut"], 3, "cut/run.json:");
    put("cut/run.json", &cut.replacen("\"schema\": 1", "\"schema\": 99", 1));
    refuse(&["before", "cut"], 3, "has schema 99");
    put("cut/run.json", &cut);
    refuse(&["before", "cut"], 3, "cut/samples.jsonl");
    put("cut/samples.jsonl", "{\"testcase\":\"mmap1\"}\n");
    refuse(&["before", "cut"], 3, "cut/samples.jsonl:1: missing field");
    // Nothing was measured before knee was killed.
    put("cut/samples.jsonl", "");
    compare(&scratch, &["before", "cut"]).assert_stdout_has("no round finished");
}

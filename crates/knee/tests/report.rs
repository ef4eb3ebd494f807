//! The page of real records; how it behaves in a browser is tested in the crate that draws it.

mod support;

use std::fs;

use support::{Scratch, copy, finish};

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
    for text in ["mmap1", "tcp_loopback1", "build1", "there is no C compiler named cc"] {
        assert!(html.contains(text), "{text}");
    }
    assert_eq!(html, page("b.html"));
    let mut command = scratch.knee(&["report", "record", "-o", "-"]);
    assert_eq!(finish(command.current_dir(DATA)).stdout, html);
}

#[test]
fn the_page_and_the_table_exclude_the_same_disturbed_curves() {
    let scratch = Scratch::new();
    let copy = scratch.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(format!("{DATA}/record/run.json"), copy.join("run.json")).unwrap();
    let samples = fs::read_to_string(format!("{DATA}/record/samples.jsonl")).unwrap();
    let is_disturbed = |line: &str| {
        line.contains(r#""testcase":"mmap1","mode":"threads","tasks":2,"#)
            || line.contains(r#""testcase":"build1","mode":"processes","tasks":4,"#)
    };
    let marked = samples.lines().map(|line| match is_disturbed(line) {
        true => line.replace(r#""marks":[]"#, r#""marks":["starved"]"#) + "\n",
        false => format!("{line}\n"),
    });
    fs::write(copy.join("samples.jsonl"), marked.collect::<String>()).unwrap();
    finish(&mut scratch.knee(&["show", "copy"])).assert_stdout_has(" 2 disturbed curves ");
    let html = finish(&mut scratch.knee(&["report", "copy", "-o", "-"])).stdout.clone();
    assert!(html.contains("; 2 disturbed curves are not counted</h1>"));
    assert_eq!(html.matches("tasks 2: disturbed by other work").count(), 1);
    let record = format!("{DATA}/record");
    let html = finish(&mut scratch.knee(&["report", &record, "copy", "-o", "-"])).stdout.clone();
    assert!(html.contains("; 2 points are too disturbed to compare</h1>"));
}

#[test]
fn the_page_lists_repeated_rounds_that_failed() {
    let scratch = Scratch::new();
    let failed = |run: &mut serde_json::Value| {
        let mut failure = run["failures"][0].clone();
        failure["reason"] = "task 0 hung".into();
        run["failed_repeats"] = vec![failure].into();
    };
    copy(&scratch, "copy", failed, |_| {});
    let html =
        finish(&mut scratch.knee(&["report", "copy", "-o", "-"])).assert_code(0).stdout.clone();
    assert!(html.contains("Round 1 of build1 threads ×8 failed and does not count: task 0 hung."));
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
fn results_of_will_it_scale_are_shown_and_compared_with_records() {
    let scratch = Scratch::new();
    let mut command = scratch.knee(&["report", "curves.csv", "record", "-o", "-"]);
    let html = finish(command.current_dir(DATA)).assert_code(0).stdout.clone();
    for text in [
        "results of will-it-scale: machine and time unknown",
        "The machine, the kernel, the time, the placement and the rate of each task are unknown",
        // Of a CSV file, and of the record.
        r#"<li class="tile" data-case="mmap1" data-family="memory""#,
        r#"<li class="tile" data-case="build1""#,
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(html.contains(r#""verdict":"#), "no point is compared");
}

#[test]
fn output_that_does_not_tell_its_number_of_tasks_is_in_words() {
    let scratch = Scratch::new();
    let output = format!("{DATA}/will-it-scale.txt");
    for name in ["before.txt", "after.txt", "mmap1_threads-4.txt"] {
        fs::copy(&output, scratch.path().join(name)).unwrap();
    }
    let page = |args: &[&str]| {
        let mut command = scratch.knee(&["report", "-o", "-"]);
        finish(command.args(args)).assert_code(0).stdout.clone()
    };
    let html = page(&["before.txt", "after.txt"]);
    assert!(html.contains("results, none of which has a task count</h1>"));
    assert!(html.contains("neither mode nor task count. To show it on a chart"));
    assert!(html.contains("Against before.txt: inconclusive ×1.000"));
    assert!(page(&["mmap1_threads-4.txt"]).contains("measured at 4 tasks: no curve</h1>"));
}

#[test]
fn a_matrix_stands_beside_runs_in_whatever_order_they_are_named() {
    let scratch = Scratch::new();
    let mut command = scratch.knee(&["commute", "matrix", "--interface", "counter", "--json"]);
    let matrix = finish(&mut command).assert_code(0).stdout.clone();
    fs::write(scratch.path().join("counter.json"), matrix).unwrap();
    let record = format!("{DATA}/record");
    let page = |args: &[&str]| {
        let mut command = scratch.knee(&["report", "-o", "-"]);
        finish(command.args(args)).assert_code(0).stdout.clone()
    };
    let alone = page(&["counter.json"]);
    assert!(
        alone.contains("<h1>counter: 2 of 10 pairs of operations always commute, 4 never</h1>")
    );
    assert!(!alone.contains("id=\"testcases\"") && !alone.contains("id=\"machine\""));
    let both = page(&["counter.json", &record]);
    for text in
        ["data-case=\"mmap1\"", "id=\"machine\"", "They never commute.", "href=\"#commute\""]
    {
        assert!(both.contains(text), "{text}");
    }
    assert_eq!(both, page(&[&record, "counter.json"]));
    // One run is compared with nothing, whatever stands beside it.
    assert!(!both.contains("\"verdict\":"));
}

#[test]
fn json_that_is_not_a_matrix_is_refused_with_how_to_get_one() {
    let scratch = Scratch::new();
    let refuse = |content: &str, says: &str| {
        fs::write(scratch.path().join("some.json"), content).unwrap();
        let finished = finish(&mut scratch.knee(&["report", "some.json"]));
        finished.assert_code(3).assert_stderr_has(says);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    };
    let listed = finish(&mut scratch.knee(&["commute", "list", "--json"])).stdout;
    let make = "`knee commute matrix --json > FILE` writes a matrix";
    refuse(
        &listed,
        &format!("some.json: it is JSON, but not a matrix of commuting operations: {make}"),
    );
    refuse(
        "{\"schema\": 2, \"kind\": \"commute matrix\"}",
        "some.json: it has schema 2, but this version of knee reads 1; regenerate it with this \
         version",
    );
    refuse("{\"schema\": 1, \"kind\": \"commute matrix\"}", "some.json: line 1: missing field");
    refuse("{\"schema\": 1,", "some.json: line 1: the file is cut off");
    let samples = format!("{DATA}/record/samples.jsonl");
    let finished = finish(&mut scratch.knee(&["report", &samples]));
    finished.assert_code(3).assert_stderr_has("expected run.json of a run");
}

#[test]
fn a_path_without_a_record_is_refused_and_no_page_is_left() {
    let scratch = Scratch::new();
    let refuse = |args: &[&str], code: i32, says: &str| {
        let mut command = scratch.knee(&["report"]);
        finish(command.args(args)).assert_code(code).assert_stderr_has(says);
    };
    refuse(&["nowhere"], 3, "nowhere: no such file");
    refuse(&["work"], 3, "work contains no results");
    refuse(&["a", "a"], 2, "a appears twice");
    assert!(!scratch.path().join("report.html").exists());
    let record = format!("{DATA}/record");
    refuse(&[&record, "-o", "no/where.html"], 3, "cannot write no/where.html");
}

#[test]
fn a_prediction_stands_beside_the_measured_curve_of_its_testcase() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fixed/prediction.json");
    let scratch = Scratch::new();
    let prediction = fs::read_to_string(FILE).unwrap().replace("\"open1\"", "\"mmap1\"");
    fs::write(scratch.path().join("mmap1.json"), prediction).unwrap();
    let record = format!("{DATA}/record");
    let page = |args: &[&str]| {
        let mut command = scratch.knee(&["report", "-o", "-"]);
        finish(command.args(args)).assert_code(0).stdout.clone()
    };
    let both = page(&["mmap1.json", &record]);
    for text in [
        "<a href=\"#prediction-1\">Predicted for sapphire-rapids-2x24</a>",
        &*format!("measured here: {record}"),
        "aa_profile.label.count.count</strong>: 4.00 transfers per iteration",
        "only a bound is known (class D)",
    ] {
        assert!(both.contains(text), "{text}");
    }
    assert!(!both.contains("No run on this page measured mmap1"));
    let alone = page(&["mmap1.json"]);
    assert!(alone.contains("No run on this page measured mmap1 as processes"));
    assert!(!alone.contains("id=\"testcases\""));
}

//! `knee ab` with servers on both sides. The server is a small one that knee-load has as an example.

mod support;

use serde_json::Value;
use support::{Finished, Scratch, describe, finish};

/// A short comparison of two descriptions at one task.
fn ab(scratch: &Scratch, sides: [&str; 2], more: &[&str]) -> Finished {
    let [before, after] = sides;
    let options = ["ab", "-q", "--patience", "1", "-r", "6", "-t", "1", "-o", "record"];
    let mut command = scratch.knee(&options);
    command.args(["--interval", "0.5", "--warmup", "0.05"]);
    finish(command.args(["--before", before, "--after", after]).args(more))
}

/// The comparison in the record again, as JSON.
fn json(scratch: &Scratch) -> Value {
    let shown = finish(&mut scratch.knee(&["ab", "--resume", "record", "--json"]));
    serde_json::from_str(&shown.assert_code(0).stdout).unwrap()
}

#[test]
fn a_server_that_does_more_work_for_each_request_is_slower() {
    let scratch = Scratch::new();
    describe(&scratch, "light", "busy-100", "");
    describe(&scratch, "heavy", "busy-400", "");
    let finished = ab(&scratch, ["light.toml", "heavy.toml"], &[]);
    finished.assert_code(0).assert_stdout_has("light → heavy processes ×1");
    let names: Vec<Value> = scratch.measured().iter().map(|one| one["testcase"].clone()).collect();
    let (ab, ba) = (["before:light", "after:heavy"], ["after:heavy", "before:light"]);
    assert_eq!(names, [ab, ba, ab, ba, ab, ba].concat());
    assert!(scratch.samples().iter().all(|sample| sample["latency"].is_null()));
    assert!(scratch.leftovers().is_empty());
    support::assert_schema("run", &scratch.run_json());
    let point = &json(&scratch)["comparisons"][0]["points"][0];
    assert!(point["before"]["server"]["cpu_per_request"].as_f64() >= Some(1e-4), "{point:#}");
    assert!(point["after"]["server"]["cpu_per_request"].as_f64() >= Some(4e-4), "{point:#}");
    match has_all_rounds(point) && point["after"]["lower_bound"] == false {
        true => assert_eq!(point["verdict"], "slower"),
        // Other work took the CPU of the server, or that of the load.
        false => assert!(["slower", "inconclusive"].contains(&point["verdict"].as_str().unwrap())),
    }
}

/// Whether other work disturbed no round of either side.
fn has_all_rounds(point: &Value) -> bool {
    point["disturbed"] == false && ["before", "after"].iter().all(|side| point[side]["rounds"] == 6)
}

#[test]
fn nothing_is_claimed_about_a_server_that_was_not_busy() {
    let scratch = Scratch::new();
    // It sleeps before each reply.
    describe(&scratch, "idle", "idle", "");
    let finished = ab(&scratch, ["idle.toml", "idle.toml"], &["--latency=50%", "--interval", "1"]);
    finished.assert_code(0).assert_stdout_has("≥").assert_stdout_has("1 inconclusive");
    let json = json(&scratch);
    let compared = &json["comparisons"][0];
    let point = &compared["points"][0];
    assert_eq!(point["verdict"], "inconclusive");
    for side in ["before", "after"] {
        assert_eq!(point[side]["lower_bound"], true, "{point:#}");
    }
    if has_all_rounds(point) {
        finished.assert_stdout_has("~ server not busy");
        finished.assert_stdout_has("the server left its CPUs idle at idle processes ×1");
    }
    let judged = ["ab", "--resume", "record", "--fail-on", "slower"];
    finish(&mut scratch.knee(&judged)).assert_code(5);
    let quantiles: Vec<&Value> = compared["latencies"].as_array().unwrap().iter().collect();
    assert!(quantiles.iter().any(|one| one["quantile"] == "p50"), "{compared:#}");
    assert_eq!(scratch.run_json()["request"]["latency"]["requests"]["share"], 0.5);
}

#[test]
fn a_side_that_dies_ends_the_comparison() {
    let scratch = Scratch::new();
    describe(&scratch, "good", "", "");
    describe(&scratch, "bad", "die-under-load", "");
    let finished = ab(&scratch, ["good.toml", "bad.toml"], &[]);
    finished.assert_code(4).assert_stderr_has("out of memory");
    finished.assert_stdout_has("not measured, because the other side failed");
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn a_side_of_another_kind_and_options_of_others_are_refused() {
    let scratch = Scratch::new();
    describe(&scratch, "good", "", "");
    let refused = |sides: [&str; 2], more: &[&str], words: &str| {
        ab(&scratch, sides, more).assert_code(2).assert_stderr_has(words);
        assert!(!scratch.record().exists());
    };
    let both = ["good.toml"; 2];
    refused(["nginx", "getppid1"], &[], "--before is a server, but --after is a testcase");
    refused(["echo 1", "good.toml"], &[], "--before is a command, but --after is a server");
    refused(["family:server", "redis"], &[], "family:server matches several servers");
    refused(["redsi", "redis"], &[], "or redis?), and no program has this name");
    refused(both, &["--rate"], "--rate applies only to commands, but both sides are servers");
    refused(both, &["-m", "threads"], "--mode applies only to testcases");
    refused(both, &["-s", "2"], "--samples applies only to testcases");
    refused(both, &["--latency", "--until-decided", "2%"], "cannot be used with");
    refused(["read1"; 2], &["--latency"], "--latency applies only to servers");
    ab(&scratch, ["none.toml", "redis"], &[]).assert_code(3).assert_stderr_has("none.toml");
}

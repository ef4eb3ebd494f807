//! Latency: of requests to a server, and of single iterations.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Finished, Scratch, copy, describe, finish};

/// A run of the server `echo` with few and short rounds.
fn serve(scratch: &Scratch, args: &[&str]) -> Finished {
    let mut command = scratch.knee(&["run", "-q", "--patience", "1", "-t", "1", "-o", "record"]);
    finish(command.args(["--interval", "0.5", "--warmup", "0.05", "echo.toml"]).args(args))
}

/// The points of the record, as JSON.
fn points(scratch: &Scratch) -> Vec<Value> {
    points_of_run(scratch, 0)
}

/// The points of the record of a run that ended with this status.
fn points_of_run(scratch: &Scratch, status: i32) -> Vec<Value> {
    let json = finish(&mut scratch.knee(&["show", "record", "--format", "json"]));
    let json: Value = serde_json::from_str(&json.assert_code(status).stdout).unwrap();
    let curves = json["curves"].as_array().unwrap().iter();
    curves.flat_map(|curve| curve["points"].as_array().unwrap().clone()).collect()
}

/// The number of times in the histogram of a sample.
fn count(times: &Value) -> u64 {
    let counts = times["counts"].as_array().unwrap().iter();
    counts.map(|bucket| bucket[1].as_u64().unwrap()).sum()
}

/// The samples of the rounds that count: those that other work did not disturb, or all if there are none.
fn counting<'m>(scratch: &Scratch, measured: &'m [Value]) -> Vec<&'m Value> {
    let lines = scratch.samples();
    let is_marked = |line: &Value| line["marks"].as_array().is_some_and(|marks| !marks.is_empty());
    let is_clean = |sample: &&Value| {
        lines.iter().all(|line| line["round"] != sample["round"] || !is_marked(line))
    };
    let clean: Vec<&Value> = measured.iter().filter(is_clean).collect();
    if clean.is_empty() { measured.iter().collect() } else { clean }
}

#[test]
fn the_latency_of_a_server_is_measured_at_a_share_of_its_rate() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "idle", "");
    let shown = serve(&scratch, &["-r", "2"]);
    shown.assert_code(0).assert_stdout_has("at 70% of the rate").assert_stdout_has("p99.9");
    let measured = scratch.measured();
    support::assert_schema("sample", &measured[0]);
    support::assert_schema("run", &scratch.run_json());
    for sample in &measured {
        let latency = &sample["latency"];
        let share = latency["rate"].as_f64().unwrap() / sample["total"].as_f64().unwrap();
        assert!((share - 0.7).abs() < 1e-9, "{share}");
        assert!(latency["clock"].is_null());
        // The server sleeps for 2 ms before each reply.
        let counts = latency["times"]["counts"].as_array().unwrap();
        assert!(counts.iter().all(|bucket| bucket[0].as_u64().unwrap() >= 1_900_000), "{counts:?}");
    }
    let point = &points(&scratch)[0]["latency"];
    let counting = counting(&scratch, &measured);
    let all: u64 = counting.iter().map(|sample| count(&sample["latency"]["times"])).sum();
    assert_eq!(point["count"], all, "the rounds are merged");
    assert_eq!(measured.len(), 2);
    assert_eq!(point["rounds"].as_array().unwrap().len(), counting.len());
    let quantiles = ["p50", "p90", "p99", "p99_9", "max"];
    let quantiles = quantiles.map(|name| point[name].as_f64().unwrap());
    assert!(quantiles[0] >= 0.0019 && quantiles.is_sorted(), "{quantiles:?}");
    assert!(point["lateness"]["p99"].as_f64().unwrap() >= 0.0);
    let csv = finish(&mut scratch.knee(&["show", "record", "--format", "csv", "--detail"]));
    let csv = &csv.assert_code(0).stdout;
    let columns = csv.lines().next().unwrap().split(',').collect::<Vec<_>>();
    let column = columns.iter().position(|name| *name == "latency_p99").unwrap();
    assert!(columns.contains(&"latency_lateness_p99"));
    for row in csv.lines().skip(1) {
        let cell = row.split(',').nth(column).unwrap();
        assert!(cell.parse::<f64>().unwrap() >= 0.0019, "{row}");
    }
    finish(&mut scratch.knee(&["report", "record", "-o", "page.html"])).assert_code(0);
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    assert!(page.contains("Latency by percentile") && page.contains("Sent late"));
}

#[test]
fn the_share_can_be_changed_and_latency_switched_off() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "idle", "");
    serve(&scratch, &["-r", "1", "--latency=50%"]).assert_code(0).assert_stdout_has("at 50% of");
    assert_eq!(scratch.run_json()["request"]["latency"], json!({ "requests": { "share": 0.5 } }));
    fs::remove_dir_all(scratch.record()).unwrap();
    let off = serve(&scratch, &["-r", "1", "--latency=off"]);
    assert!(!off.assert_code(0).stdout.contains("p99"), "{off:?}");
    assert!(scratch.measured()[0]["latency"].is_null());
    assert!(scratch.run_json()["request"]["latency"].is_null());
}

#[test]
fn late_replies_cost_a_round_its_latency_and_not_its_rate() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "late", "");
    // Requests of a warm-up do not count, and one of them would get no reply.
    let shown = serve(&scratch, &["-r", "1", "--warmup", "0"]);
    shown.assert_code(0).assert_stdout_has("0 of 1").assert_stdout_has(
        "latency is missing at echo processes ×1 (1 of 1 rounds): while measuring latency at 70% of",
    );
    shown.assert_stdout_has("--latency=50%").assert_stderr_has("the latency of round 1 of echo");
    let sample = &scratch.measured()[0];
    support::assert_schema("sample", sample);
    assert!(sample["total"].as_f64() > Some(0.0) && sample["latency"].is_null(), "{sample}");
    assert_eq!(sample["latency_failure"]["kind"], "hung");
    let run = scratch.run_json();
    assert_eq!((&run["complete"], &run["failures"]), (&true.into(), &json!([])));
    let point = &points(&scratch)[0];
    assert!(point["rate"].as_f64() > Some(0.0) && point["latency"].is_null(), "{point}");
    assert_eq!(point["latency_gap"]["rounds"], 1);
    for by_round in [&[][..], &["--detail"]] {
        let csv = finish(scratch.knee(&["show", "record", "--format", "csv"]).args(by_round));
        csv.assert_code(0).assert_stdout_has("latency_gap_reason");
        csv.assert_stdout_has("while measuring latency");
    }
    let compare = |args: &[&str]| finish(scratch.knee(&["compare", "record", "record"]).args(args));
    compare(&[]).assert_code(0).assert_stdout_has(
        "latency of echo (processes ×1): no result before or after (while measuring latency",
    );
    compare(&["--fail-on", "slower"]).assert_code(5);
    let compared: Value = serde_json::from_str(&compare(&["--format", "json"]).stdout).unwrap();
    assert_eq!(compared["comparisons"][0]["latency_gaps"][0]["tasks"], 1);
    finish(&mut scratch.knee(&["report", "record", "-o", "page.html"])).assert_code(0);
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    assert!(page.contains("1 of 1 rounds of echo processes ×1 have no latency"));
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn a_server_that_fails_on_schedule_keeps_its_rate_and_fails_the_run() {
    for (behaviour, reason) in [("garbage-later", "sorry"), ("die-later", "out of memory")] {
        let scratch = Scratch::new();
        describe(&scratch, "echo", behaviour, "");
        let failed = serve(&scratch, &["-r", "2"]);
        failed.assert_code(4).assert_stdout_has("at 70% of the rate").assert_stdout_has(reason);
        failed.assert_stdout_has("--latency=off");
        assert!(!failed.stdout.contains("latency is missing"), "{failed:#?}");
        let is_as_recorded = || {
            let measured = scratch.measured();
            let [sample] = &measured[..] else { panic!("it is not measured further") };
            assert_eq!(sample["latency_failure"]["kind"], "died");
            let run = scratch.run_json();
            assert_eq!(
                (&run["complete"], run["failures"].as_array().unwrap().len()),
                (&false.into(), 1)
            );
            assert!(points_of_run(&scratch, 4)[0]["rate"].as_f64() > Some(0.0));
        };
        is_as_recorded();
        finish(&mut scratch.knee(&["run", "-q", "--resume", "record"])).assert_code(4);
        is_as_recorded();
        assert!(scratch.leftovers().is_empty());
    }
}

#[test]
fn the_time_of_single_iterations_is_measured_without_the_clock() {
    let scratch = Scratch::new();
    let run = scratch.run(&["mmap2", "-t", "1,2", "-m", "threads", "--latency"]).output().unwrap();
    let shown = String::from_utf8(run.stdout).unwrap();
    // A virtual machine may have a slow clock.
    if run.status.code() == Some(3) {
        assert!(shown.contains("reading the clock takes"), "{shown}");
        return;
    }
    assert!(shown.contains("of single iterations") && shown.contains("clock"), "{shown}");
    assert!(shown.contains("the rates include reading the clock"), "{shown}");
    assert_eq!(scratch.run_json()["request"]["latency"], "iterations");
    for sample in scratch.measured() {
        support::assert_schema("sample", &sample);
        let iterations = sample["total"].as_f64().unwrap() * sample["seconds"].as_f64().unwrap();
        let times = count(&sample["latency"]["times"]) as f64;
        // The counter of a task and its times are not read in the same moment.
        assert!((times / iterations - 1.0).abs() < 0.5, "{times} of {iterations}");
        assert!(sample["latency"]["clock"].as_f64().unwrap() > 0.0);
        assert!(sample["latency"]["rate"].is_null());
    }
    assert!(scratch.samples().iter().any(|sample| sample["phase"] == "warmup"));
    assert!(points(&scratch).iter().all(|point| point["latency"]["p50"].as_f64().unwrap() > 0.0));
}

#[test]
fn a_run_without_latency_has_none() {
    let scratch = Scratch::new();
    finish(&mut scratch.run(&["mmap1", "-t", "1", "-m", "processes"])).assert_code(0);
    assert!(scratch.samples().iter().all(|sample| sample["latency"].is_null()));
    assert!(points(&scratch)[0]["latency"].is_null());
}

#[test]
fn an_iteration_that_is_as_short_as_the_clock_is_refused() {
    let scratch = Scratch::new();
    let args = ["refcount_atomic1", "-t", "1", "-m", "threads", "--latency"];
    let run = finish(&mut scratch.run(&args));
    if run.code == Some(3) {
        run.assert_stdout_has("reading the clock takes").assert_stdout_has("leave out --latency");
        return;
    }
    // The clock of this machine is quick enough.
    run.assert_code(0);
    let latency = &points(&scratch)[0]["latency"];
    let [clock, median] = ["clock", "p50"].map(|name| latency[name].as_f64());
    // Beside other programs, all rounds may be disturbed, and then have no latency.
    let (Some(clock), Some(median)) = (clock, median) else { return };
    assert!(clock <= 0.25 * median, "{latency}");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let scratch = Scratch::new();
    let refused = |args: &[&str], reason: &str| {
        finish(&mut scratch.knee(&[&["run"], args].concat()))
            .assert_code(2)
            .assert_stderr_has(reason);
    };
    refused(&["mmap1", "--latency=50%"], "a share of the rate applies only to servers");
    refused(&["mmap1", "--latency=often"], "a share of the rate up to 100%");
    refused(&["mmap1", "--latency", "--aa"], "leave out --aa or --latency");
    refused(&["nginx", "--latency=50%", "--aa"], "leave out --aa or --latency");
    refused(&["--latency", "--", "true"], "cannot be used with");
    let server = "name = 'x'\n[server]\ncommand = 'true'\n[ready]\noutput = 'x'\n\
                  [load]\ncommand = 'echo 7'\n";
    fs::write(scratch.path().join("commanded.toml"), server).unwrap();
    refused(&["commanded.toml", "--latency"], "but a command (load.command) generates this load");
    assert!(!scratch.path().join("runs").exists());
}

/// Copies of a recorded run whose every round has these times, in nanoseconds, and a median of `factor`
/// times as much.
fn with_times(scratch: &Scratch, name: &str, factor: f64, latency: &Value) {
    let run = |run: &mut Value| run["request"]["latency"] = latency.clone();
    copy(scratch, name, run, |sample| {
        let round = sample["round"].as_u64().unwrap() + sample["sample"].as_u64().unwrap();
        let time = (factor * (100_000.0 + 100.0 * round as f64)) as u64;
        if sample["phase"] == "measure" {
            let times = json!({ "longest": 10 * time, "counts": [[time, 990], [10 * time, 10]] });
            sample["latency"] = json!({ "times": times, "rate": 1000.0 });
        }
    });
}

#[test]
fn compare_finds_a_change_of_latency_beside_an_equal_rate() {
    let scratch = Scratch::new();
    let requests = json!({ "requests": { "share": 0.7 } });
    with_times(&scratch, "before", 1.0, &requests);
    with_times(&scratch, "after", 1.5, &requests);
    let compared = finish(&mut scratch.knee(&["compare", "before", "after", "--json"]));
    let json: Value = serde_json::from_str(&compared.assert_code(0).stdout).unwrap();
    let compared = &json["comparisons"][0];
    let latencies = compared["latencies"].as_array().unwrap();
    assert!(!latencies.is_empty());
    for latency in latencies {
        let ratio = latency["ratio"].as_f64().unwrap();
        assert!((1.4..1.6).contains(&ratio), "{latency}");
        assert!(latency["low"].as_f64().unwrap() <= ratio, "{latency}");
        let (p, adjusted) = (latency["p"].as_f64(), latency["adjusted_p"].as_f64());
        assert!(p <= adjusted, "{latency}");
    }
    let text = finish(&mut scratch.knee(&["compare", "before", "after"]));
    text.assert_code(0).assert_stdout_has("union bound").assert_stdout_has("p50");
    let markdown = finish(&mut scratch.knee(&["compare", "before", "after", "--markdown"]));
    markdown.assert_code(0).assert_stdout_has("| percentile |");
    let same = finish(&mut scratch.knee(&["compare", "before", "before", "--json"]));
    let same: Value = serde_json::from_str(&same.assert_code(0).stdout).unwrap();
    for latency in same["comparisons"][0]["latencies"].as_array().unwrap() {
        assert!(!["faster", "slower"].contains(&latency["verdict"].as_str().unwrap()), "{latency}");
    }
}

#[test]
fn rates_with_and_without_the_clock_are_not_compared() {
    let scratch = Scratch::new();
    with_times(&scratch, "timed", 1.0, &json!("iterations"));
    copy(&scratch, "plain", |_| {}, |_| {});
    for pair in [["timed", "plain"], ["plain", "timed"]] {
        let refused = finish(&mut scratch.knee(&["compare", pair[0], pair[1]]));
        refused
            .assert_code(2)
            .assert_stderr_has("cannot compare timed, measured with --latency, to plain");
        let benchstat = ["compare", "--format", "benchstat", pair[0], pair[1]];
        finish(&mut scratch.knee(&benchstat)).assert_code(2).assert_stderr_has("cannot compare");
        finish(&mut scratch.knee(&["report", pair[0], pair[1], "-o", "page.html"])).assert_code(0);
        let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
        assert!(page.contains(&format!("No comparison with {}:", pair[0])));
    }
    finish(&mut scratch.knee(&["compare", "timed", "timed"])).assert_code(0);
    for nr in 0..9 {
        copy(&scratch, &format!("run{nr}"), |run| run["request"]["seed"] = json!(nr), |_| {});
    }
    let runs: Vec<String> = (0..9).map(|nr| format!("run{nr}")).collect();
    let mut history = scratch.knee(&["history", "timed"]);
    finish(history.args(runs)).assert_code(2).assert_stderr_has("measured with --latency, to run");
}

#[test]
fn an_invalid_histogram_is_reported_with_its_line() {
    let scratch = Scratch::new();
    copy(
        &scratch,
        "bad",
        |_| {},
        |sample| {
            sample["latency"] = json!({ "times": { "longest": 1, "counts": [] } });
        },
    );
    let bad = finish(&mut scratch.knee(&["show", "bad"]));
    bad.assert_code(3).assert_stderr_has("a histogram contains no time");
}

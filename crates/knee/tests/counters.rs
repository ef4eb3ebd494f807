//! `knee run --counters`. The events are those that the kernel itself counts, which every machine has.

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use knee_host::counters::{Counter, CounterSet};
use knee_host::perf_event::paranoid;
use rustix::process::geteuid;
use serde_json::{Value, json};
use support::{
    Finished, Scratch, compile_plugin, copy, describe, finish, processes_in, skip, wait_until,
};

const SOFTWARE: &str = "--counters=context-switches,cpu-migrations,page-faults,task-clock";

/// Whether this machine counts all events of [`SOFTWARE`]. Otherwise prints why the test is skipped.
fn counts() -> bool {
    let asked =
        [Counter::ContextSwitches, Counter::CpuMigrations, Counter::PageFaults, Counter::TaskClock];
    let reason = match CounterSet::find(&asked) {
        Ok(set) => set.what_is_unavailable(),
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = &reason {
        skip("perf", reason);
    }
    reason.is_none()
}

/// `knee run` with a round that is long enough for each task to have a turn on a busy machine.
fn run(scratch: &Scratch, args: &[&str]) -> Finished {
    let mut command = scratch.knee(&["run", "-q", "--patience", "1", "-r", "1", "-o", "record"]);
    finish(command.args(["--interval", "0.5", SOFTWARE]).args(args))
}

/// The points of the record, as JSON.
fn points(scratch: &Scratch) -> Vec<Value> {
    let json = finish(&mut scratch.knee(&["show", "record", "--format", "json"]));
    let json: Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    let curves = json["curves"].as_array().unwrap().iter();
    curves.flat_map(|curve| curve["points"].as_array().unwrap().clone()).collect()
}

/// The number of an event for each operation of a point.
fn per_operation(point: &Value, event: &str) -> f64 {
    let number = &point["counters"]["per_operation"][event];
    number.as_f64().unwrap_or_else(|| panic!("no {event} in {point}"))
}

/// Whether there is about one event for each operation. The counter of a task and its events are not read in the same
/// moment.
fn is_about_one(number: f64) -> bool {
    (0.5..1.5).contains(&number)
}

#[test]
fn each_iteration_of_a_fault_testcase_causes_one_page_fault() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    let shown = run(&scratch, &["page_fault1", "-s", "1", "-t", "1,2"]);
    shown.assert_code(0).assert_stdout_has("counters  per operation, of the tasks");
    shown.assert_stdout_has("faults").assert_stdout_has("the rates include the cost of counting");
    let points = points(&scratch);
    assert_eq!(points.len(), 4, "processes and threads");
    for point in &points {
        assert!(is_about_one(per_operation(point, "page-faults")), "{point}");
        assert!(per_operation(point, "task-clock") > 0.0, "{point}");
    }
    support::assert_schema("run", &scratch.run_json());
    for line in scratch.samples() {
        support::assert_schema("sample", &line);
        assert_eq!(line["counters"].is_object(), line["phase"] == "measure", "{line}");
    }
}

#[test]
fn each_iteration_of_a_ping_pong_switches_tasks() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    run(&scratch, &["context_switch1", "-s", "2", "-t", "1"]).assert_code(0);
    for point in points(&scratch) {
        assert!(per_operation(&point, "context-switches") > 0.5, "{point}");
    }
    let csv = finish(&mut scratch.knee(&["show", "record", "--format", "csv", "--detail"]));
    let csv = &csv.assert_code(0).stdout;
    let column = "context_switches_per_operation";
    let column = csv.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
    for row in csv.lines().skip(1) {
        let cell: f64 = row.split(',').nth(column).unwrap().parse().unwrap();
        assert!(cell > 0.5, "{row}");
    }
    finish(&mut scratch.knee(&["report", "record", "-o", "page.html"])).assert_code(0);
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    assert!(page.contains("Counters of context_switch1, processes"));
    assert!(page.contains("include the cost of counting"));
}

#[test]
fn counters_of_both_sides_are_compared() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    let faults =
        |loops: &str| format!("for i in {loops}; do cat /dev/null; done; echo {}", loops.len());
    let (few, many) = (faults("1"), faults("1 2 3 4 5 6 7 8"));
    let mut ab = scratch.knee(&["ab", "-q", "--rate", "--patience", "1", "-o", "record", SOFTWARE]);
    let shown = finish(ab.args(["--before", &few, "--after", &many]));
    let json = finish(&mut scratch.knee(&["ab", "--resume", "record", "--json"]));
    let json: Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    let point = &json["comparisons"][0]["points"][0];
    let faults = |side: &str| {
        let side = &point[side]["counters"]["per_second"]["page-faults"];
        side.as_f64().unwrap_or_else(|| panic!("{point}"))
    };
    assert!(faults("before") > 0.0 && faults("after") > 0.0, "{point}");
    // Other work may have disturbed the rounds; then only --detail prints them.
    let all = finish(&mut scratch.knee(&["ab", "--resume", "record", "--detail"]));
    all.assert_code(0).assert_stdout_has("per operation").assert_stdout_has("faults");
    let is_judged = [json!("faster"), json!("slower")].contains(&point["verdict"]);
    assert_eq!(shown.assert_code(0).stdout.contains("per operation"), is_judged, "{shown:#?}");
    assert_eq!(
        shown.stdout.contains("--detail also prints the counters"),
        !is_judged,
        "{shown:#?}"
    );
    let record = scratch.run_json();
    assert_eq!(record["request"]["counters"]["counters"].as_array().map(Vec::len), Some(4));
}

#[test]
fn the_events_of_a_plugin_are_counted() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "fault1") else { return };
    run(&scratch, &["--plugin", &plugin, "-s", "1", "-t", "2"]).assert_code(0);
    let points = points(&scratch);
    assert_eq!(points.len(), 2);
    for point in &points {
        assert!(is_about_one(per_operation(point, "page-faults")), "{point}");
    }
}

#[test]
fn the_events_of_a_command_include_those_of_its_children() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    let line = "for i in 1 2 3 4; do sleep 0.01; done";
    let args = ["run", "-q", "-r", "1", "-t", "2", "-o", "record", SOFTWARE, "--", line];
    let shown = finish(&mut scratch.knee(&args));
    shown.assert_code(0).assert_stdout_has("per operation, of the command");
    let [point] = &points(&scratch)[..] else { panic!("one point") };
    // In each copy, the shell waits four times, and each child sleeps once.
    assert!(per_operation(point, "context-switches") >= 8.0, "{point}");
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn the_events_of_a_server_are_counted_while_it_serves() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    // It sleeps before each reply. Each program that starts before it causes many page faults.
    describe(&scratch, "echo", "idle", "");
    let file = scratch.path().join("echo.toml");
    let text = fs::read_to_string(&file).unwrap();
    let programs = "i=0; until [ $i = 100 ]; do env true; i=$((i + 1)); done; exec ";
    fs::write(&file, text.replace("command = '", &format!("command = '{programs}"))).unwrap();
    let shown = run(&scratch, &["echo.toml", "-t", "1", "--latency=off", "--interval", "1"]);
    shown.assert_code(0).assert_stdout_has("of the server without its load");
    let [point] = &points(&scratch)[..] else { panic!("one point") };
    assert!(per_operation(point, "context-switches") > 0.5, "{point}");
    // The events of the rate phase, not of the whole life of the server.
    let [sample] = &scratch.measured()[..] else { panic!("one sample") };
    let faults = sample["counters"]["values"]["page-faults"].as_f64().unwrap();
    assert!(faults < 2000.0, "{sample}");
    support::assert_schema("sample", sample);
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
}

#[test]
fn a_missing_counter_is_reported_and_the_others_are_counted() {
    if !counts() {
        return;
    }
    let scratch = Scratch::new();
    let args = ["-s", "1", "-t", "1", "-m", "threads", "page_fault1"];
    let has_cycles = CounterSet::find(&[Counter::Cycles]).is_ok();
    if !has_cycles {
        let cycles = run(&scratch, &[&args[..], &["--counters=cycles"]].concat());
        cycles.assert_code(3).assert_stderr_has("--counters: cannot count cycles (");
        assert!(!scratch.record().exists(), "nothing was measured");
    }
    let both =
        run(&scratch, &[&args[..], &["--counters=cycles,instructions,page-faults"]].concat());
    both.assert_code(0);
    let [point] = &points(&scratch)[..] else { panic!("one point") };
    assert!(is_about_one(per_operation(point, "page-faults")), "{point}");
    if has_cycles {
        assert!(per_operation(point, "cycles") > 0.0, "{point}");
        assert!(point["counters"]["ipc"].as_f64().unwrap() > 0.0, "{point}");
        return;
    }
    assert_eq!(both.stdout.matches("not counted: cycles, instructions (").count(), 1, "{both:?}");
    let set = &scratch.run_json()["request"]["counters"];
    assert_eq!(set["counters"], json!(["page-faults"]));
    assert!(point["counters"]["ipc"].is_null());
    let doctor = finish(scratch.knee(&["doctor", "--json"]).env("KNEE_QEMU", "/nowhere/qemu"));
    let doctor: Value = serde_json::from_str(&doctor.assert_code(0).stdout).unwrap();
    let mut checks = doctor["checks"].as_array().unwrap().iter();
    let check = checks.find(|check| check["name"] == "counters").unwrap();
    assert_eq!(check["status"], "limited", "{check}");
    assert!(check["remedy"]["statement"].as_str().unwrap().contains("cycles, "), "{check}");
}

#[test]
fn an_ordinary_user_counts_what_the_kernel_permits() {
    if !counts() {
        return;
    }
    if !geteuid().is_root() {
        return skip("root", "only root can run knee as another user");
    }
    let scratch = Scratch::new();
    let as_nobody = |args: &[&str]| {
        // Of a directory that nobody may enter, the program is still open.
        let program = fs::File::open(env!("CARGO_BIN_EXE_knee")).unwrap();
        let mut command = Command::new("/proc/self/fd/0");
        command.args([
            "run",
            "-q",
            "--patience",
            "1",
            "-r",
            "1",
            "-s",
            "1",
            "-t",
            "1",
            "-o",
            "record",
        ]);
        command.args(["-m", "processes", "--interval", "0.5", "page_fault1"]).args(args);
        command.stdin(program).current_dir(scratch.path()).uid(65534).gid(65534);
        command.env("TMPDIR", scratch.work()).env("XDG_STATE_HOME", scratch.path());
        command.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
        finish(&mut command)
    };
    for dir in [scratch.path(), &scratch.work()] {
        std::os::unix::fs::chown(dir, Some(65534), Some(65534)).unwrap();
    }
    let switches = as_nobody(&["--counters=context-switches"]);
    match paranoid() {
        Some(2) => {
            let remedy = "`sysctl kernel.perf_event_paranoid=1` as root";
            switches.assert_code(3).assert_stderr_has(remedy);
        }
        Some(3..) => {
            let remedy = "`sysctl kernel.perf_event_paranoid=2` as root";
            switches.assert_code(3).assert_stderr_has(remedy);
            return;
        }
        Some(..2) | None => {
            assert!(!switches.assert_code(0).stdout.contains("user mode"), "{switches:?}");
            return;
        }
    }
    let shown = as_nobody(&[SOFTWARE]);
    shown.assert_code(0).assert_stdout_has("in user mode only");
    shown.assert_stdout_has("not counted: context-switches, cpu-migrations (not permitted: ");
    assert_eq!(scratch.run_json()["request"]["counters"]["user_only"], true);
    let [point] = &points(&scratch)[..] else { panic!("one point") };
    assert!(is_about_one(per_operation(point, "page-faults")), "{point}");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let scratch = Scratch::new();
    let refused = |args: &[&str], reason: &str| {
        let finished = finish(&mut scratch.knee(&[&["run"], args].concat()));
        finished.assert_code(2).assert_stderr_has(reason);
    };
    refused(&["mmap1", "--counters=cycels"], "(did you mean cycles?)");
    refused(&["mmap1", "--counters="], "choose from cycles, instructions");
    refused(&["mmap1", "--counters", "--aa"], "leave out --aa or --counters");
    refused(&["--resume", "record", "--counters"], "cannot be used with");
    assert!(!scratch.path().join("runs").exists());
}

/// A copy of the recorded run with these events in each sample that counts.
fn with_counters(scratch: &Scratch, name: &str, set: &Value, counters: &Value) {
    copy(
        scratch,
        name,
        |run| run["request"]["counters"] = set.clone(),
        |sample| {
            if sample["phase"] == "measure" {
                sample["counters"] = counters.clone();
            }
        },
    );
}

#[test]
fn all_events_fit_a_terminal_and_estimates_are_marked() {
    let scratch = Scratch::new();
    let mut values = json!({
        "cycles": 3.1e9, "instructions": 4.65e9, "llc-misses": 1234.0, "context-switches": 17.0,
        "cpu-migrations": 2.0, "page-faults": 3.3e6, "task-clock": 1.9e8,
    });
    let record = |name: &str, values: &Value| {
        let counters: Vec<&String> = values.as_object().unwrap().keys().collect();
        let shares = json!({ "llc-misses": 0.5 });
        let events = json!({ "seconds": 0.2, "values": values, "shares": shares });
        with_counters(&scratch, name, &json!({ "counters": counters }), &events);
        let mut show = scratch.knee(&["show", name]);
        // The recorded run lacks a point.
        let shown = finish(show.env("COLUMNS", "80"));
        let table = shown.assert_code(3).stdout.split_once("counters  per operation").unwrap().1;
        let table = table.split_once("not measured").unwrap().0.to_owned();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        table
    };
    let table = record("default", &values);
    for part in
        ["IPC", "1.50", "LLC miss", "~0.0159", "migrations", "CPU time", "name fewer counters"]
    {
        assert!(table.contains(part), "{part:?} is missing in {table}");
    }
    (values["cache-misses"], values["branch-misses"]) = (json!(2e6), json!(3e6));
    let table = record("all", &values);
    let titles = table.lines().find(|line| line.contains("cycles")).unwrap();
    assert!(titles.contains("branch miss") && !titles.contains("migrations"), "{table}");
    let json = finish(&mut scratch.knee(&["show", "all", "--format", "json"]));
    let json: Value = serde_json::from_str(&json.assert_code(3).stdout).unwrap();
    let counters = &json["curves"][0]["points"][0]["counters"];
    assert_eq!((&counters["ipc"], &counters["shares"]["llc-misses"]), (&json!(1.5), &json!(0.5)));
}

#[test]
fn a_counter_without_a_value_at_any_point_is_reported() {
    let scratch = Scratch::new();
    let set = json!({ "counters": ["cycles", "page-faults"] });
    let shown = |name: &str, values: Value| {
        with_counters(&scratch, name, &set, &json!({ "seconds": 0.2, "values": values }));
        // The recorded run lacks a point.
        finish(&mut scratch.knee(&["show", name])).assert_code(3).stdout.clone()
    };
    let one = shown("one", json!({ "page-faults": 100.0 }));
    assert!(
        one.contains("faults") && one.contains("not counted: cycles (the kernel gave"),
        "{one}"
    );
    let none = shown("none", json!({}));
    assert!(none.contains("not counted: cycles, page-faults (the kernel gave"), "{none}");
    assert!(!none.contains("per operation"), "{none}");
}

#[test]
fn rates_with_and_without_counting_are_not_compared() {
    let scratch = Scratch::new();
    let events = json!({ "seconds": 0.2, "values": { "page-faults": 100.0 } });
    let set = |counters: &[&str]| json!({ "counters": counters });
    with_counters(&scratch, "counted", &set(&["page-faults"]), &events);
    with_counters(&scratch, "others", &set(&["page-faults", "task-clock"]), &events);
    copy(&scratch, "plain", |_| {}, |_| {});
    for pair in [["counted", "plain"], ["plain", "counted"]] {
        let refused = finish(&mut scratch.knee(&["compare", pair[0], pair[1]]));
        refused
            .assert_code(2)
            .assert_stderr_has("cannot compare counted, measured with --counters, to plain");
        assert!(!refused.stdout.contains("not counted: page-faults"), "{refused:#?}");
        let benchstat = ["compare", "--format", "benchstat", pair[0], pair[1]];
        finish(&mut scratch.knee(&benchstat)).assert_code(2).assert_stderr_has("cannot compare");
        finish(&mut scratch.knee(&["report", pair[0], pair[1], "-o", "page.html"])).assert_code(0);
        let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
        assert!(page.contains(&format!("No comparison with {}: ", pair[0])));
    }
    let alike = finish(&mut scratch.knee(&["compare", "counted", "others"]));
    alike
        .assert_code(0)
        .assert_stdout_has("counters (page-faults before, page-faults, task-clock after)");
}

#[test]
fn a_sample_with_an_impossible_count_is_reported() {
    let scratch = Scratch::new();
    let events = json!({ "seconds": 0.2, "values": { "page-faults": -1.0 } });
    with_counters(&scratch, "bad", &json!({ "counters": ["page-faults"] }), &events);
    let bad = finish(&mut scratch.knee(&["show", "bad"]));
    bad.assert_code(3).assert_stderr_has("counters.values: -1.0 is not in 0.0 to");
}

//! Servers with several numbers of connections.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;
use support::{
    Finished, Scratch, describe, describe_commanded, finish, signal, skip, start, wait_until,
};

/// `knee run --sweep` with one short round of each point.
fn sweep(scratch: &Scratch, connections: &str, args: &[&str]) -> Finished {
    let mut command =
        scratch.knee(&["run", "-q", "--patience", "1", "-r", "1", "-o", "record", "--latency=off"]);
    command.args(["--interval", "1", "--warmup", "0.05", "--sweep", connections]);
    finish(command.args(args))
}

fn output(scratch: &Scratch, args: &[&str]) -> String {
    finish(&mut scratch.knee(args)).assert_code(0).stdout.clone()
}

/// Describes a server whose load prints `connections` as the rate.
fn describe_rate(scratch: &Scratch, connections: &str) {
    let load = format!("sleep {{seconds}}; echo tps = {connections}");
    describe_commanded(scratch, "commanded", &load);
}

#[test]
fn a_sweep_shows_a_server_with_each_number_of_connections() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", "");
    let shown = sweep(&scratch, "connections=3,16,1", &["echo.toml", "-t", "1"]);
    shown.assert_code(0).assert_stdout_has("echo on 1 CPU, over connections");
    support::assert_schema("run", &scratch.run_json());
    assert!(scratch.leftovers().is_empty());

    let json = output(&scratch, &["show", "record", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let [over] = &json["over_connections"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!([&over["testcase"], &over["axis"]], ["echo", "connections"]);
    let points = over["points"].as_array().unwrap();
    let numbers = |key: &str| points.iter().map(|point| point[key].as_u64()).collect::<Vec<_>>();
    assert_eq!(numbers("connections"), [Some(1), Some(3), Some(16)]);
    assert_eq!(numbers("tasks"), [Some(1); 3]);
    assert_eq!(points[2]["testcase"], "echo@connections=16");
    assert_eq!(json["curves"].as_array().unwrap().len(), 3);

    let cells = |title: &str, more: &[&str]| {
        let csv = output(&scratch, &[&["show", "record", "--format", "csv"], more].concat());
        let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect());
        let names: Vec<String> = lines.next().unwrap();
        let column = names.iter().position(|name| name == title).unwrap();
        lines.map(|mut line: Vec<String>| line.swap_remove(column)).collect::<Vec<_>>()
    };
    assert_eq!(cells("connections", &[]), ["1", "3", "16"]);
    assert_eq!(cells("connections", &["--detail"])[0], "1");
    let or_empty = |value: &Value| if value.is_null() { String::new() } else { value.to_string() };
    let speedups: Vec<String> = points.iter().map(|point| or_empty(&point["speedup"])).collect();
    assert_eq!(cells("speedup", &[]), speedups);

    let compared = output(&scratch, &["compare", "record", "record"]);
    let rows: Vec<&str> = compared.lines().filter(|line| line.starts_with("echo@")).collect();
    let order = ["echo@connections=1 ", "echo@connections=3 ", "echo@connections=16 "];
    assert!(rows.len() == 3 && rows.iter().zip(order).all(|(row, name)| row.starts_with(name)));
    let fits = output(&scratch, &["fit", "record"]);
    assert!(fits.contains("knee fits curves over tasks (-t), and not over connections"), "{fits}");
    output(&scratch, &["report", "record", "-o", "page.html"]);
}

#[test]
fn the_page_draws_a_sweep_over_connections() {
    let scratch = Scratch::new();
    describe_rate(&scratch, "{connections}");
    sweep(&scratch, "connections=1,64", &["commanded.toml", "-t", "1"]).assert_code(0);
    output(&scratch, &["report", "record", "-o", "page.html"]);
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    assert!(page.contains("data-case=\"commanded@tasks=1\""), "the curve has a name of its own");
    assert!(
        !page.contains("data-case=\"commanded@connections=64\""),
        "its points are on the curve"
    );
    assert!(page.contains(">connections</text>") && page.contains("data-logarithmic"));
    assert!(page.contains("and not over connections"), "there is no fit");
}

#[test]
fn the_load_has_the_number_of_connections_of_its_point() {
    let scratch = Scratch::new();
    describe_rate(&scratch, "{connections}");
    sweep(&scratch, "connections=2,40", &["commanded.toml", "-t", "1,2"]).assert_code(0);
    let mut measured: Vec<(String, u64, f64)> = scratch
        .measured()
        .iter()
        .map(|line| {
            let name = line["testcase"].as_str().unwrap().to_owned();
            (name, line["tasks"].as_u64().unwrap(), line["total"].as_f64().unwrap())
        })
        .collect();
    measured.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let [two, forty] = ["commanded@connections=2", "commanded@connections=40"].map(str::to_owned);
    let expected =
        [(two.clone(), 1, 2.0), (two, 2, 2.0), (forty.clone(), 1, 40.0), (forty, 2, 40.0)];
    assert_eq!(measured, expected);
    // A curve for each task count, besides those over tasks.
    let shown = output(&scratch, &["show", "record"]);
    for text in ["commanded on 1 CPU, over", "commanded on 2 CPUs, over", "connections=40 "] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn without_task_counts_a_sweep_has_the_largest_and_says_so() {
    let scratch = Scratch::new();
    describe_rate(&scratch, "{connections}");
    let mut command = scratch.knee(&["run", "-r", "1", "--interval", "1", "-o", "record"]);
    let finished = finish(command.args(["--sweep", "connections=1,2", "commanded.toml"]));
    finished.assert_code(0).assert_stderr_has("knee: the servers of the sweep have ");
    let run = scratch.run_json();
    let [tasks] = &run["request"]["tasks"].as_array().unwrap()[..] else { panic!("{run}") };
    let cpus = run["request"]["cpus"].as_array().unwrap().len() as u64;
    assert!(tasks.as_u64().unwrap() <= cpus.div_ceil(2), "{run}");
}

#[test]
fn an_interrupted_sweep_is_resumed_with_its_connections() {
    let scratch = Scratch::new();
    // Only the first load ends before the file exists.
    describe_rate(&scratch, "{connections}");
    let file = scratch.path().join("commanded.toml");
    let text = fs::read_to_string(&file).unwrap();
    let waits = "mkdir {here}/first || until [ -e {here}/resumed ]; do sleep 0.05; done; sleep {";
    fs::write(&file, text.replace("sleep {", waits)).unwrap();
    let args = ["run", "-q", "-r", "1", "-t", "1", "--interval", "1", "--latency=off"];
    let more = ["-o", "record", "--sweep", "connections=1,2", "commanded.toml"];
    let mut knee = start(scratch.knee(&args).args(more));
    wait_until("a round is recorded", || {
        fs::read_to_string(scratch.record().join("samples.jsonl"))
            .is_ok_and(|lines| lines.contains('\n'))
    });
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    let other = ["run", "--resume", "record", "--sweep", "connections=1,2,3"];
    finish(&mut scratch.knee(&other)).assert_code(2).assert_stderr_has("cannot be used with");
    fs::write(scratch.path().join("resumed"), "").unwrap();
    finish(&mut scratch.knee(&["run", "-q", "--resume", "record"])).assert_code(0);
    let measured = scratch.measured();
    for name in ["commanded@connections=1", "commanded@connections=2"] {
        assert!(measured.iter().any(|line| line["testcase"] == name), "{name}: {measured:?}");
    }
}

#[test]
fn only_servers_whose_load_takes_connections_are_swept() {
    let scratch = Scratch::new();
    describe_rate(&scratch, "8");
    let refused = |args: &[&str], text: &str| {
        sweep(&scratch, "connections=1,8", args).assert_code(2).assert_stderr_has(text);
    };
    let insert =
        "load.command of commanded does not use the number of connections; insert {connections}";
    refused(&["commanded.toml"], insert);
    refused(
        &["getppid1"],
        "--sweep applies only to servers, which have connections; name a server",
    );
    refused(&[], "name a server, such as nginx");
    refused(
        &["nginx@connections=64"],
        "--sweep connections=1,8: nginx@connections=64 already has a number; name nginx",
    );
    let command = ["run", "--sweep", "connections=1,8", "-o", "record", "--", "true", "{tasks}"];
    let failed = finish(&mut scratch.knee(&command));
    failed.assert_code(2).assert_stderr_has("for a command, -t sweeps {tasks}");
    assert!(!scratch.record().exists());
}

#[test]
fn a_number_of_connections_can_follow_the_name_of_a_server() {
    let scratch = Scratch::new();
    describe_rate(&scratch, "{connections}");
    let run = |words: &[&str]| {
        let args = ["run", "-q", "--patience", "1", "-r", "1", "--interval", "1", "-t", "1"];
        finish(scratch.knee(&args).args(["-o", "record"]).args(words))
    };
    let refused = |words: &[&str], text: &str| {
        run(words).assert_code(2).assert_stderr_has(text);
    };
    refused(&["commanded.toml@connections=0"], "\"0\" is not a whole number from 1 to 1000000");
    refused(&["redis@connections=x"], "redis@connections=x: \"x\" is not a whole number");
    let twice = ["commanded.toml@connections=2", "commanded.toml@connections=2"];
    refused(&twice, "two servers are named commanded@connections=2");
    refused(&["getppid1@connections=2"], "getppid1 has no parameter \"connections\"");
    run(&["commanded.toml@connections=2", "commanded.toml@connections=40"])
        .assert_code(0)
        .assert_stdout_has("commanded on 1 CPU, over connections");
    let sides = ["--before", "commanded.toml@connections=40"];
    let mut compared =
        scratch.knee(&["ab", "-q", "--patience", "1", "-r", "6", "--interval", "0.2", "-t", "1"]);
    finish(compared.args(sides).args(["--after", "commanded.toml@connections=2"]))
        .assert_code(0)
        .assert_stdout_has("40.0")
        .assert_stdout_has("2.00");
}

#[test]
fn a_sweep_beyond_the_limit_of_open_files_fails_before_it_begins() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", "");
    let limited = |connections: &str| {
        let mut shell = std::process::Command::new("sh");
        let knee = env!("CARGO_BIN_EXE_knee");
        let sweep = format!("--sweep connections={connections}");
        let line = format!("ulimit -n 300; {knee} run -o record echo.toml {sweep}");
        let failed = finish(shell.args(["-c", &line]).current_dir(scratch.path()));
        assert!(!scratch.record().exists());
        failed.assert_code(3);
        failed
    };
    // The largest number, although a smaller one is too large as well.
    let reason =
        "--sweep connections=700,900: 900 connections need 964 open files, but the limit is 300";
    let failed = limited("700,900");
    failed.assert_stderr_has(reason).assert_stderr_has("(ulimit -n 964)");

    let file = scratch.path().join("echo.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + "[files]\nconf = 'at most {max_connections}'\n").unwrap();
    let reason = "8 connections and 1000 spare ones need 1008 open files, but the limit is 300";
    limited("8").assert_stderr_has(reason).assert_stderr_has("(ulimit -n 1008)");
    limited("1").assert_stderr_has(": 1 connection and 1000 spare ones need 1001 open files");
}

#[test]
fn built_in_servers_accept_more_connections_than_their_programs_do_by_default() {
    for (name, connections) in [
        ("nginx", "connections=1100"),
        ("memcached", "connections=1100"),
        ("pgbench_select", "connections=120"),
    ] {
        let scratch = Scratch::new();
        // If root runs the test, another user runs the server, and must be able to enter the directory.
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let finished = sweep(&scratch, connections, &[name, "-t", "1"]);
        if finished.code == Some(3) && finished.stdout.contains("is missing") {
            skip("servers", finished.stdout);
            continue;
        }
        if finished.stderr.contains("open files, but the limit is") {
            skip("open files", finished.stderr);
            continue;
        }
        finished.assert_code(0);
        assert_eq!(scratch.measured().len(), 1, "{name}");
    }
}

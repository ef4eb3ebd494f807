//! `knee run --resume`: goes on with a run that nobody writes, on the machine that it began on.

mod support;

use std::fs;

use rustix::process::Signal;
use support::{Scratch, finish, signal, start, start_telling, wait_until};

/// The files of the record, to see that nothing has touched them.
fn files(scratch: &Scratch) -> [Vec<u8>; 2] {
    ["run.json", "samples.jsonl"].map(|name| fs::read(scratch.record().join(name)).unwrap())
}

/// A short run that is whole, but for what `change` does to its description.
fn recorded(change: impl FnOnce(&mut serde_json::Value)) -> Scratch {
    let scratch = Scratch::new();
    finish(&mut scratch.run(&["-t", "1", "getppid1"])).assert_code(0);
    let mut run = scratch.run_json();
    change(&mut run);
    fs::write(scratch.record().join("run.json"), run.to_string()).unwrap();
    scratch
}

#[test]
fn a_running_run_cannot_be_resumed() {
    let scratch = Scratch::new();
    let mut child = start(
        scratch
            .knee(&["run", "-q", "getppid1", "-t", "1", "-m", "processes", "-o", "record"])
            .args(["-r", "1000", "--interval", "0.05", "--warmup", "0.01"]),
    );
    wait_until("samples are written", || {
        fs::metadata(scratch.record().join("samples.jsonl")).is_ok_and(|file| file.len() > 0)
    });
    finish(&mut scratch.knee(&["run", "--resume", "record"]))
        .assert_code(3)
        .assert_stderr_has("another knee is writing record");
    finish(&mut scratch.run(&["getppid1"])).assert_code(3).assert_stderr_has("another knee");
    signal(&child, Signal::KILL);
    child.wait().unwrap();

    let mut run = scratch.run_json();
    run["request"]["rounds"] = 1.into();
    fs::write(scratch.record().join("run.json"), run.to_string()).unwrap();
    finish(&mut scratch.knee(&["run", "-q", "--resume", "record"])).assert_code(0);
    assert_eq!(scratch.run_json()["complete"], true);
    finish(&mut scratch.knee(&["run", "-q", "--resume", "record"]))
        .assert_code(0)
        .assert_stderr_has("the run in record is complete");
}

#[test]
fn a_long_run_shows_its_progress_before_the_first_round_ends() {
    let scratch = Scratch::new();
    let messages = scratch.path().join("stderr");
    let mut command = scratch.knee(&["run", "getppid1", "-t", "1", "-m", "processes"]);
    command.args(["-r", "1", "--interval", "600"]);
    let mut child = start_telling(&mut command, fs::File::create(&messages).unwrap().into());
    wait_until("the first line of progress is written", || {
        let text = fs::read_to_string(&messages).unwrap();
        text.contains("knee: 0 of 1 rounds, 30 min 0 s left; getppid1 processes ×1, round 1")
    });
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn resume_refuses_options_that_change_the_plan() {
    let scratch = recorded(|_| {});
    let before = files(&scratch);
    for ignored in [
        &["getppid1"][..],
        &["--all"],
        &["--plugin", "mine.so"],
        &["--mode", "both"],
        &["--tasks", "auto"],
        &["--rounds", "5"],
        &["--samples", "3"],
        &["--interval", "0.2"],
        &["--warmup", "0.1"],
        &["--precision", "1%"],
        &["--max-time", "60"],
        &["--start-timeout", "30"],
        &["--order", "shuffled"],
        &["--seed", "7"],
        &["--placement", "cores"],
        &["--cpus", "0"],
        &["--dir", "."],
        &["--output", "other"],
        &["--aa"],
    ] {
        let mut command = scratch.knee(&["run", "--resume", "record"]);
        let finished = finish(command.args(ignored));
        finished.assert_code(2).assert_stderr_has("cannot be used with");
    }
    assert_eq!(files(&scratch), before);
    let mut command = scratch.knee(&["run", "--resume", "record", "-q", "--format", "csv"]);
    finish(&mut command).assert_code(0).assert_stdout_has("tasks,processes");
}

#[test]
fn a_run_resumes_only_on_the_machine_that_began_it() {
    for (what, other) in
        [("hostname", "elsewhere"), ("kernel", "Linux 2.6.32"), ("cpu_model", "Zilog Z80")]
    {
        let scratch = recorded(|run| run["environment"][what] = other.into());
        let before = files(&scratch);
        let finished = finish(&mut scratch.knee(&["run", "--resume", "record"]));
        finished.assert_code(2).assert_stderr_has(other).assert_stderr_has("but this machine is");
        assert_eq!(files(&scratch), before);
    }
}

#[test]
fn a_run_cannot_resume_on_cpus_that_are_missing() {
    let scratch = recorded(|run| run["request"]["cpus"] = serde_json::json!([0, 9999]));
    let before = files(&scratch);
    let finished = finish(&mut scratch.knee(&["run", "--resume", "record"]));
    finished.assert_code(2).assert_stderr_has("used CPUs 0,9999");
    finished.assert_stderr_has("may not use CPU 9999").assert_stderr_has("it may use");
    assert_eq!(files(&scratch), before);
}

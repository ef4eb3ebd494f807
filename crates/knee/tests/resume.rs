//! `knee run --resume`: goes on with a run that nobody writes, on the machine that it began on.

mod support;

use std::fs;

use rustix::process::Signal;
use support::{Scratch, finish, signal, start, wait_until};

#[test]
fn resuming_a_run_that_was_still_going_mixed_up_its_record() {
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
        .assert_stderr_has("record is being written by another knee");
    finish(&mut scratch.run(&["getppid1"])).assert_code(3).assert_stderr_has("another knee");
    signal(&child, Signal::KILL);
    child.wait().unwrap();

    let mut run = scratch.run_json();
    run["request"]["rounds"] = 1.into();
    fs::write(scratch.record().join("run.json"), run.to_string()).unwrap();
    finish(&mut scratch.knee(&["run", "-q", "--resume", "record"])).assert_code(0);
    assert_eq!(scratch.run_json()["complete"], true);
}

//! Nothing that a command starts survives: no daemon, and no private directory, whatever ends knee.

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process_group};
use support::{Finished, Scratch, after, finish, processes_in, signal, skip, start, wait_until};

/// Starts a daemon, and ends when it runs.
const START: &str = "\
rm -f pid
setsid sh -c 'sh ./daemon & exit 0' &
until [ -e pid ] && grep -qx sleep \"/proc/$(cat pid)/comm\"; do sleep 0.01; done
";
/// In a session of its own, with a parent that has ended, and deaf to requests to end.
const DAEMON: &str = "\
trap '' INT TERM HUP
echo $$ > new && mv new pid
exec sleep 600
";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("start"), START).unwrap();
    fs::write(scratch.path().join("daemon"), DAEMON).unwrap();
    scratch
}

fn assert_nothing_is_left(scratch: &Scratch) {
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    assert_eq!(scratch.leftovers(), Vec::<PathBuf>::new());
}

/// The output without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_daemon_ends_with_its_round_and_is_reported_once() {
    let scratch = scratch();
    let args = ["run", "-q", "--patience", "1", "-r", "2", "-t", "1", "-o", "record"];
    let finished = finish(scratch.knee(&args).args(["--", "sh", "start"]));
    finished.assert_code(0);
    assert_nothing_is_left(&scratch);
    let note = "the command sh left 1 process running (sleep) after a round; knee ended it";
    assert_eq!(words(&finished.stdout).matches(note).count(), 1, "{finished:#?}");
    let left = &scratch.run_json()["left_running"];
    assert_eq!(*left, serde_json::json!([{ "testcase": "sh", "programs": ["sleep"] }]));
    let shown = finish(&mut scratch.knee(&["show", "record"]));
    assert!(words(&shown.assert_code(0).stdout).contains(note), "{shown:#?}");
}

#[test]
fn a_comparison_reports_a_daemon() {
    let scratch = scratch();
    let sides = ["--before", "sh start", "--after", "true"];
    let finished = finish(scratch.knee(&["ab", "-q", "--patience", "1"]).args(sides));
    let note = "left 1 process running (sleep) after a round; knee ended it";
    finished.assert_code(0).assert_stderr_has(note);
    assert_nothing_is_left(&scratch);
}

#[test]
fn a_command_that_leaves_nothing_is_not_reported() {
    let scratch = Scratch::new();
    let args = ["run", "-q", "--patience", "1", "-r", "1", "-t", "2", "-o", "record"];
    let finished = finish(scratch.knee(&args).args(["--", "sleep 0.01 & sleep 0.01; wait"]));
    assert!(!finished.assert_code(0).stdout.contains("running"), "{finished:#?}");
    assert!(scratch.run_json().get("left_running").is_none());
}

/// A run of a command that ignores requests to end, in a process group of its own, when its daemon runs.
fn long_run(scratch: &Scratch) -> Child {
    long_run_with(scratch, "")
}

/// The command also runs this, when its daemon runs.
fn long_run_with(scratch: &Scratch, also: &str) -> Child {
    let line =
        format!("trap '' INT TERM; touch {{dir}}/file; sh start; {also} touch started; sleep 600");
    let args = ["run", "-q", "-r", "1", "-t", "1", "-o", "record", "--", &line];
    let knee = start(scratch.knee(&args).process_group(0));
    wait_until("the daemon runs", || scratch.path().join("started").exists());
    assert!(processes_in(scratch.path()).iter().any(|process| process.contains(": sleep 600")));
    assert_eq!(scratch.leftovers().len(), 1);
    knee
}

#[test]
fn an_interrupted_run_leaves_neither_a_daemon_nor_a_file() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scratch = scratch();
        let mut knee = long_run(&scratch);
        signal(&knee, sent);
        assert_eq!(knee.wait().unwrap().code(), Some(code));
        assert_nothing_is_left(&scratch);
    }
}

#[test]
fn a_run_that_is_killed_leaves_neither_a_daemon_nor_a_file() {
    for also in ["", "kill -STOP $PPID;"] {
        let scratch = scratch();
        let mut knee = long_run_with(&scratch, also);
        signal(&knee, Signal::KILL);
        knee.wait().unwrap();
        wait_until("no process is left", || processes_in(scratch.path()).is_empty());
        wait_until("no file is left", || scratch.leftovers().is_empty());
    }
}

#[test]
fn killing_the_process_group_of_knee_does_not_kill_the_keepers() {
    let scratch = scratch();
    let mut knee = long_run(&scratch);
    kill_process_group(Pid::from_child(&knee), Signal::KILL).unwrap();
    knee.wait().unwrap();
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
    wait_until("no file is left", || scratch.leftovers().is_empty());
}

#[test]
fn directories_deeper_than_the_limit_of_open_files_are_removed() {
    let scratch = Scratch::new();
    let nest =
        "cd {dir}; i=0; while [ $i -lt 1500 ]; do mkdir d && cd d || exit; i=$((i + 1)); done";
    let args = ["run", "-q", "--patience", "1", "-r", "1", "-t", "1", "-o", "record", "--", nest];
    finish(&mut after("ulimit -n 400", &scratch.knee(&args))).assert_code(0);
    assert_nothing_is_left(&scratch);
}

#[test]
fn a_command_that_kills_its_group_does_not_kill_its_keeper() {
    let scratch = Scratch::new();
    let args = ["run", "-q", "-r", "1", "-t", "1", "-o", "record", "--", "kill -9 0"];
    let finished = finish(&mut scratch.knee(&args));
    finished.assert_code(4).assert_stdout_has("was killed by SIGKILL");
    assert_nothing_is_left(&scratch);
}

#[test]
fn a_command_blocks_no_signals() {
    let scratch = Scratch::new();
    let args = ["run", "-q", "--patience", "1", "-r", "1", "-t", "1", "-o", "record", "--"];
    let line = ["grep", "-qx", "SigBlk:.0000000000000000", "/proc/self/status"];
    finish(scratch.knee(&args).args(line)).assert_code(0);
}

/// Profiles a command; `None` if this machine cannot be sampled.
fn profile(scratch: &Scratch, command: &[&str]) -> Option<Finished> {
    let finished = finish(scratch.knee(&["profile", "-o", "c.json", "--"]).args(command));
    if finished.code == Some(3) {
        skip("sampling", &finished.stderr);
        return None;
    }
    Some(finished)
}

#[test]
fn a_profiled_command_keeps_its_status_and_its_daemon_is_ended() {
    let scratch = scratch();
    let Some(finished) = profile(&scratch, &["sh", "-c", "sh start; exit 9"]) else { return };
    finished
        .assert_code(9)
        .assert_stderr_has("knee: the command left 1 process running (sleep); knee ended it");
    assert_nothing_is_left(&scratch);
}

//! `knee run --resume`: goes on with a run that nobody writes, on the machine that it began on.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, geteuid};
use support::{
    Scratch, compile_plugin, finish, mode, signal, skip, start, start_telling, wait_until,
    without_umask,
};

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
        &["--rate"],
        &["--read", "tps = #"],
        &["--", "true"],
    ] {
        let mut command = scratch.knee(&["run", "--resume", "record"]);
        let finished = finish(command.args(ignored));
        finished.assert_code(2).assert_stderr_has("cannot be used with");
    }
    assert_eq!(files(&scratch), before);
    let mut command = scratch.knee(&["run", "--resume", "record", "-q", "--format", "csv"]);
    finish(&mut command).assert_code(0).assert_stdout_has("testcase,mode,tasks,");
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

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The commands that resume a record.
const RESUMING: [&[&str]; 2] = [&["run", "--resume", "record"], &["ab", "--resume", "record"]];

/// A record of `knee ab` whose run has not ended, with a command that leaves a file behind.
fn recorded_ab(scratch: &Scratch) {
    let proof = scratch.path().join("proof");
    let before = format!("touch {}", proof.display());
    let mut ab = scratch.knee(&["ab", "-q", "-o", "record", "-r", "6", "--before", &before]);
    let finished = finish(ab.args(["--after", "true"]));
    finished.assert_code(0);
    fs::remove_file(proof).unwrap();
    let mut run = scratch.run_json();
    run["complete"] = false.into();
    run["request"]["rounds"] = 7.into();
    fs::write(scratch.record().join("run.json"), run.to_string()).unwrap();
}

#[test]
fn a_record_to_which_others_can_write_is_not_resumed() {
    let scratch = Scratch::new();
    recorded_ab(&scratch);
    let before = files(&scratch);
    for (path, safe) in [(scratch.record(), 0o755), (scratch.record().join("run.json"), 0o644)] {
        for unsafe_mode in [safe | 0o020, safe | 0o002] {
            set_mode(&path, unsafe_mode);
            // `knee run` and `knee ab` refuse it for the same reason.
            for args in RESUMING {
                finish(&mut scratch.knee(args))
                    .assert_code(3)
                    .assert_stderr_has("cannot resume record: knee runs the commands in a record")
                    .assert_stderr_has("other users can write to it")
                    .assert_stderr_has(
                        // A record that was read before it was copied may have changed in between.
                        "copy it, read COPY/run.json, then resume the copy: cp -r record COPY",
                    );
            }
        }
        set_mode(&path, safe);
    }
    assert_eq!(files(&scratch), before);
    assert!(!scratch.path().join("proof").exists());
}

#[test]
fn a_record_of_another_user_is_not_resumed() {
    if !geteuid().is_root() {
        return skip("root", "only root can give a file to another user");
    }
    let scratch = Scratch::new();
    recorded_ab(&scratch);
    for path in [scratch.record(), scratch.record().join("run.json")] {
        chown(&path, Some(65534), None).unwrap();
        for args in RESUMING {
            finish(&mut scratch.knee(args))
                .assert_code(3)
                .assert_stderr_has("it belongs to user 65534");
        }
        // It can still be shown.
        finish(&mut scratch.knee(&["show", "record"])).assert_code(0);
        chown(&path, Some(0), None).unwrap();
    }
    assert!(!scratch.path().join("proof").exists());
}

#[test]
fn no_record_begins_in_a_directory_of_another_user() {
    if !geteuid().is_root() {
        return skip("root", "only root can give a directory to another user");
    }
    let scratch = Scratch::new();
    // Its owner could put a link to any file in the place of run.json.
    fs::create_dir(scratch.record()).unwrap();
    chown(scratch.record(), Some(65534), None).unwrap();
    finish(&mut scratch.run(&["getppid1"]))
        .assert_code(3)
        .assert_stderr_has("it belongs to user 65534");
    assert_eq!(fs::read_dir(scratch.record()).unwrap().count(), 0);
}

/// In a user namespace that lacks users, the kernel reports one number for all of them. It can be that of knee's user.
#[test]
fn a_record_whose_owner_the_user_namespace_lacks_is_not_resumed() {
    let scratch = Scratch::new();
    finish(&mut scratch.run(&["getppid1", "-t", "1", "-m", "processes"])).assert_code(0);
    let mut knee = std::process::Command::new("unshare");
    knee.args(["--user", env!("CARGO_BIN_EXE_knee"), "run", "--resume"]).arg(scratch.record());
    let finished = finish(&mut knee);
    if finished.stderr.contains("unshare failed") {
        return skip("userns", "this machine permits no user namespaces");
    }
    finished.assert_stderr_has("its owner is unknown, because this user namespace lacks users");
}

#[test]
fn no_record_begins_behind_a_link_of_another_user() {
    if !geteuid().is_root() {
        return skip("root", "only root can give a link to another user");
    }
    let scratch = Scratch::new();
    let own = scratch.path().join("own");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::symlink(&own, scratch.record()).unwrap();
    std::os::unix::fs::lchown(scratch.record(), Some(65534), None).unwrap();
    let run = ["getppid1", "-t", "1", "-m", "processes"];
    finish(&mut scratch.run(&run)).assert_code(3).assert_stderr_has("it belongs to user 65534");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
}

#[test]
fn a_user_who_may_read_a_record_cannot_keep_it_locked() {
    let scratch = Scratch::new();
    let run = ["getppid1", "-t", "1", "-m", "processes"];
    finish(&mut scratch.run(&run)).assert_code(0);
    let names = ["", "run.json", "samples.jsonl"];
    let files = names.map(|name| fs::File::open(scratch.record().join(name)).unwrap());
    for file in &files {
        flock(file, FlockOperation::NonBlockingLockShared).unwrap();
    }
    finish(&mut scratch.knee(&["run", "-q", "--resume", "record"])).assert_code(0);
    assert!(!scratch.record().join(".lock").exists());
}

#[test]
fn the_commands_of_a_record_are_printed_before_they_run() {
    let scratch = Scratch::new();
    recorded_ab(&scratch);
    let dir = scratch.path().canonicalize().unwrap();
    let proof = scratch.path().join("proof");
    let command =
        format!("knee: resuming runs the command touch {} in {}", proof.display(), dir.display());
    let finished = finish(&mut scratch.knee(&["ab", "-q", "--resume", "record"]));
    finished.assert_code(0).assert_stderr_has(&command).assert_stderr_has("command true in");
    assert!(proof.exists());
}

#[test]
fn the_command_of_a_record_is_shown_whatever_its_description_says() {
    let scratch = Scratch::new();
    recorded_ab(&scratch);
    let mut run = scratch.run_json();
    for case in run["cases"].as_array_mut().unwrap() {
        assert!(case["command"]["line"].is_string(), "{case}");
        case["command"]["line"] = "true # harmless\ntouch evil".into();
    }
    fs::write(scratch.record().join("run.json"), run.to_string()).unwrap();
    let shown = finish(&mut scratch.knee(&["show", "record", "--detail"]));
    shown.assert_code(0).assert_stdout_has("true # harmless\\ntouch evil");

    // Advice about such a record says that it runs commands.
    let samples = scratch.record().join("samples.jsonl");
    let damaged = fs::read_to_string(&samples).unwrap().replacen('{', "", 1);
    fs::write(&samples, damaged).unwrap();
    finish(&mut scratch.knee(&["show", "record"])).assert_stderr_has(
        "measure its round again (this runs the commands in the record): knee ab --resume record",
    );
}

#[test]
fn a_plugin_that_has_changed_since_the_run_began_is_not_loaded() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "counter1") else { return };
    let proof = scratch.path().join("cleaned-up");
    let mut run = scratch.run(&["-t", "1", "-m", "processes", "--plugin", &plugin]);
    finish(run.env("CLEANUP_PROOF", &proof)).assert_code(0);
    let resume = || {
        let mut knee = scratch.knee(&["run", "-q", "--resume", "record"]);
        finish(knee.env("CLEANUP_PROOF", &proof))
    };
    let loads = format!("knee: resuming loads the plug-in {plugin}");
    resume().assert_code(0).assert_stderr_has(&loads);

    let mut changed = fs::read(&plugin).unwrap();
    changed.push(0);
    let file = scratch.path().join("changed");
    fs::write(&file, changed).unwrap();
    fs::rename(&file, &plugin).unwrap();
    let before = files(&scratch);
    resume()
        .assert_code(2)
        .assert_stderr_has(&format!("the plug-in {plugin} has changed since the run began"))
        .assert_stderr_has("start a new run");
    assert_eq!(files(&scratch), before);

    let mut run = scratch.run_json();
    let case = run["cases"][0].as_object_mut().unwrap();
    assert_eq!(case.remove("sha256").unwrap().as_str().unwrap().len(), 64);
    fs::write(scratch.record().join("run.json"), run.to_string()).unwrap();
    resume().assert_code(0).assert_stderr_has("without the SHA-256 of").assert_stderr_has(&loads);
}

#[test]
fn only_the_owner_can_write_to_a_new_record_whatever_the_umask() {
    let scratch = Scratch::new();
    let run = scratch.run(&["getppid1", "-t", "1", "-m", "processes"]);
    finish(&mut without_umask(&run)).assert_code(0);
    assert_eq!(mode(scratch.record()), 0o755);
    for file in ["run.json", "samples.jsonl"] {
        assert_eq!(mode(scratch.record().join(file)), 0o644, "{file}");
    }
    finish(&mut scratch.knee(&["run", "-q", "--resume", "record"])).assert_code(0);
}

//! What goes wrong is reported by name, the rest goes on, and nothing is left behind.

mod support;

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use support::{Finished, Scratch, compile_plugin, finish, processes_in, signal, start, wait_until};

/// Runs a plug-in beside a built-in testcase, which has to come out whole.
fn run_beside_a_good_one(plugin: &str, args: &[&str]) -> Option<(Scratch, Finished)> {
    let scratch = Scratch::new();
    let plugin = compile_plugin(&scratch, plugin)?;
    let mut command = scratch.run(&["-t", "2", "getppid1", "--plugin", &plugin]);
    let finished = finish(command.args(args));
    let good: Vec<_> =
        scratch.samples().into_iter().filter(|line| line["testcase"] == "getppid1").collect();
    assert_eq!(good.len(), 6, "two modes, each a warm-up, a sample and the round: {finished:#?}");
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
    assert_eq!(scratch.run_json()["complete"], false);
    Some((scratch, finished))
}

#[test]
fn a_segmentation_fault_is_reported_with_its_signal() {
    let Some((_, finished)) = run_beside_a_good_one("segfault", &["--interval", "1"]) else {
        return;
    };
    finished.assert_code(4).assert_stderr_has("segfault processes ×2: task");
    finished.assert_stderr_has("killed by SIGSEGV").assert_stdout_has("not measured");
}

#[test]
fn a_failed_assertion_is_quoted() {
    let Some((_, finished)) = run_beside_a_good_one("assertion", &[]) else { return };
    finished.assert_code(4).assert_stderr_has("task 1 was killed by SIGABRT");
    finished.assert_stderr_has("Assertion `nr != 1' failed");
}

#[test]
fn a_task_that_counts_nothing_is_a_failure_and_no_average() {
    let Some((scratch, finished)) = run_beside_a_good_one("stuck", &["--interval", "0.3"]) else {
        return;
    };
    // After 3 s; a busy machine looks later, and then it is longer.
    finished.assert_code(4).assert_stderr_has("has completed no iteration for ");
    assert!(!finished.stdout.lines().any(|line| line.starts_with("stuck")), "{finished:#?}");
    assert_eq!(scratch.run_json()["failures"][0]["kind"], "hung");
}

#[test]
fn a_testcase_that_returns_is_a_failure() {
    let Some((_, finished)) = run_beside_a_good_one("returns", &["--interval", "0.3"]) else {
        return;
    };
    finished.assert_code(4).assert_stderr_has("the testcase returned");
}

#[test]
fn a_prepare_function_that_hangs_is_given_up() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "stuck_prepare") else { return };
    let mut command = scratch.run(&["-t", "1", "-m", "processes", "--plugin", &plugin]);
    let finished = finish(command.args(["--start-timeout", "0.5"]));
    finished.assert_code(4).assert_stderr_has("no response for");
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_prepare_function_that_fails_is_noticed_at_once_and_what_it_started_is_ended() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "orphan") else { return };
    let mut command = scratch.run(&["-t", "1", "-m", "processes", "--plugin", &plugin]);
    // Were the runner's pipes waited for, which the orphan holds open, it would be called hung.
    let finished = finish(command.args(["--start-timeout", "50"]));
    finished.assert_code(4).assert_stderr_has("was killed by SIGABRT during preparation");
    finished.assert_stderr_has("nothing works here");
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

/// A run that would go on for an hour, and has measured every point once.
fn long_run(scratch: &Scratch) -> std::process::Child {
    let child =
        start(
            scratch
                .knee(&["run", "-q", "unlink1", "context_switch1", "fallocate1", "-t", "2"])
                .args(["-o", "record", "-r", "1000", "--interval", "0.05", "--warmup", "0.01"]),
        );
    let samples = scratch.record().join("samples.jsonl");
    wait_until("samples are written", || {
        fs::read_to_string(&samples).is_ok_and(|text| text.lines().count() > 30)
    });
    child
}

#[test]
fn interrupting_keeps_what_was_measured_and_cleans_up() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scratch = Scratch::new();
        let mut child = long_run(&scratch);
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
        assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
        let run = scratch.run_json();
        assert_eq!((&run["complete"], &run["end"]), (&false.into(), &"interrupted".into()));
        finish(&mut scratch.knee(&["show", "record"])).assert_stdout_has("was interrupted");
    }
}

#[test]
fn killing_knee_leaves_no_process_and_no_file_and_the_run_can_be_resumed() {
    let scratch = Scratch::new();
    let mut child = long_run(&scratch);
    let dirs = work_dirs(child.id());
    assert!(dirs.len() > 1 && dirs.iter().all(|dir| dir.exists()), "disk and tmpfs: {dirs:?}");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("runner and tasks are gone", || processes_in(scratch.path()).is_empty());
    wait_until("their files are gone", || !dirs.iter().any(|dir| dir.exists()));
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());

    // As if only three rounds had been asked for.
    let mut run = scratch.run_json();
    assert_eq!((&run["complete"], &run["end"]), (&false.into(), &serde_json::Value::Null));
    run["request"]["rounds"] = 3.into();
    fs::write(scratch.record().join("run.json"), run.to_string()).unwrap();
    finish(&mut scratch.knee(&["run", "-q", "--resume", "record"])).assert_code(0);
    assert_eq!(scratch.run_json()["complete"], true);
    let rounds: std::collections::BTreeSet<String> = scratch
        .samples()
        .iter()
        .map(|line| format!("{} {} {}", line["testcase"], line["mode"], line["round"]))
        .collect();
    assert!(rounds.len() >= 12, "{rounds:?}");
}

/// The directories that a running knee has locked as its own.
fn work_dirs(knee: u32) -> Vec<std::path::PathBuf> {
    let open = fs::read_dir(format!("/proc/{knee}/fd")).unwrap().flatten();
    let files = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    files
        .filter(|file| file.ends_with(".lock") && file.to_string_lossy().contains("knee-work."))
        .map(|file| file.parent().unwrap().to_owned())
        .collect()
}

#[test]
fn killing_the_runner_fails_its_point_and_leaves_nothing() {
    let scratch = Scratch::new();
    let mut child = start(
        scratch
            .knee(&["run", "-q", "context_switch1", "-t", "2", "-m", "processes"])
            .args(["-o", "record", "-r", "1", "-s", "1000"]),
    );
    let runner = || {
        let all = processes_in(scratch.path());
        let tasks = all.iter().filter(|p| p.ends_with("knee runner ")).count();
        // The runner, two tasks, and a helper of each.
        (tasks == 5).then(|| all.iter().find_map(|p| runner_pid(p, child.id())))?
    };
    wait_until("the runner has its tasks", || runner().is_some());
    let pid = rustix::process::Pid::from_raw(runner().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

/// The process of this line, if knee is its parent.
fn runner_pid(line: &str, knee: u32) -> Option<i32> {
    let pid = line.split(':').next()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()?;
    (parent == knee).then(|| pid.parse().ok())?
}

#[test]
fn what_a_dead_run_left_is_swept_by_the_next() {
    let scratch = Scratch::new();
    let left = scratch.work().join("knee-work.dead/1");
    fs::create_dir_all(&left).unwrap();
    fs::write(scratch.work().join("knee-work.dead/.lock"), "").unwrap();
    finish(&mut scratch.run(&["-t", "1", "getppid1"])).assert_code(0);
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_unwritable_place_for_the_record_is_reported() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("file"), "").unwrap();
    finish(&mut scratch.knee(&["run", "getppid1", "-o", "file/record"]))
        .assert_code(3)
        .assert_stderr_has("file/record");
    finish(&mut scratch.knee(&["run", "getppid1", "-o", "/proc/record"])).assert_code(3);
    fs::create_dir(scratch.record()).unwrap();
    fs::write(scratch.record().join("mine"), "").unwrap();
    finish(&mut scratch.run(&["getppid1"])).assert_code(2).assert_stderr_has("--resume");
    finish(&mut scratch.knee(&["run", "getppid1", "--dir", "missing"])).assert_code(3);
}

#[test]
fn a_full_disk_keeps_whole_lines_and_says_what_to_do() {
    let scratch = Scratch::new();
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=32k", "tmpfs"])
        .arg(&disk)
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        println!("skipped: a small tmpfs cannot be mounted without privileges");
        return;
    }
    let finished = finish(
        scratch
            .knee(&["run", "-q", "getppid1", "-t", "2", "-o", "disk/record", "-r", "100"])
            .args(["--interval", "0.01", "--warmup", "0.01", "-s", "20"]),
    );
    let text = fs::read_to_string(disk.join("record/samples.jsonl")).unwrap();
    let run = fs::read(disk.join("record/run.json")).unwrap();
    let unmounted = Command::new("umount").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    finished.assert_code(3).assert_stderr_has("--resume");
    assert!(text.lines().count() > 5);
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let run: serde_json::Value = serde_json::from_slice(&run).unwrap();
    assert_eq!(run["complete"], false);
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_task_that_a_full_disk_kills_is_reported_as_such() {
    let scratch = Scratch::new();
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=32k", "tmpfs"]).arg(&disk).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("skipped: a small tmpfs cannot be mounted without privileges");
        return;
    }
    // One writes to mapped memory, the other one with pwrite.
    let names = ["page_fault2", "read1"];
    let finished = names.map(|name| {
        let mut run = scratch.knee(&["run", "-q", "-t", "1", "-m", "processes", "-r", "1", name]);
        finish(run.args(["--dir", "disk", "--interval", "0.05", "-o", name]))
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    for finished in finished {
        finished.assert_code(3).assert_stdout_has("/disk is full");
    }
}

#[test]
fn a_task_that_died_alone_is_not_advised_to_run_alone() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "segfault") else { return };
    let died = finish(&mut scratch.run(&["-t", "1", "--interval", "1", "--plugin", &plugin]));
    died.assert_code(4).assert_stderr_has("it was the only task");
    assert!(!died.stderr.contains("-t 1"), "{died:#?}");
}

#[test]
fn a_run_of_all_testcases_leaves_out_those_that_are_only_threads() {
    let scratch = Scratch::new();
    // Refused after the selection, because all testcases would take minutes.
    let of = |more: &[&str]| {
        let args = ["run", "--all", "-m", "processes", "--dir", "missing"];
        finish(scratch.knee(&args).args(more))
    };
    let note = "that can run only as threads; measure them with -m threads";
    of(&[]).assert_code(3).assert_stderr_has(note);
    assert!(!of(&["-q"]).stderr.contains(note));
}

#[test]
fn absurd_arguments_are_refused_with_what_would_be_right() {
    let scratch = Scratch::new();
    let refuse = |args: &[&str], hint: &str| {
        finish(&mut scratch.knee(args)).assert_code(2).assert_stderr_has(hint);
    };
    refuse(&["run", "getppid1", "-t", "0"], "must be at least 1");
    refuse(&["run", "getppid1", "-t", "1000000"], "at most 16384");
    refuse(&["run", "getppid1", "-t", "-1"], "\"-1\" is not a task count");
    refuse(&["run", "getpid1"], "did you mean getppid1");
    refuse(&["run", "family:memroy"], "did you mean memory");
    refuse(&["run", "sync"], "did you mean family:sync");
    refuse(&["run", "read1@nothing"], "file=own|same");
    refuse(&["run", "read1@file=sam"], "did you mean file=same?");
    refuse(&["run", "getppid1", "--interval", "0"], "a time in seconds");
    refuse(&["run", "getppid1", "--precision", "200%"], "a percentage");
    refuse(&["run", "getppid1", "--rounds", "0"], "must be a whole number from 1 to 100000");
    refuse(&["run", "getppid1", "-r", "-1"], "must be a whole number from 1 to 100000");
    refuse(&["run", "getppid1", "-s", "-1"], "must be a whole number from 1 to 1000000");
    refuse(&["run", "getppid1", "--warmup", "-1"], "must be 0, or a time in seconds");
    refuse(&["ab", "--before", "a", "--after", "b", "--warmup", "-1"], "must be 0, or a time");
    refuse(&["fit", "record", "--knee", "-1"], "a percentage");
    refuse(&["fit", "record", "["], "a [ has no matching ]");
    refuse(&["run", "["], "\"[\" is not a glob: a [ has no matching ]");
    refuse(&["commute", "cost", "--cpus", "-1"], "must be a whole number from 1 to 64");
    refuse(&["profile", "-p", "-1"], "must be a whole number from 1 to");
    refuse(&["run", "getppid1", "--interval", "-0.1"], "a time in seconds");
    refuse(&["run", "getppid1", "--precision", "-1"], "a percentage");
    refuse(
        &["run", "getppid1", "--seed", "-1"],
        "must be a whole number from 0 to 18446744073709551615",
    );
    refuse(&["run", "getppid1", "--max-time", "5"], "--precision");
    for percent in ["0", "100%", "101%", "-1"] {
        let sides = ["ab", "--before", "true", "--after", "false"];
        refuse(&[&sides[..], &["--until-decided", percent]].concat(), "above 0 and below 100");
    }
    refuse(&["run", "getppid1", "--wait-quiet", "5"], "use --wait-quiet=5");
    refuse(&["profile", "growth", "--wait-quiet", "0.5s", "mmap1"], "use --wait-quiet=0.5s");
    refuse(
        &["run", "getppid1", "--seed", "99999999999999999999"],
        "must be a whole number from 0 to 18446744073709551615",
    );
    refuse(&["will-it-scale", "getppid1_threads", "-t", "-1"], "a whole number from 1 to 16384");
    refuse(&["will-it-scale", "getppid1_threads", "-s", "-1"], "a whole number from 0 to");
    refuse(&["compare", "-C", "-1"], "columns are counted from 1");
    refuse(&["run", "getppid1", "--cpus", "9999"], "9999");
    refuse(&["run", "getppid1", "--placement", "best"], "choose cores");
    refuse(&["will-it-scale", "getppid1"], "_processes");
    refuse(&["will-it-scale", "nothing_threads"], "knee list");
    assert!(!scratch.path().join("runs").exists());
    finish(&mut scratch.knee(&["show", "nowhere"])).assert_code(3).assert_stderr_has("nowhere");
}

#[test]
fn a_missed_precision_is_not_a_success() {
    let scratch = Scratch::new();
    let args = ["getppid1", "-t", "1", "--precision", "0.000001%", "--max-time", "0.01"];
    finish(&mut scratch.run(&args)).assert_code(5).assert_stderr_has("recorded in");
}

#[test]
fn what_processes_cannot_share_is_measured_as_threads_or_refused() {
    let scratch = Scratch::new();
    let refused = finish(&mut scratch.run(&["-m", "processes", "-t", "1", "epoch1", "getppid1"]));
    refused.assert_code(3).assert_stdout_has("epoch1 (processes").assert_stdout_has("-m threads");
    assert!(!refused.stderr.contains("epoch1"), "-q leaves this to the table: {refused:#?}");
    assert!(scratch.samples().iter().all(|line| line["testcase"] == "getppid1"));
    // It would be refused again.
    refused.assert_stdout_has("the run lacks 1 point of testcases that support only threads");
    assert!(!refused.stdout.contains("--resume"), "{refused:#?}");

    let scratch = Scratch::new();
    let finished = finish(&mut scratch.run(&["-m", "both", "-t", "1,2", "epoch1"]));
    finished.assert_code(0);
    assert!(scratch.samples().iter().all(|line| line["mode"] == "threads"));

    let will_it_scale = |name| finish(&mut scratch.knee(&["will-it-scale", name, "-s", "1"]));
    will_it_scale("epoch1_processes").assert_code(3).assert_stderr_has("must be threads");
}

#[test]
fn an_error_about_tmpdir_names_tmpdir() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let strange = scratch.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir(&strange).unwrap();
    let finished = finish(scratch.run(&["getppid1"]).env("TMPDIR", &strange));
    finished.assert_code(2).assert_stderr_has("TMPDIR ").assert_stderr_has("not UTF-8");
    assert!(!finished.stderr.contains("--dir"), "{finished:#?}");
}

#[test]
fn more_tasks_than_cpus_run_when_asked_for() {
    let scratch = Scratch::new();
    let finished =
        finish(&mut scratch.run(&["-t", "64", "getppid1", "--interval", "0.3", "--detail"]));
    finished.assert_code(0).assert_stdout_has("share CPUs");
    assert!(scratch.samples().iter().all(|l| l["rates"].as_array().unwrap().len() == 64));
}

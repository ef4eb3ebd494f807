//! `knee run --aa`: the machine's noise floor, kept for later runs that are measured alike.

mod support;

use std::fs;
use std::os::unix::fs::chown;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::geteuid;
use rustix::thread::{CpuSet, sched_setaffinity};
use support::{Finished, Scratch, finish, mode, skip, without_umask};

const UNKNOWN: &str = "noise floor of this machine is unknown";

/// The noise floor of one point.
fn aa(scratch: &Scratch, testcase: &str, args: &[&str]) -> Finished {
    let mut command = scratch.run(&["--aa", "-r", "4", "-t", "1", "-m", "threads", testcase]);
    finish(command.args(["-o", testcase]).args(args))
}

/// Whether the machine was too busy for a noise floor.
fn is_too_busy(finished: &Finished) -> bool {
    let is_busy = finished.stderr.contains("no noise floor for");
    if is_busy {
        skip("noise floor", &finished.stderr);
    }
    is_busy
}

/// A run of the same length, and of what `args` say.
fn later(scratch: &Scratch, args: &[&str]) -> Finished {
    let _ = fs::remove_dir_all(scratch.record());
    finish(scratch.run(&["-t", "1", "-m", "threads", "--detail"]).args(args))
}

fn kept(scratch: &Scratch) -> serde_json::Value {
    let file = scratch.path().join("state/knee/noise.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_second_aa_run_keeps_the_points_of_the_first() {
    let scratch = Scratch::new();
    let runs = ["getppid1", "lseek1"].map(|testcase| aa(&scratch, testcase, &[]));
    if runs.iter().any(|finished| is_too_busy(finished.assert_code(0))) {
        return;
    }
    let kept = kept(&scratch);
    assert_eq!(kept["schema"], 2);
    let names: Vec<_> = kept["points"].as_array().unwrap().iter().map(|p| &p["testcase"]).collect();
    assert_eq!(names, ["getppid1", "lseek1"]);
    let point = &kept["points"][0];
    assert_eq!((&point["interval"], &point["samples"]), (&0.05.into(), &1.into()));
    assert_eq!((&point["placement"], &point["rounds"]), (&"cores".into(), &4.into()));
}

#[test]
fn only_the_owner_can_change_the_noise_floor_whatever_the_umask() {
    let scratch = Scratch::new();
    let run = scratch.run(&["--aa", "-r", "4", "-t", "1", "-m", "threads", "getppid1"]);
    if is_too_busy(finish(&mut without_umask(&run)).assert_code(0)) {
        return;
    }
    for (path, expected) in [("", 0o700), ("knee", 0o700), ("knee/noise.json", 0o644)] {
        assert_eq!(mode(scratch.path().join("state").join(path)), expected, "{path}");
    }
}

#[test]
fn a_floor_applies_only_to_runs_measured_in_the_same_way() {
    let scratch = Scratch::new();
    if is_too_busy(aa(&scratch, "getppid1", &[]).assert_code(0)) {
        return;
    }
    let alike = later(&scratch, &["getppid1"]);
    assert!(!alike.assert_code(0).stdout.contains(UNKNOWN), "{alike:#?}");
    later(&scratch, &["getppid1", "--interval", "0.1"]).assert_stdout_has(UNKNOWN);
    later(&scratch, &["getppid1", "-s", "2"]).assert_stdout_has(UNKNOWN);
    later(&scratch, &["getppid1", "--placement", "none"]).assert_stdout_has(UNKNOWN);
}

#[test]
fn aa_refuses_too_few_rounds_before_it_measures() {
    let scratch = Scratch::new();
    aa(&scratch, "getppid1", &["-r", "3"]).assert_code(2).assert_stderr_has("use -r 4 or more");
    assert!(!scratch.path().join("getppid1").exists());
}

#[test]
fn aa_refuses_to_measure_what_it_could_not_save() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("state"), "no directory").unwrap();
    let finished = aa(&scratch, "getppid1", &[]);
    finished.assert_code(3).assert_stderr_has("--aa cannot save the noise floor");
    let mut homeless = scratch.run(&["getppid1", "--aa", "-r", "4"]);
    finish(homeless.env_remove("XDG_STATE_HOME").env_remove("HOME"))
        .assert_code(3)
        .assert_stderr_has("neither XDG_STATE_HOME nor HOME is set");
    assert!(!scratch.path().join("getppid1").exists() && !scratch.record().exists());
}

#[test]
fn no_noise_floor_is_saved_where_another_user_could_put_a_link() {
    if !geteuid().is_root() {
        return skip("root", "only root can give a directory to another user");
    }
    let scratch = Scratch::new();
    let state = scratch.path().join("state");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(65534), None).unwrap();
    aa(&scratch, "getppid1", &[])
        .assert_code(3)
        .assert_stderr_has("--aa cannot save the noise floor")
        .assert_stderr_has("it belongs to user 65534");
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
}

#[test]
fn an_aa_run_on_a_busy_machine_saves_no_noise_floor() {
    let scratch = Scratch::new();
    let cpu = knee_host::affinity::usable_cpus().unwrap()[0];
    let over = AtomicBool::new(false);
    let finished = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| burn(cpu, &over));
        }
        let cpu = cpu.to_string();
        let args = ["--cpus", &cpu, "--interval", "0.2"];
        // A panic beside the other threads would wait for them forever.
        let finished = std::panic::catch_unwind(|| aa(&scratch, "getppid1", &args));
        over.store(true, Ordering::Relaxed);
        finished
    });
    let finished = finished.unwrap();
    finished.assert_code(0);
    let text = fs::read_to_string(scratch.path().join("getppid1/samples.jsonl")).unwrap();
    let samples = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let measured: Vec<serde_json::Value> =
        samples.filter(|sample: &serde_json::Value| sample["phase"] == "measure").collect();
    let marked = measured.iter().filter(|s| s["marks"].as_array() != Some(&vec![])).count();
    if measured.len() - marked >= 4 {
        println!("skipped: this kernel keeps no record of who waits for a CPU");
        return;
    }
    finished
        .assert_stderr_has("knee: no noise floor for getppid1")
        .assert_stderr_has("samples were disturbed");
    assert!(!scratch.path().join("state/knee/noise.json").exists());
}

/// Keeps `cpu` from others until it is `over`.
fn burn(cpu: u32, over: &AtomicBool) {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).unwrap();
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

//! Other work beside a run: knee sees it at any task count, and claims nothing that it disturbed.

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knee_host::affinity::{pin, usable_cpus};
use rustix::process::Signal;
use support::{Finished, Scratch, finish, signal, start_telling, wait_until};

/// Runs `measure` while `load` runs on each usable CPU.
fn beside<T>(load: fn(&AtomicBool), measure: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for cpu in usable_cpus().unwrap() {
            let over = &over;
            scope.spawn(move || {
                pin(cpu).unwrap();
                load(over);
            });
        }
        // Also if `measure` panics: the scope waits for the loads.
        let _end = Finally(|| over.store(true, Ordering::Relaxed));
        measure()
    })
}

/// Calls a function when it is dropped.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn hog(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// 50 ms of work, then 50 ms of sleep.
fn bursts(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Streams through 64 MiB.
fn stream(over: &AtomicBool) {
    let mut memory = vec![0_u8; 64 << 20];
    while !over.load(Ordering::Relaxed) {
        let next = memory[0].wrapping_add(1);
        memory.fill(next);
        std::hint::black_box(&mut memory);
    }
}

/// A run of a point with fewer, as many and more tasks than CPUs.
fn run(scratch: &Scratch, args: &[&str]) -> Finished {
    let cpus = usable_cpus().unwrap().len();
    let tasks = [1, cpus, cpus + 1].map(|n| n.to_string()).join(",");
    let point = ["getppid1", "-r", "3", "-s", "3", "--interval", "0.1", "-t", &tasks];
    finish(scratch.run(&point).args(args))
}

/// The rounds of each point: how many there are, and how many carry no mark at all.
fn rounds(scratch: &Scratch) -> BTreeMap<(String, u64), (usize, usize)> {
    let mut marked: BTreeMap<(String, u64, u64), bool> = BTreeMap::new();
    for line in scratch.samples() {
        let point = (line["mode"].as_str().unwrap().to_owned(), line["tasks"].as_u64().unwrap());
        let is_marked = line["marks"].as_array() != Some(&Vec::new());
        let round = marked.entry((point.0, point.1, line["round"].as_u64().unwrap())).or_default();
        *round |= is_marked && line["phase"] != "warmup";
    }
    let mut points: BTreeMap<(String, u64), (usize, usize)> = BTreeMap::new();
    for ((mode, tasks, _), is_marked) in marked {
        let (all, unmarked) = points.entry((mode, tasks)).or_default();
        *all += 1;
        *unmarked += usize::from(!is_marked);
    }
    points
}

#[test]
fn hogs_bursts_and_streamers_are_seen_at_every_task_count_in_both_modes() {
    for (name, load) in [("hogs", hog as fn(&AtomicBool)), ("bursts", bursts), ("stream", stream)] {
        let scratch = Scratch::new();
        beside(load, || run(&scratch, &[])).assert_code(0);
        let rounds = rounds(&scratch);
        assert!(rounds.len() >= 4, "{rounds:?}");
        for (point, (all, unmarked)) in rounds {
            assert_eq!((all, unmarked), (3, 0), "{name}: {point:?}");
        }
    }
}

#[test]
fn a_disturbed_run_is_measured_again_and_then_claims_nothing() {
    let scratch = Scratch::new();
    let disturbed = beside(hog, || run(&scratch, &["--patience", "2", "-m", "processes"]));
    disturbed.assert_code(0).assert_stderr_has("disturbed most rounds of every point, so this run");
    for (point, (all, unmarked)) in rounds(&scratch) {
        assert_eq!((all, unmarked), (6, 0), "{point:?}");
    }
    std::fs::rename(scratch.record(), scratch.path().join("before")).unwrap();
    run(&scratch, &["-m", "processes"]).assert_code(0);
    for order in [["before", "record"], ["record", "before"], ["before", "before"]] {
        let mut compare = scratch.knee(&["compare", "--fail-on", "slower,faster"]);
        let compared = finish(compare.args(order));
        compared.assert_code(5).assert_stdout_has("~ too disturbed");
        assert!(!compared.stdout.contains("slower\n"), "{compared:#?}");
    }
    let show = finish(&mut scratch.knee(&["show", "before", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&show.assert_code(0).stdout).unwrap();
    let curve = &json["curves"][0];
    assert!(curve["points"].as_array().unwrap().iter().all(|p| p["disturbed"] == true), "{curve}");
    assert_eq!((&curve["knee"], &curve["peak"]), (&().into(), &().into()));
}

#[test]
fn waiting_for_a_quiet_machine_names_what_disturbs_it_and_measures_nothing() {
    let scratch = Scratch::new();
    let waited = beside(hog, || finish(&mut scratch.run(&["getppid1", "--wait-quiet=2"])));
    waited.assert_code(5).assert_stderr_has("did not become quiet within 2 s: other work uses");
    // The hogs are threads of this test.
    waited.assert_stderr_has("disturbance");
    assert!(!scratch.record().exists());
}

#[test]
fn a_directory_in_use_is_refused_before_waiting_for_a_quiet_machine() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.record()).unwrap();
    std::fs::write(scratch.record().join("file"), "").unwrap();
    let refused = beside(hog, || finish(&mut scratch.run(&["getppid1", "--wait-quiet=1"])));
    refused.assert_code(2).assert_stderr_has("record");
}

#[test]
fn waiting_for_a_quiet_machine_can_be_interrupted() {
    let scratch = Scratch::new();
    beside(hog, || {
        let messages = scratch.path().join("messages");
        let mut command = scratch.knee(&["run", "getppid1", "--wait-quiet", "-o", "record"]);
        let mut knee = start_telling(&mut command, File::create(&messages).unwrap().into());
        wait_until("knee says what it waits for", || {
            std::fs::read_to_string(&messages).unwrap().contains("waiting for a quiet machine")
        });
        signal(&knee, Signal::INT);
        assert_eq!(knee.wait().unwrap().code(), Some(130));
    });
    assert!(!scratch.record().exists());
}

//! Other work beside a run: knee sees it at any task count, and claims nothing that it disturbed.

mod support;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knee_host::affinity::{pin, usable_cpus};
use rustix::process::Signal;
use support::{Finished, Scratch, describe, finish, signal, skip, start_telling, wait_until};

/// Runs `measure` while `load` runs on each usable CPU.
fn beside<T>(load: fn(&AtomicBool), measure: impl FnOnce() -> T) -> T {
    beside_on(&usable_cpus().unwrap(), load, measure)
}

/// Runs `measure` while `load` runs on each of `cpus`.
fn beside_on<T>(cpus: &[u32], load: fn(&AtomicBool), measure: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for &cpu in cpus {
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
fn a_hog_on_the_cpu_of_a_server_or_of_its_load_is_seen() {
    let cpus = usable_cpus().unwrap();
    let [first, second, ..] = cpus[..] else { return skip("two CPUs", "this machine has one") };
    for hogged in [first, second] {
        let scratch = Scratch::new();
        describe(&scratch, "echo", "", "");
        let args = ["run", "echo.toml", "-r", "3", "-t", "1", "--latency=off", "-o", "record"];
        let mut knee = scratch.knee(&args);
        knee.args(["--patience", "1", "--interval", "0.5", "--cpus"]);
        knee.arg(format!("{first},{second}"));
        beside_on(&[hogged], hog, || finish(&mut knee)).assert_code(0);
        // The reference loops notice the hog as well, but only if it runs before or after the round.
        let is_starved = |line: &serde_json::Value| {
            line["marks"].as_array().unwrap().iter().any(|mark| mark == "starved")
        };
        let samples = scratch.samples();
        assert!(samples.iter().all(is_starved), "hog on {hogged}: {samples:?}");
    }
}

#[test]
fn hogs_are_seen_beside_a_command_that_takes_a_tenth_of_a_second() {
    let scratch = Scratch::new();
    let line = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let cpus = usable_cpus().unwrap().len().to_string();
    let args = ["run", "-q", "-r", "3", "--patience", "1", "-t", &cpus, "-o", "record", "--", line];
    let shown = beside(hog, || finish(&mut scratch.knee(&args)));
    shown.assert_code(0);
    let samples = scratch.samples();
    let is_starved =
        |line: &serde_json::Value| line["marks"].as_array().unwrap().contains(&"starved".into());
    assert!(
        samples.iter().filter(|line| line["phase"] == "measure").all(is_starved),
        "{samples:?}"
    );
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
    // The hogs are threads of this test. Other tests may run three programs that use more.
    let (_, programs) = waited.stderr.split_once(" (").expect("programs in parentheses");
    let (programs, _) = programs.split_once(" of a CPU)").expect("programs in parentheses");
    assert!(programs.contains("disturbance") || programs.split(',').count() == 3, "{waited:#?}");
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

#[test]
fn a_profile_beside_other_work_claims_no_growth() {
    let scratch = Scratch::new();
    let args = ["profile", "growth", "getppid1", "-t", "1,2", "-d", "0.5", "--patience", "1"];
    let grown = beside(hog, || finish(&mut scratch.knee(&args)));
    if grown.stderr.contains("not permitted") {
        return skip("sampling", &grown.stderr);
    }
    grown.assert_code(0).assert_stdout_has("Inconclusive: other work disturbed 1 task and 2 tasks");
}

/// Programs in a control group of their own that use all CPUs.
struct Neighbour {
    group: PathBuf,
    hogs: Vec<Child>,
}

impl Neighbour {
    /// `None`, with a printed reason, if this process may not create control groups.
    fn start() -> Option<Self> {
        let group = own_group().join(format!("knee-test-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&group) {
            skip("cgroup", format_args!("cannot create {}: {error}", group.display()));
            return None;
        }
        let mut neighbour = Self { group, hogs: Vec::new() };
        for _ in usable_cpus().unwrap() {
            // It ends with this test, however the test ends.
            let mut shell = Command::new("sh");
            shell.args(["-c", "while kill -0 $0; do :; done", &std::process::id().to_string()]);
            let hog = shell.stderr(Stdio::null()).spawn().unwrap();
            neighbour.hogs.push(hog);
            let pid = neighbour.hogs.last().unwrap().id().to_string();
            if let Err(error) = std::fs::write(neighbour.group.join("cgroup.procs"), pid) {
                skip("cgroup", format_args!("cannot move a process to a control group: {error}"));
                return None;
            }
        }
        Some(neighbour)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            let _ = hog.kill();
            let _ = hog.wait();
        }
        // The kernel empties the group a moment after its processes have been waited for.
        wait_until("the control group is removed", || std::fs::remove_dir(&self.group).is_ok());
    }
}

/// The directory of the control group of this process that shares out CPU time.
fn own_group() -> PathBuf {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // hierarchy:controllers:path; version 2 has no controllers.
    let paths: BTreeMap<&str, &str> = groups
        .lines()
        .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        .flat_map(|(names, path)| names.split(',').map(move |name| (name, path)))
        .collect();
    let (root, path) = match paths.get("cpu") {
        Some(path) => ("/sys/fs/cgroup/cpu", *path),
        None => ("/sys/fs/cgroup", paths.get("").copied().unwrap_or("/")),
    };
    PathBuf::from(format!("{root}{path}"))
}

#[test]
fn a_neighbour_in_another_control_group_is_seen_at_every_task_count() {
    let scratch = Scratch::new();
    let Some(neighbour) = Neighbour::start() else { return };
    run(&scratch, &["-m", "processes"]).assert_code(0);
    drop(neighbour);
    let rounds = rounds(&scratch);
    assert_eq!(rounds.len(), 3, "{rounds:?}");
    for (point, (all, unmarked)) in rounds {
        assert_eq!((all, unmarked), (3, 0), "{point:?}");
    }
}

/// /proc/stat as it would be if the hypervisor had taken half of each CPU since `begun`. All texts
/// have the same length, so that one can replace another in place.
fn stat_with_steal(begun: Instant) -> String {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let lines: Vec<&str> = stat.lines().take_while(|line| line.starts_with("cpu")).collect();
    let stolen = (begun.elapsed().as_secs_f64() * TICKS_PER_SECOND / 2.0) as u64;
    let planted = |line: &&str| {
        let (name, times) = line.split_once(' ').unwrap();
        let mut times: Vec<u64> = times.split_whitespace().map(|n| n.parse().unwrap()).collect();
        times[7] += if name == "cpu" { stolen * (lines.len() as u64 - 1) } else { stolen };
        let times: String = times.iter().map(|time| format!(" {time:>16}")).collect();
        format!("{name}{times}\n")
    };
    lines.iter().map(planted).collect()
}

/// Makes `command` read `file` in place of /proc/stat, in a mount namespace of its own.
fn replace_stat(command: &mut Command, file: &Path) {
    let file = CString::new(file.as_os_str().as_bytes()).unwrap();
    let mount = move || {
        let check = |result: i32| match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let stat = c"/proc/stat".as_ptr();
        let none = std::ptr::null();
        // SAFETY: the calls only read the paths, which are C strings that live long enough. The other
        // pointers may be null.
        unsafe {
            check(libc::unshare(libc::CLONE_NEWNS))?;
            check(libc::mount(none, c"/".as_ptr(), none, private, std::ptr::null()))?;
            check(libc::mount(file.as_ptr(), stat, none, libc::MS_BIND, std::ptr::null()))
        }
    };
    // SAFETY: between fork and exec it makes three system calls, and allocates nothing.
    unsafe { command.pre_exec(mount) };
}

#[test]
fn steal_time_is_marked_in_every_round() {
    let scratch = Scratch::new();
    let path = scratch.path().join("stat");
    let begun = Instant::now();
    std::fs::write(&path, stat_with_steal(begun)).unwrap();
    let mut probe = Command::new("true");
    replace_stat(&mut probe, &path);
    if let Err(error) = probe.status() {
        return skip("root", format_args!("/proc/stat cannot be replaced: {error}"));
    }
    let over = AtomicBool::new(false);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let stolen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                file.write_all_at(stat_with_steal(begun).as_bytes(), 0).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let _end = Finally(|| over.store(true, Ordering::Relaxed));
        let point = ["getppid1", "-t", "1", "-m", "processes", "--patience", "2"];
        let mut command = scratch.run(&point);
        command.args(["-r", "2", "--interval", "0.5"]);
        replace_stat(&mut command, &path);
        finish(&mut command)
    });
    stolen.assert_code(0).assert_stderr_has("disturbed most rounds of every point");
    let samples = scratch.samples();
    let measured = || samples.iter().filter(|line| line["phase"] == "measure");
    assert_eq!(measured().count(), 4, "each round is repeated");
    for line in measured() {
        assert!(line["marks"].as_array().unwrap().contains(&"steal".into()), "{line}");
    }
}

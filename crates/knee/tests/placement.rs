//! Tasks sit where the placement puts them, and never where this process may not run.

mod support;

use support::{Scratch, finish, processes_in, signal, start, wait_until};

/// The CPUs that this test may use.
fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

#[test]
fn a_restricted_process_uses_only_its_cpus() {
    let scratch = Scratch::new();
    let cpu = *allowed().last().unwrap();
    let binary = env!("CARGO_BIN_EXE_knee");
    let mut command = std::process::Command::new("taskset");
    command
        .args(["-c", &cpu.to_string(), binary, "run", "-q", "getppid1", "-t", "auto", "-r", "1"])
        .args(["-o", "record", "--interval", "0.05"])
        .current_dir(scratch.path());
    finish(&mut command).assert_code(0);
    let run = scratch.run_json();
    assert_eq!(run["request"]["cpus"], serde_json::json!([cpu]));
    assert_eq!(run["request"]["tasks"], serde_json::json!([1]));

    let other = allowed()[0];
    if other != cpu {
        let mut command = std::process::Command::new("taskset");
        command
            .args(["-c", &cpu.to_string(), binary, "run", "getppid1"])
            .args(["--cpus", &other.to_string()])
            .current_dir(scratch.path());
        finish(&mut command).assert_code(2).assert_stderr_has("taskset");
    }
}

#[test]
fn each_task_is_bound_to_its_cpu_and_none_with_placement_none() {
    let tasks = allowed().len();
    for (placement, bound) in [("cores", true), ("none", false)] {
        let scratch = Scratch::new();
        let n = tasks.to_string();
        let mut child =
            start(scratch.knee(&["run", "-q", "sched_yield", "-m", "processes", "-t", &n]).args([
                "--placement",
                placement,
                "-r",
                "1",
                "-s",
                "1000",
                "-o",
                "record",
            ]));
        let mut seats = Vec::new();
        wait_until("all tasks run", || {
            // Samples: everybody has been seated, and is looked at only then.
            let seated = !scratch_samples(&scratch).is_empty();
            seats = processes_in(scratch.path())
                .iter()
                .filter(|line| line.ends_with("knee runner "))
                .filter_map(|line| cpus_allowed(line.split(':').next()?))
                .collect();
            seated && seats.len() == tasks + 1
        });
        signal(&child, rustix::process::Signal::INT);
        child.wait().unwrap();
        let single = seats.iter().filter(|list| list.parse::<usize>().is_ok()).count();
        if bound {
            assert!(single >= tasks, "{placement}: {seats:?}");
        } else if tasks > 1 {
            assert_eq!(single, 0, "{placement}: {seats:?}");
        }
    }
}

#[test]
fn tasks_without_a_placement_stay_on_the_cpus_listed() {
    let cpu = allowed()[0].to_string();
    let scratch = Scratch::new();
    let mut child = start(
        scratch
            .knee(&["run", "-q", "getppid1", "-m", "processes", "-t", "2", "--cpus", &cpu])
            .args(["--placement", "none", "-r", "1", "-s", "1000", "-o", "record"]),
    );
    wait_until("tasks run", || !scratch_samples(&scratch).is_empty());
    let seats: Vec<String> = processes_in(scratch.path())
        .iter()
        .filter(|line| line.ends_with("knee runner "))
        .filter_map(|line| cpus_allowed(line.split(':').next()?))
        .collect();
    signal(&child, rustix::process::Signal::INT);
    child.wait().unwrap();
    assert!(seats.iter().filter(|list| **list == cpu).count() >= 2, "{seats:?}");
}

fn scratch_samples(scratch: &Scratch) -> String {
    std::fs::read_to_string(scratch.record().join("samples.jsonl")).unwrap_or_default()
}

fn cpus_allowed(pid: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

/// A cgroup that grants half a CPU and one CPU of the machine: knee must see both.
#[test]
fn a_cgroup_limits_cpus_and_time() {
    let scratch = Scratch::new();
    let Some(group) = Group::create() else {
        println!("skipped: no cgroup with a CPU limit can be made here");
        return;
    };
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_knee"), "run", "-q", "getppid1", "-r", "1"])
        .args(["-o", "record", "--interval", "0.2"])
        .current_dir(scratch.path());
    let finished = finish(&mut command);
    finished.assert_code(0).assert_stdout_has("a cgroup limits CPU time to 0.5 CPUs");
    assert_eq!(scratch.run_json()["request"]["tasks"], serde_json::json!([1]));
}

struct Group(std::path::PathBuf);

impl Group {
    /// Version 2 or 1, whichever can be written.
    fn create() -> Option<Self> {
        let name = format!("knee-test-{}", std::process::id());
        let settings = [
            ("/sys/fs/cgroup", "cpu.max", "50000 100000"),
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000"),
        ];
        settings.into_iter().find_map(|(root, file, value)| {
            let group = Self(std::path::Path::new(root).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            std::fs::OpenOptions::new()
                .write(true)
                .open(group.0.join(file))
                .and_then(|mut f| std::io::Write::write_all(&mut f, value.as_bytes()))
                .ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

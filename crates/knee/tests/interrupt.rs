//! SIGINT and SIGTERM end every long command at any moment, and nothing is left behind.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oorandom::Rand64;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use support::{Scratch, finish, has_guests, heeding_ctrl_c, skip, start_telling, wait_until};

/// Signals to each command.
const MOMENTS: u64 = 20;
/// How long a command may take to end. The goal is a second; a busy machine is slower.
const AT_MOST: Duration = Duration::from_secs(20);
/// How long to wait for a result before the signal is sent anyway.
const RESULT_AT_MOST: Duration = Duration::from_secs(15);
/// Commands at a time. They mostly wait.
const AT_A_TIME: usize = 8;
/// The Debian release whose kernel the guests run.
const RELEASE: &str = "bookworm";
/// All processes of a command inherit this variable with a value of its own.
const MARK: &str = "KNEE_TEST_INTERRUPT";

/// A command that runs for longer than the signal takes to arrive.
struct Long {
    args: Vec<String>,
    /// The signals arrive within this many seconds.
    window: f64,
    /// Every fifth signal arrives after this file has content, if that does not take too long.
    result: Option<&'static str>,
    /// What the last message must contain.
    says: &'static str,
    /// Whether it may end before a late signal.
    may_end: bool,
}

fn long(args: &[&str], window: f64) -> Long {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    Long { args, window, result: None, says: "interrupted", may_end: false }
}

/// The commands, of which none depends on another.
fn commands(shared: &Scratch) -> Vec<Long> {
    let short = ["--interval", "0.05", "--warmup", "0.01"];
    let run = ["run", "mmap1", "unlink1", "context_switch1", "-t", "1,2", "-r", "9999"];
    let ab = ["ab", "--before", "sleep 0.05", "--after", "sleep 0.06 | cat", "-r", "9999"];
    let big = big_record(shared);
    let mut all = vec![
        Long {
            result: Some("record/samples.jsonl"),
            ..long(&[&run[..], &short, &["-o", "record"]].concat(), 1.0)
        },
        Long {
            result: Some("record/samples.jsonl"),
            ..long(&[&ab[..], &["-o", "record"]].concat(), 1.0)
        },
        long(&["compare"], 0.2),
        long(&["commute", "tests", "-o", "tests.jsonl"], 1.0),
        long(&["commute", "verify", "--dir", "work"], 1.0),
        long(&["commute", "matrix", "-o", "matrix.html"], 0.5),
        long(&["kernel", "fetch", RELEASE], 0.5),
        Long { may_end: true, ..long(&["machine", "measure"], 1.0) },
        Long { may_end: true, ..long(&["report", &big, "-o", "report.html"], 1.0) },
        Long { may_end: true, ..long(&["show", &big], 1.0) },
    ];
    let sampled = finish(&mut shared.knee(&["profile", "-d", "0.1", "-o", "c", "--", "true"]));
    if sampled.code == Some(0) {
        // It keeps the samples, and says where.
        let kept = |args: &[&str]| Long { says: "", ..long(args, 1.0) };
        all.extend([
            kept(&["profile", "getppid1", "-t", "1", "-d", "500", "-o", "c.json"]),
            kept(&["profile", "-o", "c.json", "--", "sleep", "500"]),
            kept(&["profile", "-a", "-o", "c.json"]),
            long(&["profile", "growth", "getppid1", "-t", "1,2", "-d", "500"], 1.0),
        ]);
    } else {
        skip("sampling", sampled.stderr);
    }
    if has_guests(RELEASE) {
        let check = ["commute", "check", "--kernel", RELEASE, "-o", "record"];
        let cost = ["commute", "cost", "--kernel", RELEASE, "--cpus", "2"];
        all.push(Long { result: Some("record/tests.jsonl"), ..long(&check, 5.0) });
        all.push(long(&cost, 5.0));
    }
    all
}

#[test]
fn a_signal_ends_every_command_at_any_moment_and_nothing_is_left() {
    let shared = Scratch::new();
    let commands = commands(&shared);
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let mounts_before = mounts();
    let next = AtomicUsize::new(0);
    let all = commands.len() * MOMENTS as usize;
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let nr = next.fetch_add(1, Ordering::Relaxed);
                    if nr >= all {
                        return;
                    }
                    // Commands alternate, so that those with guests do not all run at the same time.
                    interrupt(&commands[nr % commands.len()], (nr / commands.len()) as u64);
                }
            });
        }
    });
    assert_eq!(mounts(), mounts_before, "knee mounts nothing on this machine");
}

/// Starts a command, and sends the signal number `nr` to it.
fn interrupt(long: &Long, nr: u64) {
    let scratch = Scratch::new();
    let mark = scratch.path().display().to_string();
    let (sent, code) = if nr.is_multiple_of(2) { (Signal::INT, 130) } else { (Signal::TERM, 143) };
    let delay = long.window * Rand64::new(nr.into()).rand_float();
    let what = format!("{} {sent:?} after {delay:.2} s", long.args.join(" "));
    let messages = scratch.path().join("messages");
    let mut command = command(&scratch, long);
    // Ctrl-C reaches the whole group.
    command.env(MARK, &mark).process_group(0);
    let mut knee = start_telling(&mut command, File::create(&messages).unwrap().into());
    if !wait_for_watch(&mut knee) && !long.may_end {
        panic!("{what}: it ended early: {}", fs::read_to_string(&messages).unwrap());
    }
    if let Some(file) = long.result.filter(|_| nr % 5 == 4) {
        let file = scratch.path().join(file);
        let has_result = || fs::metadata(&file).is_ok_and(|file| file.len() > 0);
        let start = Instant::now();
        while !has_result() && start.elapsed() < RESULT_AT_MOST {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    std::thread::sleep(Duration::from_secs_f64(delay));
    let pid = Pid::from_child(&knee);
    // The child has not been reaped, so the number is still its own.
    let _ = match sent {
        Signal::INT => kill_process_group(pid, sent),
        _ => kill_process(pid, sent),
    };
    let ended = wait_at_most(&mut knee, AT_MOST, &what);
    let said = fs::read_to_string(&messages).unwrap();
    let has_ended_before = long.may_end && ended.code() == Some(0);
    assert!(ended.code() == Some(code) || has_ended_before, "{what}: {ended}: {said}");
    assert!(said.contains(long.says) || has_ended_before, "{what}: {said}");
    let has_record =
        ["run.json", "check.json"].iter().any(|file| scratch.record().join(file).exists());
    assert!(!has_record || said.contains("to continue: knee "), "{what}: {said}");
    wait_until(&format!("{what}: no process is left"), || marked(&mark).is_empty());
    wait_until(&format!("{what}: no temporary file is left"), || {
        temporary_files(scratch.path()).is_empty()
    });
}

fn command(scratch: &Scratch, long: &Long) -> Command {
    let args: Vec<&str> = long.args.iter().map(String::as_str).collect();
    let mut command = scratch.knee(&args);
    if args == ["compare"] {
        // Nobody writes to the other end.
        command.stdin(Stdio::piped());
    }
    if args[0] == "kernel" {
        // A mirror that never answers.
        let bin = scratch.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in ["apt-get", "apt-cache"] {
            let file = bin.join(name);
            fs::write(&file, "#!/bin/sh\nexec sleep 600\n").unwrap();
            fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        }
        command.env("XDG_CACHE_HOME", scratch.path().join("cache"));
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    }
    command
}

/// Waits until knee watches for signals: before that, the kernel's default action ends it. Returns
/// whether knee still runs.
fn wait_for_watch(knee: &mut Child) -> bool {
    let status = format!("/proc/{}/status", knee.id());
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if mask & (1 << (Signal::INT.as_raw() - 1)) != 0 {
            return true;
        }
        if knee.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait_at_most(knee: &mut Child, limit: Duration, what: &str) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = knee.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > limit {
            let _ = knee.kill();
            panic!("{what}: knee still runs after {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that knee started, by the variable in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let mark = format!("{MARK}={mark}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_mark = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    numbers.filter(has_mark).collect()
}

/// Files below `dir` that knee removes when it ends.
fn temporary_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // A directory may be removed while it is read.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("knee-work.") || name.starts_with(".tmp") {
            found.push(entry.path());
        } else if entry.path().is_dir() {
            found.extend(temporary_files(&entry.path()));
        }
    }
    found
}

/// A record whose samples take seconds to read.
fn big_record(scratch: &Scratch) -> String {
    const ROUNDS: u64 = 3000;
    const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/record");
    let dir = scratch.path().join("big");
    fs::create_dir(&dir).unwrap();
    let read = |file| fs::read_to_string(Path::new(RECORD).join(file)).unwrap();
    let mut run: serde_json::Value = serde_json::from_str(&read("run.json")).unwrap();
    run["request"]["rounds"] = ROUNDS.into();
    fs::write(dir.join("run.json"), run.to_string()).unwrap();
    let samples = read("samples.jsonl");
    let first: Vec<&str> = samples.lines().filter(|line| line.contains("\"round\":0,")).collect();
    let first = first.join("\n") + "\n";
    let rounds = (0..ROUNDS).map(|nr| first.replace("\"round\":0,", &format!("\"round\":{nr},")));
    fs::write(dir.join("samples.jsonl"), rounds.collect::<String>()).unwrap();
    dir.to_str().unwrap().to_owned()
}

#[test]
fn a_signal_ends_a_command_whose_output_nobody_reads() {
    let scratch = Scratch::new();
    for nr in 0..MOMENTS {
        let mut command = scratch.knee(&["commute", "tests"]);
        let command = heeding_ctrl_c(&mut command).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut knee = command.spawn().unwrap();
        let output = knee.stdout.take().unwrap();
        let size = rustix::pipe::fcntl_getpipe_size(&output).unwrap() as u64;
        // A write that does not fit waits. The last page may have room.
        let mut last = 0;
        wait_until("the pipe is full", || {
            let before = std::mem::replace(&mut last, rustix::io::ioctl_fionread(&output).unwrap());
            last > size / 2 && last == before
        });
        let (sent, code) = if nr % 2 == 0 { (Signal::INT, 130) } else { (Signal::TERM, 143) };
        kill_process(Pid::from_child(&knee), sent).unwrap();
        let ended = wait_at_most(&mut knee, AT_MOST, "a command with a full pipe");
        assert_eq!(ended.code(), Some(code));
    }
}

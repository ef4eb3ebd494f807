//! Programs under keepers. A keeper is this program again, which `main` has to know, so these tests do without
//! the harness of `cargo test`.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use knee_host::clock::seconds;
use knee_host::process::keeper::{self, Kept, Program};
use knee_host::process::{CpuClock, wait_readable};
use rustix::process::{Signal, geteuid, getpid, kill_process};
use rustix::time::ClockId;

/// Longer than a busy machine needs for anything here.
const LONG: Duration = Duration::from_secs(120);
/// A shell that starts a daemon: in a session of its own, with a parent that has ended, deaf to SIGTERM.
/// It ends when the daemon runs.
const DAEMON: &str = "setsid sh -c 'trap \"\" TERM; sh -c \"echo \\$\\$ >new; mv new pid; exec sleep 600\" &' & \
                      until [ -e pid ] && grep -qx sleep /proc/$(cat pid)/comm; do sleep 0.01; done";

/// The argument with which this program starts a program under a keeper and is killed. A directory follows.
const KILLED: &str = "killed";

/// A name and a test, which gets an empty directory.
type Test = (&'static str, fn(&Path));

const TESTS: [Test; 13] = [
    ("status_and_output_are_those_of_the_program", status_and_output),
    ("the_end_of_a_program_is_not_when_knee_asks_for_it", end_time),
    ("a_program_that_cannot_be_executed_is_an_error", missing_program),
    ("a_held_program_does_not_run_before_it_is_released", held),
    ("a_program_is_asked_to_end_before_it_is_killed", asked),
    ("a_program_that_ignores_the_signal_is_killed", deaf),
    ("a_program_is_asked_to_end_after_knee_was_killed", outlives_knee),
    ("a_program_that_stops_its_keeper_is_killed", stops_keeper),
    ("a_daemon_is_named_and_killed", daemon),
    ("a_program_can_run_as_another_user", other_user),
    ("another_user_sees_neither_files_nor_variables_of_knee", other_user_sees_nothing),
    ("another_user_gets_no_keys", other_user_has_no_keys),
    ("the_cpu_time_of_a_program_is_that_of_a_child", cpu_time),
];

fn main() {
    keeper::enable();
    if let Some(dir) = std::env::args_os().skip_while(|word| word != KILLED).nth(1) {
        killed(Path::new(&dir));
    }
    for (name, test) in TESTS {
        println!("test {name} ...");
        test(tempfile::tempdir().unwrap().path());
    }
}

fn shell(script: &str, dir: &Path) -> Program {
    Program::new(["sh", "-c", script]).dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// Waits until the program has written something.
fn wait_for_output(kept: &Kept) {
    assert!(wait_readable(kept.stdout.as_ref().unwrap(), LONG));
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

fn status_and_output(dir: &Path) {
    let script = "pwd; echo $WORD; echo failure >&2; exit 3";
    let mut kept = shell(script, dir).env("WORD", "hello").start().unwrap();
    assert!(wait_readable(kept.exit(), LONG));
    assert!(!kept.is_running());
    assert_eq!(kept.exit_status().unwrap().code(), Some(3));
    let (mut stdout, mut stderr) = (String::new(), String::new());
    kept.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    kept.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stdout, format!("{}\nhello\n", dir.canonicalize().unwrap().display()));
    assert_eq!(stderr, "failure\n");
    let end = kept.end().unwrap();
    assert_eq!((end.status.code(), end.left), (Some(3), vec![]));
}

fn end_time(dir: &Path) {
    let mut kept = shell("true", dir).start().unwrap();
    assert!(wait_readable(kept.report(), LONG));
    let reported = seconds(ClockId::MonotonicRaw);
    // As if Ctrl-Z had stopped this process.
    thread::sleep(Duration::from_millis(1));
    let (status, at) = kept.ended().unwrap();
    assert!(status.success() && at > 0.0 && at <= reported, "{at} {reported}");
}

fn missing_program(dir: &Path) {
    let mut kept = Program::new(["/does/not/exist"]).start().unwrap();
    assert_eq!(kept.exit_status().unwrap_err().kind(), io::ErrorKind::NotFound);
    let missing = shell("true", &dir.join("missing")).start().map(drop).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

fn held(dir: &Path) {
    let kept = shell("touch ran", dir).prepare().unwrap().held().unwrap();
    assert!(kept.is_running());
    let stat = fs::read_to_string(format!("/proc/{}/stat", kept.id().as_raw_pid())).unwrap();
    assert!(!stat.contains("(sh)"), "{stat}");
    drop(kept);
    assert!(!dir.join("ran").exists());
}

fn asked(dir: &Path) {
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let kept = shell(script, dir).start().unwrap();
    wait_for_output(&kept);
    let end = kept.stop(Signal::TERM, LONG).unwrap();
    assert_eq!(end.status.code(), Some(7));
}

fn deaf(dir: &Path) {
    let script = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
    let kept = shell(script, dir).start().unwrap();
    wait_for_output(&kept);
    let pid = kept.id().as_raw_pid().to_string();
    let end = kept.stop(Signal::TERM, Duration::from_millis(50)).unwrap();
    assert!(!end.status.success());
    assert!(!is_alive(&pid));
}

fn outlives_knee(dir: &Path) {
    let killed = Command::new(std::env::current_exe().unwrap()).arg(KILLED).arg(dir).status();
    assert_eq!(killed.unwrap().signal(), Some(libc::SIGKILL));
    let until = Instant::now() + LONG;
    while !dir.join("removed").exists() {
        assert!(Instant::now() < until, "the program could not remove what it had");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a program that needs a moment after its signal, and is killed.
fn killed(dir: &Path) -> ! {
    let script = "trap 'sleep 0.2; >removed; exit' TERM; sleep 600 & echo ready; wait";
    let kept = shell(script, dir).asked_to_end_by(Signal::TERM, LONG).start().unwrap();
    wait_for_output(&kept);
    kill_process(getpid(), Signal::KILL).unwrap();
    unreachable!("it was killed");
}

fn stops_keeper(dir: &Path) {
    type End = fn(Kept);
    let ends: [End; 2] = [drop, |kept| drop(kept.end().unwrap())];
    for end in ends {
        let script = "echo ready; while :; do kill -STOP $PPID; done";
        let kept = shell(script, dir).start().unwrap();
        wait_for_output(&kept);
        let pid = kept.id().as_raw_pid().to_string();
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            end(kept);
            sender.send(())
        });
        assert_eq!(ended.recv_timeout(LONG), Ok(()), "knee waits for a stopped keeper");
        assert!(!is_alive(&pid));
    }
}

fn daemon(dir: &Path) {
    let mut kept = shell(DAEMON, dir).start().unwrap();
    assert!(kept.exit_status().unwrap().success());
    let daemon = fs::read_to_string(dir.join("pid")).unwrap();
    assert!(is_alive(&daemon));
    assert_eq!(kept.end().unwrap().left, ["sleep"]);
    assert!(!is_alive(&daemon));

    fs::remove_file(dir.join("pid")).unwrap();
    let kept = shell(&format!("{DAEMON}; echo ready; sleep 600"), dir).start().unwrap();
    wait_for_output(&kept);
    let daemon = fs::read_to_string(dir.join("pid")).unwrap();
    assert!(is_alive(&daemon));
    drop(kept);
    assert!(!is_alive(&daemon));
}

fn other_user(_: &Path) {
    if !geteuid().is_root() {
        return knee_host::skip::skip("root", "only root can become another user");
    }
    let program = shell("id -u; id -g; id -G; sleep 600", Path::new("/")).user(65534, 65533);
    let mut kept = program.prepare().unwrap().held().unwrap();
    // The user could stop it before knee can wait for its end.
    let status = fs::read_to_string(format!("/proc/{}/status", kept.id().as_raw_pid())).unwrap();
    assert!(status.contains("\nUid:\t0\t"), "{status}");
    kept.release().unwrap();
    let mut ids = String::new();
    while ids.lines().count() < 3 {
        wait_for_output(&kept);
        // Reads do not wait for the end of the output.
        let _ = kept.stdout.as_mut().unwrap().read_to_string(&mut ids);
    }
    assert_eq!(ids, "65534\n65533\n65533\n");
    let pid = kept.id().as_raw_pid().to_string();
    drop(kept);
    assert!(!is_alive(&pid));
}

fn other_user_sees_nothing(_: &Path) {
    if !geteuid().is_root() {
        return knee_host::skip::skip("root", "only root can become another user");
    }
    let secret = tempfile::Builder::new().prefix("secret-").tempfile().unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    // The shell opens nothing but what it inherits. `env` has the variables of the shell.
    let script = "env | cut -d= -f1 | tr '\\n' ' '; ls -l /proc/$$/fd | grep -c secret-; echo end";
    let program = || shell(script, Path::new("/")).env("GIVEN", "1");
    let own = printed(program());
    assert!(own.contains("CARGO_MANIFEST_DIR ") && own.ends_with("1\nend\n"), "{own}");
    let other = printed(program().user(65534, 65533));
    assert!(other.contains("GIVEN ") && other.contains("PATH "), "{other}");
    assert!(!other.contains("CARGO_MANIFEST_DIR") && other.ends_with("0\nend\n"), "{other}");
}

/// What a program prints up to the line `end`.
fn printed(program: Program) -> String {
    let mut kept = program.start().unwrap();
    let mut printed = String::new();
    while !printed.ends_with("end\n") {
        wait_for_output(&kept);
        let _ = kept.stdout.as_mut().unwrap().read_to_string(&mut printed);
    }
    printed
}

fn other_user_has_no_keys(_: &Path) {
    if !geteuid().is_root() {
        return knee_host::skip::skip("root", "only root can become another user");
    }
    // SAFETY: the calls read only strings, which end with NUL, and one byte.
    let key = unsafe {
        let keyring = std::ptr::null::<libc::c_char>();
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, keyring);
        let (kind, name, value) = (c"user".as_ptr(), c"knee-secret".as_ptr(), b"s".as_ptr());
        libc::syscall(libc::SYS_add_key, kind, name, value, 1, libc::KEY_SPEC_SESSION_KEYRING)
    };
    if key == -1 {
        return knee_host::skip::skip("keyrings", "this kernel or container has no keyrings");
    }
    let script = "grep -c knee-secret /proc/keys; echo end";
    let own = printed(shell(script, Path::new("/")));
    let other = printed(shell(script, Path::new("/")).user(65534, 65533));
    assert_eq!((own.as_str(), other.as_str()), ("1\nend\n", "0\nend\n"));
}

fn cpu_time(dir: &Path) {
    let of_children = || {
        // SAFETY: zero bytes are a valid `rusage`, and the call only writes to it.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
            usage
        };
        let duration = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        duration(usage.ru_utime) + duration(usage.ru_stime)
    };
    let before = of_children();
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let mut kept = shell(script, dir).start().unwrap();
    assert!(kept.exit_status().unwrap().success());
    let used = CpuClock::of(kept.id().as_raw_pid()).unwrap().read().unwrap();
    drop(kept);
    assert!(used > Duration::ZERO);
    assert!(of_children() - before + Duration::from_micros(10) >= used);
}

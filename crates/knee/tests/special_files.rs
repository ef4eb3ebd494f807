//! FIFOs, devices and other users' files where knee expects regular files: nothing waits, and Ctrl-C works.

mod support;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::process::Command;

use knee_host::process::Tied;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::process::{Signal, geteuid};
use support::{Finished, Scratch, finish, signal, skip, start, wait_until};

fn fifo(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

/// Runs knee to its end. If it waits for a FIFO, it is killed after a minute, and has no exit status of its own.
fn finish_in_time(knee: &Command) -> Finished {
    let mut timeout = Command::new("timeout");
    timeout.args(["-s", "KILL", "60"]).arg(knee.get_program()).args(knee.get_args());
    timeout.current_dir(knee.get_current_dir().unwrap());
    for (name, value) in knee.get_envs() {
        match value {
            Some(value) => timeout.env(name, value),
            None => timeout.env_remove(name),
        };
    }
    finish(&mut timeout)
}

#[test]
fn a_fifo_in_the_work_directory_does_not_stop_a_run() {
    let scratch = Scratch::new();
    let planted = scratch.work().join("knee-work.planted");
    fs::create_dir(&planted).unwrap();
    fifo(&planted.join(".lock"));
    finish_in_time(&scratch.run(&["getppid1", "-t", "1", "-m", "processes"])).assert_code(0);
    assert_eq!(scratch.leftovers(), [planted]);
}

#[test]
fn a_record_with_a_fifo_is_refused() {
    let scratch = Scratch::new();
    let record = scratch.path().join("record");
    fs::create_dir(&record).unwrap();
    fifo(&record.join("run.json"));
    let says = "cannot read record/run.json: it is a FIFO, not a regular file";
    for args in
        [&["show", "record"][..], &["run", "--resume", "record"], &["ab", "--resume", "record"]]
    {
        finish_in_time(&scratch.knee(args)).assert_code(3).assert_stderr_has(says);
    }
    fifo(&record.join("check.json"));
    let matrix = finish_in_time(&scratch.knee(&["commute", "matrix", "record"]));
    assert!(matrix.code == Some(2) || matrix.code == Some(3), "{matrix:#?}");

    fs::remove_dir_all(&record).unwrap();
    support::copy(&scratch, "record", |_| (), |_| ());
    fs::remove_file(record.join("samples.jsonl")).unwrap();
    fifo(&record.join("samples.jsonl"));
    finish_in_time(&scratch.knee(&["show", "record"]))
        .assert_code(3)
        .assert_stderr_has("samples.jsonl: it is a FIFO");
}

#[test]
fn a_fifo_in_place_of_a_directory_or_a_plugin_is_refused() {
    let scratch = Scratch::new();
    fifo(&scratch.path().join("fifo"));
    let resume = finish_in_time(&scratch.knee(&["run", "--resume", "fifo"]));
    resume.assert_code(3).assert_stderr_has("fifo contains no run.json");
    let plugin = finish_in_time(&scratch.run(&["--plugin", "fifo"]));
    plugin.assert_code(3).assert_stderr_has("it is a FIFO, not a regular file");
    fifo(&scratch.path().join("list.csv"));
    finish_in_time(&scratch.knee(&["fit", "."])).assert_code(3).assert_stderr_has("it is a FIFO");
}

#[test]
fn a_fifo_in_place_of_the_noise_floor_is_ignored_with_a_warning() {
    let scratch = Scratch::new();
    support::copy(&scratch, "record", |_| (), |_| ());
    fs::create_dir_all(scratch.path().join("state/knee")).unwrap();
    fifo(&scratch.path().join("state/knee/noise.json"));
    // This record lists a testcase that could not run.
    finish_in_time(&scratch.knee(&["show", "record"]))
        .assert_code(3)
        .assert_stdout_has("mmap1")
        .assert_stderr_has("ignoring the saved noise floor")
        .assert_stderr_has("it is a FIFO");
}

#[test]
fn numbers_and_captures_may_come_from_a_process_substitution() {
    let scratch = Scratch::new();
    let bash = |script: &str| {
        let knee = scratch.knee(&[]);
        let mut bash = Command::new("bash");
        bash.args(["-c", script, env!("CARGO_BIN_EXE_knee")]).current_dir(scratch.path());
        bash.envs(knee.get_envs().filter_map(|(name, value)| Some((name, value?))));
        finish(&mut bash)
    };
    bash("\"$0\" compare <(seq 1 9) <(seq 11 19)").assert_code(0);
    bash("\"$0\" profile show <(printf 'program;main 3\\n')")
        .assert_code(0)
        .assert_stdout_has("main");
    let other = bash("\"$0\" profile show <(echo nothing)");
    other.assert_code(3).assert_stderr_has("it contains no samples");
}

#[test]
fn an_output_fifo_that_no_program_reads_is_refused_before_the_measurement() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("folded"), "program;main 3\n").unwrap();
    fifo(&scratch.path().join("fifo"));
    let sample = ["profile", "getppid1", "-t", "1", "-d", "3600", "-o", "fifo"];
    for args in [
        &sample[..],
        &["profile", "show", "folded", "-o", "fifo"],
        &["commute", "tests", "stat", "stat", "-o", "fifo"],
    ] {
        let refused = finish_in_time(&scratch.knee(args));
        let says = "cannot write fifo: no program reads this FIFO; start its reader first";
        refused.assert_code(3).assert_stderr_has(says);
    }
}

#[test]
fn ctrl_c_ends_the_wait_for_a_fifo_that_the_user_named() {
    let scratch = Scratch::new();
    let path = scratch.path().join("fifo");
    fifo(&path);
    for args in [
        &["compare", "fifo", "fifo"][..],
        &["profile", "show", "fifo"],
        &["commute", "verify", "--tests", "fifo"],
        &["commute", "check", "--tests", "fifo"],
    ] {
        let mut knee = Tied(start(&mut scratch.knee(args)));
        let mut writer = None;
        wait_until("knee has opened the FIFO", || {
            // This fails as long as there is no reader. The children of other tests must not inherit the writer: the
            // next knee would find it, read an end of file and stop before we look.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            writer = open(&path, flags, Mode::empty()).ok();
            writer.is_some()
        });
        signal(&knee.0, Signal::INT);
        wait_until("Ctrl-C ends knee", || knee.0.try_wait().unwrap().is_some());
        drop(writer);
    }
}

/// Opens a file with a lease: the kernel lets nobody else open the file until this process releases it, or until
/// 45 s have passed. `None` where the file system has no leases.
fn leased(path: &Path) -> Option<fs::File> {
    let file = fs::File::open(path).unwrap();
    // SAFETY: SIGIO, by which the kernel asks for the file, runs none of our code, and neither does fcntl.
    let taken = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    (taken == 0).then_some(file)
}

#[test]
fn a_file_with_a_lease_is_refused_and_not_waited_for() {
    let scratch = Scratch::new();
    let path = scratch.path().join("file");
    fs::write(&path, "program;main 3\n").unwrap();
    for args in [&["profile", "show", "file"][..], &["compare", "file", "file"]] {
        let Some(file) = leased(&path) else {
            return skip("leases", "this file system does not support leases");
        };
        finish_in_time(&scratch.knee(args))
            .assert_code(3)
            .assert_stderr_has("file: another program holds a lease on it; end that program");
        drop(file);
    }
}

#[test]
fn an_endless_file_is_refused() {
    let scratch = Scratch::new();
    let endless = finish_in_time(&scratch.knee(&["profile", "show", "/dev/zero"]));
    endless.assert_code(3).assert_stderr_has("/dev/zero: it has a line of more than 64 MiB");
}

#[test]
fn a_default_directory_behind_a_link_of_another_user_is_refused() {
    if !geteuid().is_root() {
        return skip("root", "only root can give a link to another user");
    }
    let scratch = Scratch::new();
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for (kind, name, args) in [
        ("link", "runs", &["run", "getppid1", "-m", "threads", "-t", "1", "-r", "1"][..]),
        (
            "directory",
            "profiles",
            &["profile", "getppid1", "-m", "threads", "-t", "1", "-d", "0.1"],
        ),
    ] {
        let link = scratch.path().join(name);
        symlink(&elsewhere, &link).unwrap();
        lchown(&link, Some(65534), None).unwrap();
        let refused = finish(&mut scratch.knee(args));
        refused.assert_code(3).assert_stderr_has(&format!("cannot write to the {kind} {name}; "));
        refused.assert_stderr_has("it belongs to user 65534");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        // One's own link may lead anywhere.
        lchown(&link, Some(0), None).unwrap();
        finish(&mut scratch.knee(args)).assert_code(0);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
        fs::remove_dir_all(&elsewhere).unwrap();
        fs::create_dir(&elsewhere).unwrap();
    }
}

#[test]
fn a_named_directory_behind_a_link_of_another_user_is_refused() {
    if !geteuid().is_root() {
        return skip("root", "only root can give a link to another user");
    }
    let scratch = Scratch::new();
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let link = scratch.path().join("link");
    symlink(&elsewhere, &link).unwrap();
    lchown(&link, Some(65534), None).unwrap();
    let growth = ["profile", "growth", "getppid1", "-m", "threads", "-t", "1,2", "-d", "0.1"];
    for args in [&["generate", "man", "link"][..], &[&growth[..], &["-o", "link"]].concat()] {
        let refused = finish(&mut scratch.knee(args));
        refused.assert_code(3).assert_stderr_has("link: it belongs to user 65534");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}

//! `knee jobs run --on ssh:…` with a private sshd. The tests are skipped, with a reason, if OpenSSH's server or
//! client is missing.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use support::jobs::{assert_shards_equal_the_whole, read};
use support::sshd::Server;
use support::{Finished, Scratch, finish, processes_in, signal, start_telling, wait_until};

/// `knee jobs run list -o out` with the ssh of `server`, for a list with these lines.
fn jobs(server: &Server, lines: &[&str], args: &[&str]) -> Command {
    let mut command = support::jobs::jobs(&server.scratch, lines, args);
    server.use_in(&mut command);
    command
}

#[test]
fn results_of_jobs_on_hosts_are_copied_and_nothing_is_left_there() {
    let Some(server) = Server::start() else { return };
    // More jobs at a time than one connection of sshd allows.
    let lines: Vec<String> = (1..=30)
        .map(|nr| format!("mkdir -p $KNEE_OUT/a && echo {nr} >\"$KNEE_OUT/a/$KNEE_JOB\"; echo log"))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let done = finish(&mut jobs(&server, &lines, &["--on", "ssh:alpha,beta", "-j", "10"]));
    done.assert_code(0).assert_stdout_has("30 of 30 jobs done");
    for nr in 1..=30 {
        assert_eq!(read(&server.scratch, &format!("results/a/{nr}")), format!("{nr}\n"));
        assert_eq!(read(&server.scratch, &format!("jobs/{nr}.log")), "log\n");
    }
    assert_eq!(server.directories(), [] as [PathBuf; 0]);
}

#[test]
fn a_host_that_does_not_answer_is_reported_and_the_others_run_its_jobs() {
    let Some(server) = Server::start() else { return };
    let lines = ["true", "exit 5"];
    let run = |hosts: &str, more: &[&str]| {
        finish(&mut jobs(&server, &lines, &[&["--on", hosts, "--retries", "0"], more].concat()))
    };
    run("ssh:gone", &[])
        .assert_code(3)
        .assert_stderr_has("gone runs no jobs: ssh: connect to host")
        .assert_stderr_has("none of the hosts can run jobs");
    run("ssh:gone,alpha", &["--resume"])
        .assert_code(4)
        .assert_stderr_has("gone runs no jobs")
        .assert_stdout_has("job 2 exited with status 5")
        .assert_stdout_has("1 of 2 jobs done, 1 failed");
}

/// Starts a job that runs until it is ended, and waits until it runs.
fn long_job(server: &Server) -> Child {
    let begun = server.scratch.path().join("begun");
    let line = format!("cd {}; touch begun; sleep 300", server.scratch.path().display());
    let lines = [line.as_str()];
    let mut command = jobs(server, &lines, &["--on", "ssh:alpha", "-j", "1"]);
    let knee = start_telling(&mut command, Stdio::piped());
    wait_until("the job runs", || begun.exists());
    knee
}

#[test]
fn ctrl_c_ends_jobs_on_hosts_and_removes_their_files() {
    let Some(server) = Server::start() else { return };
    let knee = long_job(&server);
    signal(&knee, Signal::INT);
    let output = knee.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Finished { code: output.status.code(), stdout: String::new(), stderr }
        .assert_code(130)
        .assert_stderr_has("to continue: knee jobs run list -o out --on ssh:alpha -j 1 --resume");
    wait_until("no job is left", || processes_in(server.scratch.path()).is_empty());
    wait_until("no directory is left", || server.directories().is_empty());
}

#[test]
fn jobs_on_hosts_end_if_knee_is_killed() {
    let Some(server) = Server::start() else { return };
    let mut knee = long_job(&server);
    signal(&knee, Signal::KILL);
    knee.wait().unwrap();
    wait_until("no job is left", || processes_in(server.scratch.path()).is_empty());
    wait_until("no directory is left", || server.directories().is_empty());
}

#[test]
fn shards_of_a_check_on_hosts_equal_the_check() {
    let Some(server) = Server::start() else { return };
    assert_shards_equal_the_whole(&server.scratch, |list| {
        let on = ["--on", "ssh:alpha,beta", "-j", "1"];
        let mut command = server.scratch.knee(&["jobs", "run", list, "-o", "out"]);
        finish(server.use_in(&mut command).args(on))
    });
}

/// A program `ssh` in a directory of the scratch directory. It runs commands here, and `pack` in place of tar.
fn hostile_ssh(scratch: &Scratch, pack: &str) -> PathBuf {
    let bin = scratch.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let here = scratch.path().display();
    let script = format!(
        "#!/bin/sh\nfor command; do :; done\ncase $command in\n\
         *mktemp*) mkdir {here}/host; echo knee-host 0 - {here}/host; exec cat >{here}/held;;\n\
         tar*) {pack};;\n\
         *) exec sh -c \"$command\";;\nesac\n"
    );
    fs::write(bin.join("ssh"), script).unwrap();
    fs::set_permissions(bin.join("ssh"), Permissions::from_mode(0o755)).unwrap();
    bin
}

#[test]
fn results_that_contain_a_link_are_refused() {
    let scratch = Scratch::new();
    let pack = format!(
        "cd {}/host/1; ln -s / results/way; exec tar -cf - results jobs",
        scratch.path().display()
    );
    let bin = hostile_ssh(&scratch, &pack);
    let mut command = support::jobs::jobs(&scratch, &["true"], &["--on", "ssh:host"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    finish(&mut command)
        .assert_code(3)
        .assert_stderr_has("results/way is neither a file nor a directory");
    assert_eq!(fs::read_dir(scratch.path().join("out/results")).unwrap().count(), 0);
}

#[test]
fn ctrl_c_ends_the_wait_for_results_that_do_not_arrive() {
    let scratch = Scratch::new();
    let bin = hostile_ssh(&scratch, "touch asked; exec sleep 600");
    let mut command = support::jobs::jobs(&scratch, &["true"], &["--on", "ssh:host"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let mut knee = start_telling(&mut command, Stdio::null());
    wait_until("knee waits for the results", || scratch.path().join("asked").exists());
    signal(&knee, Signal::INT);
    let mut status = None;
    wait_until("knee ends", || {
        status = knee.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
}

//! `knee jobs run --on slurm` with a private Slurm of one node. The tests are skipped, with a reason, if Slurm is
//! missing (package slurm-wlm).

mod support;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use support::jobs::{assert_shards_equal_the_whole, jobs};
use support::{Finished, Scratch, finish, processes_in, signal, skip, start_telling, wait_until};

/// A controller and a node.
struct Slurm {
    daemons: Vec<Child>,
    scratch: Scratch,
}

impl Slurm {
    /// `None`, with a printed reason, if Slurm is missing.
    fn start() -> Option<Self> {
        for daemon in ["slurmctld", "slurmd"] {
            if !Path::new("/usr/sbin").join(daemon).exists() {
                skip("slurm", format_args!("{daemon} is missing"));
                return None;
            }
        }
        if !rustix::process::geteuid().is_root() {
            skip("slurm", "slurmd runs jobs of other users, so it needs root");
            return None;
        }
        let scratch = Scratch::new();
        let here = scratch.path().display();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (of_controller, of_node) = (free(), free());
        let configuration = format!(
            "ClusterName=knee\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={of_controller}\n\
             SlurmdPort={of_node}\nAuthType=auth/none\nCredType=cred/none\nSlurmUser=root\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool\n\
             SlurmctldPidFile={here}/slurmctld.pid\nSlurmdPidFile={here}/slurmd.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             MailProg=/bin/true\nKillWait=1\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=all Nodes={host} Default=YES State=UP\n"
        );
        for dir in ["state", "spool"] {
            fs::create_dir(scratch.path().join(dir)).unwrap();
        }
        fs::write(scratch.path().join("slurm.conf"), configuration).unwrap();
        let daemon = |name: &str| {
            let mut daemon = Command::new(Path::new("/usr/sbin").join(name));
            daemon.args(["-D", "-f"]).arg(scratch.path().join("slurm.conf")).current_dir("/");
            let log = || File::create(scratch.path().join(format!("{name}.log"))).unwrap();
            daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log());
            daemon.spawn().unwrap()
        };
        let slurm = Self { daemons: vec![daemon("slurmctld"), daemon("slurmd")], scratch };
        let is_idle = || {
            let mut sinfo = Command::new("sinfo");
            let sinfo = slurm.use_in(sinfo.args(["-h", "-o", "%T"])).output().unwrap();
            sinfo.stdout.starts_with(b"idle")
        };
        wait_until("the node is idle", is_idle);
        Some(slurm)
    }

    fn use_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("SLURM_CONF", self.scratch.path().join("slurm.conf"))
    }

    fn jobs(&self, lines: &[&str], args: &[&str]) -> Command {
        let mut command = jobs(&self.scratch, lines, &[&["--on", "slurm"], args].concat());
        self.use_in(&mut command);
        command
    }

    /// The tasks that wait or run.
    fn tasks(&self) -> String {
        let mut squeue = Command::new("squeue");
        let tasks = self.use_in(squeue.arg("-h")).output().unwrap();
        String::from_utf8(tasks.stdout).unwrap()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["slurmctld.log", "slurmd.log"] {
                let log = fs::read_to_string(self.scratch.path().join(name));
                println!("{name}: {}", log.unwrap_or_default());
            }
        }
        // slurmd first: it waits for the controller.
        for daemon in self.daemons.iter_mut().rev() {
            signal(daemon, Signal::TERM);
            let _ = daemon.wait();
        }
    }
}

#[test]
fn an_array_job_of_slurm_equals_the_check_test_by_test() {
    let Some(slurm) = Slurm::start() else { return };
    assert_shards_equal_the_whole(&slurm.scratch, |list| {
        let mut command = slurm.scratch.knee(&["jobs", "run", list, "-o", "out", "--on", "slurm"]);
        finish(slurm.use_in(&mut command))
    });
}

#[test]
fn a_failed_task_of_slurm_is_repeated() {
    let Some(slurm) = Slurm::start() else { return };
    let lines = ["true", "test -e ran || { touch ran; exit 3; }", "echo broken; exit 7"];
    finish(&mut slurm.jobs(&lines, &["--retries", "1", "-j", "1", "--exclusive"]))
        .assert_code(4)
        .assert_stdout_has("job 3 exited with status 7: broken")
        .assert_stdout_has("2 of 3 jobs done, 1 failed");
}

#[test]
fn ctrl_c_cancels_the_array_and_resume_continues_after_a_kill() {
    let Some(slurm) = Slurm::start() else { return };
    let lines = ["true", "cd .; touch begun; test -e go || sleep 300; test -e go"];
    let file = |name: &str| slurm.scratch.path().join(name);
    let is_under_way = || file("begun").exists() && file("out/jobs/1.status").exists();
    let knee = start_telling(&mut slurm.jobs(&lines, &[]), Stdio::piped());
    wait_until("the array runs", is_under_way);
    signal(&knee, Signal::INT);
    let output = knee.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Finished { code: output.status.code(), stdout: String::new(), stderr }
        .assert_code(130)
        .assert_stderr_has("to continue: knee jobs run list -o out --on slurm --resume");
    assert_eq!(slurm.tasks(), "");

    fs::remove_file(file("begun")).unwrap();
    let mut killed = start_telling(&mut slurm.jobs(&lines, &["--resume"]), Stdio::null());
    wait_until("the array runs", is_under_way);
    signal(&killed, Signal::KILL);
    killed.wait().unwrap();
    // The array outlives knee. Resuming cancels its running job, which would never end.
    fs::remove_file(file("begun")).unwrap();
    let resumed = start_telling(&mut slurm.jobs(&lines, &["--resume"]), Stdio::piped());
    wait_until("the second array runs", is_under_way);
    fs::write(file("go"), "").unwrap();
    signal(&resumed, Signal::INT);
    drop(resumed.wait_with_output().unwrap());
    finish(&mut slurm.jobs(&lines, &["--resume"]))
        .assert_code(0)
        .assert_stdout_has("2 of 2 jobs done");
    assert_eq!(slurm.tasks(), "");
    wait_until("no job is left", || {
        processes_in(slurm.scratch.path()).iter().all(|process| !process.contains("sleep"))
    });
}

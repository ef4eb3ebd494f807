//! The CPU time that the tasks of a round have used.

use std::fs;

use libc::clockid_t;
use rustix::process::Pid;

/// Reads the CPU-time clocks of the processes of a round. The kernel updates the clock of a running
/// thread at each timer tick, so a reading is too low by up to one tick per CPU.
pub(crate) struct TaskClocks {
    processes: Vec<(Pid, clockid_t)>,
    before: f64,
}

impl TaskClocks {
    /// Watches `processes`. `None` if a clock cannot be read.
    pub(crate) fn watch(processes: &[Pid]) -> Option<Self> {
        let clock = |&pid: &Pid| Some((pid, clock_of(pid)?));
        let processes = processes.iter().map(clock).collect::<Option<Vec<_>>>()?;
        let mut clocks = Self { processes, before: 0.0 };
        clocks.before = clocks.read()?;
        Some(clocks)
    }

    /// CPU seconds of the processes, without their children.
    pub(crate) fn read(&self) -> Option<f64> {
        self.processes.iter().map(|&(_, clock)| seconds(clock)).sum()
    }

    /// CPU seconds since the last call.
    pub(crate) fn since_last(&mut self) -> Option<f64> {
        let now = self.read()?;
        Some(now - std::mem::replace(&mut self.before, now))
    }

    /// Whether a process has or had children, whose CPU time the clocks do not contain.
    pub(crate) fn have_children(&self) -> bool {
        self.processes.iter().any(|&(pid, _)| has_children(pid))
    }
}

fn clock_of(pid: Pid) -> Option<clockid_t> {
    let mut clock = 0;
    // SAFETY: the call only writes to `clock`, which outlives it.
    let error = unsafe { libc::clock_getcpuclockid(pid.as_raw_pid(), &mut clock) };
    (error == 0).then_some(clock)
}

fn seconds(clock: clockid_t) -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only writes to `time`, which outlives it.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

fn has_children(pid: Pid) -> bool {
    let pid = pid.as_raw_pid();
    // Fields 16 and 17 of proc_pid_stat(5): CPU time of children that have been waited for. They
    // follow the name of the program, which may contain blanks and parentheses.
    let waited_for = |stat: String| {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace().skip(13);
        Some(fields.next()? != "0" || fields.next()? != "0")
    };
    let had = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(waited_for);
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    had == Some(true) || threads.map(children).any(|list| list.is_ok_and(|list| !list.is_empty()))
}

/// CPU seconds of all children of this process that have been waited for, with those of their own
/// children.
pub(crate) fn of_reaped_children() -> f64 {
    // SAFETY: zero bytes are a valid `rusage`, and the call only writes to it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_and_its_children_are_told_apart() {
        let spawn = |script: &str| {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            shell.spawn().unwrap()
        };
        let watch = |child: &std::process::Child| {
            TaskClocks::watch(&[Pid::from_child(child)]).expect("the process exists")
        };
        let mut alone = spawn("echo; read x");
        let mut parent = spawn("sleep 60 & echo; read x; kill $!");
        for child in [&mut alone, &mut parent] {
            let mut byte = [0];
            let stdout = child.stdout.as_mut().unwrap();
            std::io::Read::read_exact(stdout, &mut byte).unwrap();
        }
        assert!(!watch(&alone).have_children());
        assert!(watch(&parent).have_children());
        assert!(watch(&alone).since_last().unwrap() >= 0.0);
        for mut child in [alone, parent] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        assert!(of_reaped_children() > 0.0);
    }
}

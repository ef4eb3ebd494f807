//! The CPU time that the tasks of a round have used.

use std::fs;

use knee_host::process::{CpuClock, Stat};
use rustix::process::Pid;

/// Reads the CPU-time clocks of the processes of a round.
pub(crate) struct TaskClocks {
    processes: Vec<(Pid, CpuClock)>,
    before: f64,
}

impl TaskClocks {
    /// Watches `processes`. `None` if a clock cannot be read.
    pub(crate) fn watch(processes: &[Pid]) -> Option<Self> {
        let clock = |&pid: &Pid| Some((pid, CpuClock::of(pid.as_raw_pid())?));
        let processes = processes.iter().map(clock).collect::<Option<Vec<_>>>()?;
        let mut clocks = Self { processes, before: 0.0 };
        clocks.before = clocks.read()?;
        Some(clocks)
    }

    /// CPU seconds of the processes, without their children.
    pub(crate) fn read(&self) -> Option<f64> {
        self.processes.iter().map(|(_, clock)| Some(clock.read()?.as_secs_f64())).sum()
    }

    /// CPU seconds since the last call.
    pub(crate) fn since_last(&mut self) -> Option<f64> {
        let now = self.read()?;
        Some(now - std::mem::replace(&mut self.before, now))
    }

    /// Whether a process has or had children, whose CPU time the clocks do not contain.
    pub(crate) fn have_children(&self) -> bool {
        self.processes.iter().any(|(pid, _)| has_children(pid.as_raw_pid()))
    }
}

fn has_children(pid: i32) -> bool {
    // CPU time of children that have been waited for.
    let had = |stat: Stat| [16, 17].into_iter().any(|field| stat.number(field) > Some(0));
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut children = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    Stat::read(pid).is_some_and(had) || children.any(|list| list.is_ok_and(|list| !list.is_empty()))
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

//! CPU time of a process and of all that it has started, by the clocks that the kernel has for each.
//!
//! Events that count it are put on a CPU and taken off with each thread, which threads feel that do little
//! but sleep and wake: a tenth of what context_switch1 does. Here nobody is counted who is dead and was
//! not waited for.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// CPU time between two points in time.
#[derive(Debug)]
pub(super) struct CpuTime {
    root: i32,
    begun: Option<Duration>,
    all: Option<Duration>,
}

impl CpuTime {
    pub(super) fn of(root: i32) -> CpuTime {
        CpuTime { root, begun: None, all: None }
    }

    pub(super) fn begin(&mut self) {
        self.begun = until_now(self.root);
    }

    pub(super) fn end(&mut self) {
        if let (Some(begun), Some(ended)) = (self.begun.take(), until_now(self.root)) {
            self.all = Some(self.all.unwrap_or_default() + ended.saturating_sub(begun));
        }
    }

    /// `None` if it could not be read, as the process was gone.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.all.map(|all| all.as_secs_f64())
    }
}

/// CPU time of a process and of all that it has started, until now; `None` if it is gone.
fn until_now(root: i32) -> Option<Duration> {
    let family = descendants(root);
    // The tables take a while to read, and the clocks do not.
    let alive = family.iter().filter_map(|process| clock(process.pid)).sum::<Duration>();
    let waited_for: u64 = family.iter().map(|process| process.ticks_of_dead).sum();
    let ticks = Duration::from_secs_f64(waited_for as f64 / clock_ticks_per_second() as f64);
    (!family.is_empty()).then_some(alive + ticks)
}

/// What the table of processes says of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    /// CPU time of those that it has waited for, and that these had waited for.
    ticks_of_dead: u64,
}

/// A process, its children, theirs and so on; none if it is gone.
pub(super) fn descendants(root: i32) -> Vec<Process> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number);
    let processes = all
        .filter_map(|pid: i32| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?));
    descending(root, processes.collect())
}

fn descending(root: i32, processes: Vec<Process>) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in processes {
        match process.pid == root {
            true => found.push(process),
            false => children.entry(process.parent).or_default().push(process),
        }
    }
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// A line of `/proc/PID/stat`: the name of the program may hold anything.
fn parse(pid: i32, line: &str) -> Option<Process> {
    let words: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |place: usize| words.get(place)?.parse::<u64>().ok();
    // Counted from behind the name, its state being the first.
    let ticks_of_dead = number(13)? + number(14)?;
    Some(Process { pid, parent: words.get(1)?.parse().ok()?, ticks_of_dead })
}

/// The CPU time of a process and of threads that it had, dead or alive.
fn clock(pid: i32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both write to what they are given, and there is room for it.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    is_read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lines_of_the_table_are_read_whatever_a_program_is_called() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194304 100 200 0 0 11 12 13 14 20 0 1 0 5 6 7";
        assert_eq!(parse(7, line), Some(Process { pid: 7, parent: 3, ticks_of_dead: 27 }));
        assert_eq!(parse(7, "7 (a) S"), None);
        assert_eq!(parse(7, ""), None);
    }

    #[test]
    fn a_family_is_found_in_whatever_order_it_stands() {
        let process = |pid, parent| Process { pid, parent, ticks_of_dead: 0 };
        let all = [process(4, 3), process(3, 2), process(2, 1), process(9, 1), process(1, 0)];
        let pids = |root| descending(root, all.to_vec()).iter().map(|p| p.pid).collect::<Vec<_>>();
        assert_eq!(pids(2), [2, 3, 4]);
        assert_eq!(pids(5), [] as [i32; 0]);
    }

    #[test]
    fn the_dead_count_where_they_were_waited_for() {
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo; read line";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let mut time = CpuTime::of(pid);
        time.begin();
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let alive = clock(pid).unwrap().as_secs_f64();
        time.end();
        child.kill().and_then(|()| child.wait()).unwrap();
        let all = time.seconds().unwrap();
        assert!(all > alive + 0.02, "{all} s in all, of which {alive} s are the shell's own");
        assert!(until_now(pid).is_none());
    }
}

//! CPU time of the sampled processes, from the CPU-time clock of each process.
//!
//! Events that count CPU time are switched with each thread, which costs threads that mostly sleep and wake a
//! tenth of their time (context_switch1). knee reads the clocks of all processes at two points in time
//! instead, and selects the family when all records have been read. The CPU time of an exited process is
//! added to the parent that waits for it. If that parent is outside the family, the CPU time is unknown.

use std::collections::HashMap;
use std::time::Duration;

use knee_host::process::{CpuClock, Stat, processes};
use rustix::param::clock_ticks_per_second;

use super::event::now;
use crate::records::Family;

/// CPU time of all processes at the start and end of each sampling.
#[derive(Debug, Default)]
pub(super) struct CpuTime {
    begun: Option<Clocks>,
    spans: Vec<(Clocks, Clocks)>,
}

/// CPU time of each process and of the children that it has waited for, at a time in nanoseconds.
#[derive(Debug)]
struct Clocks {
    time: u64,
    used: HashMap<i32, Duration>,
}

impl CpuTime {
    pub(super) fn begin(&mut self) {
        self.begun = Some(Clocks::read());
    }

    pub(super) fn end(&mut self) {
        self.spans.extend(self.begun.take().map(|begun| (begun, Clocks::read())));
    }

    /// CPU time of a family; `None` if that of an exited process is unknown.
    pub(super) fn seconds(&self, family: &Family) -> Option<f64> {
        let spans = self.spans.iter().map(|(begun, ended)| used(begun, ended, family));
        let all = spans.sum::<Option<Duration>>()?;
        (!self.spans.is_empty()).then_some(all.as_secs_f64())
    }
}

/// CPU time of a family between two points in time, if known.
fn used(begun: &Clocks, ended: &Clocks, family: &Family) -> Option<Duration> {
    let is_gone = |pid: i32| !ended.used.contains_key(&pid);
    let during = begun.time..ended.time;
    let orphans = family.orphans.iter();
    if orphans.clone().any(|(pid, time)| during.contains(time) && is_gone(*pid)) {
        // A process outside the family has waited for it.
        return None;
    }
    if family.elders.iter().any(|pid| begun.used.contains_key(pid) && is_gone(*pid)) {
        // A member has waited for it, and its CPU time now includes all that the child ever used.
        return None;
    }
    Some(ended.of(family).saturating_sub(begun.of(family)))
}

impl Clocks {
    fn read() -> Clocks {
        let processes = table();
        // Reading the table takes a while; reading the clocks does not.
        let used = processes.into_iter().filter_map(|process| {
            let seconds = process.ticks_of_dead as f64 / clock_ticks_per_second() as f64;
            Some((process.pid, clock(process.pid)? + Duration::from_secs_f64(seconds)))
        });
        Clocks { used: used.collect(), time: now() }
    }

    fn of(&self, family: &Family) -> Duration {
        self.used.iter().filter(|(pid, _)| family.has(**pid)).map(|(_, used)| *used).sum()
    }
}

/// A process in `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    /// CPU time of the children that it has waited for, including theirs.
    ticks_of_dead: u64,
}

/// The PIDs of all visible processes and of their parents.
pub(super) fn parents() -> Vec<(i32, i32)> {
    table().into_iter().map(|process| (process.pid, process.parent)).collect()
}

/// All visible processes.
fn table() -> Vec<Process> {
    processes().into_iter().filter_map(|(pid, stat)| parse(pid, &stat)).collect()
}

/// The fields of `/proc/PID/stat` that matter.
fn parse(pid: i32, stat: &Stat) -> Option<Process> {
    Some(Process { pid, parent: stat.parent()?, ticks_of_dead: stat.ticks_of_dead()? })
}

/// CPU time of a process, including its exited threads.
pub(super) fn clock(pid: i32) -> Option<Duration> {
    CpuClock::of(pid)?.read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::tests::shell;

    #[test]
    fn a_line_is_parsed_whatever_the_program_name() {
        let parse = |pid, line: &str| super::parse(pid, &Stat::parse(line)?);
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194304 100 200 0 0 11 12 13 14 20 0 1 0 5 6 7";
        assert_eq!(parse(7, line), Some(Process { pid: 7, parent: 3, ticks_of_dead: 27 }));
        assert_eq!(parse(7, "7 (a) S"), None);
        assert_eq!(parse(7, ""), None);
    }

    #[test]
    fn cpu_time_includes_children_that_were_waited_for() {
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo; read line";
        let mut child = shell(script);
        let pid = child.id() as i32;
        let family = Family::of(pid, []);
        let mut time = CpuTime::default();
        time.begin();
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let alive = clock(pid).unwrap().as_secs_f64();
        time.end();
        child.kill().and_then(|()| child.wait()).unwrap();
        let all = time.seconds(&family).unwrap();
        assert!(all > alive + 0.02, "{all} s in all, of which {alive} s are the shell's own");
    }

    /// Processes with their CPU seconds.
    fn clocks<const N: usize>(time: u64, used: [(i32, u64); N]) -> Clocks {
        let used = used.map(|(pid, seconds)| (pid, Duration::from_secs(seconds)));
        Clocks { time, used: used.into() }
    }

    #[test]
    fn cpu_time_of_a_family_is_that_of_its_members() {
        let mut family = Family::of(1, [2]);
        family.born(1, 3);
        let begun = clocks(10, [(1, 100), (2, 50), (9, 70)]);
        let ended = clocks(20, [(1, 103), (2, 57), (3, 4), (9, 90)]);
        assert_eq!(used(&begun, &ended, &family), Some(Duration::from_secs(7)));
        let without_elder = clocks(20, [(1, 153), (3, 4)]);
        assert_eq!(
            used(&begun, &without_elder, &family),
            None,
            "the parent's time includes all of the child's"
        );
    }

    #[test]
    fn cpu_time_of_an_orphan_is_known_until_it_is_waited_for() {
        let mut family = Family::of(1, []);
        family.born(1, 3);
        family.ended(3, 7, 15);
        let (begun, gone) = (clocks(10, [(1, 1)]), clocks(20, [(1, 2)]));
        assert_eq!(used(&begun, &gone, &family), None);
        let there = clocks(20, [(1, 2), (3, 4)]);
        assert_eq!(used(&begun, &there, &family), Some(Duration::from_secs(5)));
        let before = clocks(12, [(1, 2)]);
        assert_eq!(
            used(&begun, &before, &family),
            Some(Duration::from_secs(1)),
            "it was running then"
        );
    }
}

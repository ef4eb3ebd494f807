//! The descendants of this process, which is a subreaper with one thread.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

use super::{Stat, processes};

/// The states of a process that has ended.
const ENDED: [&str; 2] = ["Z", "X"];
/// Time between two attempts to kill all children. A process with much memory takes long to end.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Attempts in a row in which no child could be killed, a quarter of a second in all. Then the others
/// belong to another user.
const REFUSALS: u32 = 14;

/// Kills all descendants of this process and reaps them. Returns when none is left, or when the others may
/// not be killed because they have set their user IDs, as `sudo` does.
///
/// Kills only children, because only this process can reap them, so their numbers cannot be reused. When they
/// have ended, their children become those of this process.
pub fn end_descendants() {
    let (mut pause, mut refusals) = (SHORTEST_PAUSE, 0);
    loop {
        let Ended { is_last, is_any } = reap_ended();
        if is_last || refusals == REFUSALS {
            return;
        }
        if is_any {
            pause = SHORTEST_PAUSE;
        }
        let killed =
            children().into_iter().filter(|&child| kill_process(child, Signal::KILL).is_ok());
        refusals = if killed.count() > 0 { 0 } else { refusals + 1 };
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// The names of the programs of all descendants that run, sorted. Reaps children that have ended.
pub(super) fn running_descendants() -> Vec<String> {
    if reap_ended().is_last {
        return Vec::new();
    }
    let own = getpid().as_raw_pid();
    let runs = |stat: &Stat| stat.state().is_some_and(|state| !ENDED.contains(&state));
    let others = family(own).into_iter().filter(|(pid, stat)| *pid != own && runs(stat));
    let mut names: Vec<String> = others.map(|(_, stat)| stat.name).collect();
    names.sort();
    names
}

/// The process `root` and its descendants, with their numbers. Includes zombies.
pub fn family(root: i32) -> Vec<(i32, Stat)> {
    let mut others = processes();
    let (mut members, mut pids) = (Vec::new(), vec![root]);
    loop {
        let is_member = |(pid, stat): &(i32, Stat)| {
            *pid == root || stat.parent().is_some_and(|parent| pids.contains(&parent))
        };
        let (new, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_member);
        if new.is_empty() {
            return members;
        }
        pids.extend(new.iter().map(|(pid, _)| pid));
        members.extend(new);
        others = rest;
    }
}

/// What [`reap_ended`] found.
struct Ended {
    /// Whether any child had ended.
    is_any: bool,
    /// Whether no other child exists.
    is_last: bool,
}

/// Reaps the children that have ended.
fn reap_ended() -> Ended {
    let mut is_any = false;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => is_any = true,
            Ok(None) => return Ended { is_any, is_last: false },
            Err(_) => return Ended { is_any, is_last: true },
        }
    }
}

fn children() -> Vec<Pid> {
    let pids: Vec<i32> = match fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // This file depends on the configuration of the kernel.
        Err(_) => {
            let own = getpid().as_raw_pid();
            let children = processes().into_iter().filter(|(_, stat)| stat.parent() == Some(own));
            children.map(|(pid, _)| pid).collect()
        }
    };
    pids.into_iter().filter_map(Pid::from_raw).collect()
}

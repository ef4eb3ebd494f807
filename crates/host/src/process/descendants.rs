//! The descendants of this process, which is a subreaper with one thread.

use std::collections::HashMap;
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
    family_among(processes(), root)
}

/// Those of `all` that are `root` or its descendants, parents first. Each process is looked at a fixed number of
/// times, because other users can start many processes, each the child of the previous one.
fn family_among(all: Vec<(i32, Stat)>, root: i32) -> Vec<(i32, Stat)> {
    let mut members = Vec::new();
    let mut children: HashMap<i32, Vec<(i32, Stat)>> = HashMap::new();
    for (pid, stat) in all {
        if pid == root {
            members.push((pid, stat));
        } else if let Some(parent) = stat.parent() {
            children.entry(parent).or_default().push((pid, stat));
        }
    }
    // Not in the walk, because `root` may have ended before it was listed.
    members.extend(children.remove(&root).into_iter().flatten());
    with_descendants(members, children, |(pid, _)| *pid)
}

/// `members` and all of their descendants, parents first. `children` has the other processes by the number of their
/// parent. Each process is looked at once.
pub fn with_descendants<P>(
    mut members: Vec<P>,
    mut children: HashMap<i32, Vec<P>>,
    pid: impl Fn(&P) -> i32,
) -> Vec<P> {
    let mut next = 0;
    while let Some(member) = members.get(next) {
        let of_member = children.remove(&pid(member));
        members.extend(of_member.into_iter().flatten());
        next += 1;
    }
    members
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the family of `root` among processes, each given with its parent.
    fn pids_of_family(parents: impl Iterator<Item = (i32, i32)>, root: i32) -> Vec<i32> {
        let stat = |(pid, parent)| (pid, Stat::parse(&format!("{pid} (sh) S {parent}")).unwrap());
        let members = family_among(parents.map(stat).collect(), root);
        members.into_iter().map(|(pid, _)| pid).collect()
    }

    #[test]
    fn the_family_has_all_descendants_and_nobody_else() {
        let parents = [(7, 6), (2, 1), (4, 2), (9, 1), (6, 4), (5, 2), (3, 9)];
        assert_eq!(pids_of_family(parents.into_iter(), 2), [2, 4, 5, 6, 7]);
        let without_root = parents.into_iter().filter(|&(pid, _)| pid != 2);
        assert_eq!(pids_of_family(without_root, 2), [4, 5, 6, 7]);
        assert_eq!(pids_of_family(parents.into_iter(), 8), [] as [i32; 0]);
    }

    #[test]
    fn reused_numbers_cannot_make_a_process_its_own_descendant() {
        // Processes are listed one after the other, so each parent can be of another instant.
        assert_eq!(pids_of_family([(2, 3), (3, 2), (5, 5)].into_iter(), 2), [2, 3]);
        assert_eq!(pids_of_family([(3, 4), (4, 3), (5, 5)].into_iter(), 2), [] as [i32; 0]);
    }

    /// A search that scans all processes for each generation does not end in a day.
    #[test]
    fn a_long_chain_of_processes_is_walked_once() {
        let longest = 200_000;
        let chain = (2..longest).rev().map(|pid| (pid, pid - 1));
        let members = pids_of_family(chain, 1);
        assert!(members.into_iter().eq(2..longest));
    }
}

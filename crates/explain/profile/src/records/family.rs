//! The descendants of a process, from the kernel's records of forks.

use std::collections::{HashMap, HashSet};

use knee_host::process::with_descendants;

/// A process, and the processes that it and its descendants start from now on.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Exited processes stay: no other process has their PID until a fork returns it again.
    members: HashSet<i32>,
    /// The root, until it executes a program.
    awaited: Option<i32>,
    /// Descendants that do not belong to the family: children that the root had started before, or knee.
    pub(crate) elders: HashSet<i32>,
    /// Members that exited as children of a process outside the family, and the times, in nanoseconds. Only
    /// that parent learns their CPU time.
    pub(crate) orphans: Vec<(i32, u64)>,
}

impl Family {
    /// The family of a running process, without its present children.
    pub(crate) fn of(pid: i32, elders: impl IntoIterator<Item = i32>) -> Family {
        Family {
            members: HashSet::from([pid]),
            elders: elders.into_iter().collect(),
            ..Family::default()
        }
    }

    /// The family of running processes, which are a process with all its descendants except `stranger`.
    pub(crate) fn of_all(running: &[i32], stranger: i32) -> Family {
        Family {
            members: running.iter().copied().collect(),
            elders: HashSet::from([stranger]),
            ..Family::default()
        }
    }

    /// The family of a process, from the time when it executes a program.
    pub(crate) fn of_program(pid: i32) -> Family {
        Family { awaited: Some(pid), ..Family::default() }
    }

    pub(crate) fn has(&self, pid: i32) -> bool {
        self.members.contains(&pid)
    }

    /// A process has executed a program.
    pub(super) fn exec(&mut self, pid: i32) {
        if self.awaited.take_if(|awaited| *awaited == pid).is_some() {
            self.members.insert(pid);
        }
    }

    /// A process has started another.
    pub(crate) fn born(&mut self, parent: i32, child: i32) {
        self.elders.remove(&child);
        match self.has(parent) {
            true => self.members.insert(child),
            false => self.members.remove(&child),
        };
    }

    /// A thread of a process has exited. `parent` is the parent of the process.
    pub(crate) fn ended(&mut self, pid: i32, parent: i32, time: u64) {
        if self.has(pid) && !self.has(parent) {
            self.orphans.push((pid, time));
        }
    }

    /// Adds descendants whose start was not recorded, given all processes and their parents. Returns the new
    /// ones, parents first.
    pub(crate) fn adopt(&mut self, there: Vec<(i32, i32)>) -> Vec<i32> {
        // The record of its exec may be lost as well.
        self.members.extend(self.awaited.take());
        let mut adopted = Vec::new();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for (pid, parent) in there {
            match self.has(pid) || self.elders.contains(&pid) {
                true => {}
                false if self.has(parent) => adopted.push(pid),
                false => children.entry(parent).or_default().push(pid),
            }
        }
        let adopted = with_descendants(adopted, children, |pid| *pid);
        self.members.extend(&adopted);
        adopted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_belong_to_the_target() {
        let mut family = Family::of(1, []);
        family.born(1, 2);
        family.born(2, 3);
        family.born(9, 4);
        assert_eq!([1, 2, 3, 4].map(|pid| family.has(pid)), [true, true, true, false]);
    }

    #[test]
    fn running_descendants_belong_to_the_family_and_knee_does_not() {
        let mut family = Family::of_all(&[1, 2], 3);
        family.born(2, 4);
        assert_eq!(family.adopt(vec![(2, 1), (3, 1), (5, 2)]), [5]);
        assert_eq!([1, 2, 3, 4, 5].map(|pid| family.has(pid)), [true, true, false, true, true]);
    }

    #[test]
    fn a_reused_pid_belongs_to_its_new_process() {
        let mut family = Family::of(1, []);
        family.born(1, 2);
        family.born(9, 2);
        assert!(!family.has(2));
        family.born(1, 2);
        assert!(family.has(2));
    }

    #[test]
    fn a_family_begins_when_its_root_executes_a_program() {
        let mut family = Family::of_program(1);
        family.born(1, 2);
        family.exec(3);
        assert_eq!([1, 2, 3].map(|pid| family.has(pid)), [false; 3]);
        family.exec(1);
        family.born(1, 4);
        assert_eq!([1, 2, 4].map(|pid| family.has(pid)), [true, false, true]);
    }

    #[test]
    fn an_unseen_child_is_included_and_an_older_process_is_not() {
        let mut family = Family::of(1, [2]);
        let adopted = family.adopt(vec![(4, 3), (3, 1), (2, 1), (5, 2), (9, 8), (1, 8)]);
        assert_eq!(adopted, [3, 4]);
        assert_eq!(family.adopt(vec![(3, 1), (4, 3)]), [] as [i32; 0]);
        family.born(1, 2);
        assert!(family.has(2), "a reused PID");
    }

    /// A search that scans all processes for each generation takes an hour.
    #[test]
    fn a_long_chain_of_unseen_descendants_is_walked_once() {
        let mut family = Family::of(1, []);
        let adopted = family.adopt((2..200_000).rev().map(|pid| (pid, pid - 1)).collect());
        assert!(adopted.into_iter().eq(2..200_000));
        assert!(family.has(199_999));
    }

    #[test]
    fn an_unseen_exec_begins_the_family() {
        let mut family = Family::of_program(1);
        assert_eq!(family.adopt(vec![(1, 7), (2, 1)]), [2]);
        assert!(family.has(1));
    }

    #[test]
    fn a_member_that_exits_as_a_child_of_others_is_an_orphan() {
        let mut family = Family::of(1, []);
        family.born(1, 2);
        family.born(1, 3);
        family.ended(2, 1, 10);
        family.ended(3, 7, 20);
        family.ended(8, 1, 30);
        assert_eq!(family.orphans, [(3, 20)]);
    }
}

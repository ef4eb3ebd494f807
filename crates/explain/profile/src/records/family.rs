//! Who descends from a process, as the kernel says who starts whom.

use std::collections::HashSet;

/// A process, and what it and its descendants start from now on.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Who is gone stays among them: its number is nobody else's until somebody is born with it.
    members: HashSet<i32>,
    /// The first, until it becomes a program.
    awaited: Option<i32>,
    /// What the first had started before, which is not requested.
    pub(crate) elders: HashSet<i32>,
    /// Members that ended as children of others, and when, in nanoseconds.
    pub(crate) orphans: Vec<(i32, u64)>,
}

impl Family {
    /// That of a process, without the children that it has.
    pub(crate) fn of(pid: i32, elders: impl IntoIterator<Item = i32>) -> Family {
        Family {
            members: HashSet::from([pid]),
            elders: elders.into_iter().collect(),
            ..Family::default()
        }
    }

    /// That of a process, from when it becomes a program.
    pub(crate) fn of_program(pid: i32) -> Family {
        Family { awaited: Some(pid), ..Family::default() }
    }

    pub(crate) fn has(&self, pid: i32) -> bool {
        self.members.contains(&pid)
    }

    /// A process has become a program.
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

    /// A thread of a process has ended, whose parent is this.
    pub(crate) fn ended(&mut self, pid: i32, parent: i32, time: u64) {
        if self.has(pid) && !self.has(parent) {
            self.orphans.push((pid, time));
        }
    }

    /// Not all was said: takes in who must have been started meanwhile, by those who are there now with
    /// their parents. Who they are.
    pub(crate) fn adopt(&mut self, mut there: Vec<(i32, i32)>) -> Vec<i32> {
        // That it has become a program may be among what was not said.
        self.members.extend(self.awaited.take());
        let mut adopted = Vec::new();
        loop {
            let before = adopted.len();
            there.retain(|&(pid, parent)| {
                let is_new = self.has(parent) && !self.has(pid) && !self.elders.contains(&pid);
                if is_new {
                    self.members.insert(pid);
                    adopted.push(pid);
                }
                !is_new
            });
            if adopted.len() == before {
                return adopted;
            }
        }
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
    fn a_number_that_a_stranger_got_later_is_a_strangers() {
        let mut family = Family::of(1, []);
        family.born(1, 2);
        family.born(9, 2);
        assert!(!family.has(2));
        family.born(1, 2);
        assert!(family.has(2));
    }

    #[test]
    fn a_program_has_a_family_once_it_is_one() {
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
        assert!(family.has(2), "a number that was used again");
    }

    #[test]
    fn a_program_that_began_unseen_is_one() {
        let mut family = Family::of_program(1);
        assert_eq!(family.adopt(vec![(1, 7), (2, 1)]), [2]);
        assert!(family.has(1));
    }

    #[test]
    fn a_process_that_exits_among_others_is_an_orphan() {
        let mut family = Family::of(1, []);
        family.born(1, 2);
        family.born(1, 3);
        family.ended(2, 1, 10);
        family.ended(3, 7, 20);
        family.ended(8, 1, 30);
        assert_eq!(family.orphans, [(3, 20)]);
    }
}

//! Who descends from a process, as the kernel says who starts whom.

use std::collections::HashSet;

/// A process, and what it and its descendants start from now on.
#[derive(Debug)]
pub(crate) struct Family {
    /// Who is gone stays among them: its number is nobody else's until somebody is born with it.
    members: HashSet<i32>,
    /// The first, until it becomes a program.
    awaited: Option<i32>,
}

impl Family {
    /// That of a process.
    pub(crate) fn of(pid: i32) -> Family {
        Family { members: HashSet::from([pid]), awaited: None }
    }

    /// That of a process, from when it becomes a program.
    pub(crate) fn of_program(pid: i32) -> Family {
        Family { members: HashSet::new(), awaited: Some(pid) }
    }

    pub(super) fn has(&self, pid: i32) -> bool {
        self.members.contains(&pid)
    }

    /// A process has become a program.
    pub(super) fn exec(&mut self, pid: i32) {
        if self.awaited.take_if(|awaited| *awaited == pid).is_some() {
            self.members.insert(pid);
        }
    }

    /// A process has started another.
    pub(super) fn born(&mut self, parent: i32, child: i32) {
        match self.has(parent) {
            true => self.members.insert(child),
            false => self.members.remove(&child),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_descends_belongs_to_it() {
        let mut family = Family::of(1);
        family.born(1, 2);
        family.born(2, 3);
        family.born(9, 4);
        assert_eq!([1, 2, 3, 4].map(|pid| family.has(pid)), [true, true, true, false]);
    }

    #[test]
    fn a_number_that_a_stranger_got_later_is_a_strangers() {
        let mut family = Family::of(1);
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
}

//! A cache line: who has it, and who waits for it.

use std::collections::VecDeque;

use super::super::seats::Seats;
use super::super::workload::Access;
use super::tally::{Tally, Waiter};
use crate::machine::Distance;

/// A cache line.
#[derive(Debug, Default)]
pub(super) struct Line {
    copies: Copies,
    /// The task that took it last.
    last: usize,
    /// The tasks with a copy, if several can have one: a bit for each.
    sharers: Vec<u64>,
    /// The transfer under way.
    pub(super) current: Option<(usize, Access)>,
    /// When the caches that have the line lose it to this transfer.
    pub(super) kept_until: f64,
    /// Tasks with a copy that wait until another one changes the line.
    pub(super) pollers: Vec<usize>,
    pub(super) queue: VecDeque<Waiter<Access>>,
    pub(super) tally: Tally,
}

/// Where copies of a line are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Copies {
    /// No task has used it yet.
    #[default]
    Nowhere,
    /// In the cache of one CPU, which may write.
    One,
    /// In several caches, which may only read.
    Several,
}

impl Line {
    /// Whether the access needs no other CPU. Whoever uses a line first has it: what a single CPU
    /// does is part of the time of an iteration.
    pub(super) fn is_local(&self, task: usize, access: Access) -> bool {
        match self.copies {
            Copies::Nowhere => true,
            Copies::One => self.last == task,
            Copies::Several => access == Access::Load && self.has_copy(task),
        }
    }

    /// Whether the access needs no other CPU although the line is on its way to another one: the
    /// request has not reached the CPU's cache yet.
    pub(super) fn keeps(&self, task: usize, access: Access, now: f64) -> bool {
        now < self.kept_until && self.copies != Copies::Nowhere && self.is_local(task, access)
    }

    /// Whether CPUs that load it can do so at the same time.
    pub(super) fn is_shared(&self) -> bool {
        self.copies == Copies::Several
    }

    /// The task gets the line, by a transfer or because it is local.
    pub(super) fn take(&mut self, task: usize, access: Access) {
        let was_elsewhere = self.copies != Copies::Nowhere && self.last != task;
        if access == Access::Load && (self.copies == Copies::Several || was_elsewhere) {
            if self.copies == Copies::One {
                self.sharers.fill(0);
                self.add_copy(self.last);
                self.copies = Copies::Several;
            }
            self.add_copy(task);
        } else {
            self.copies = Copies::One;
        }
        self.last = task;
    }

    /// How far the line travels to the task. A CPU that loads gets it from the nearest copy. One
    /// that writes waits until all other copies have been invalidated, of which the farthest takes
    /// longest. `None` means that no other CPU has a copy.
    pub(super) fn distance(&self, task: usize, access: Access, seats: &Seats) -> Option<Distance> {
        match self.copies {
            Copies::Nowhere => None,
            Copies::One if self.last == task => None,
            Copies::One => Some(seats.distance(self.last, task)),
            Copies::Several if access == Access::Load => {
                self.extreme(task, seats, seats.nearest, |a, b| a < b)
            }
            Copies::Several => self.extreme(task, seats, seats.farthest, |a, b| a > b),
        }
    }

    /// The distance of the nearest or farthest other copy; `end` is the most extreme one that
    /// occurs.
    fn extreme(
        &self,
        task: usize,
        seats: &Seats,
        end: Distance,
        exceeds: fn(Distance, Distance) -> bool,
    ) -> Option<Distance> {
        let mut found: Option<Distance> = None;
        for (nr, &word) in self.sharers.iter().enumerate() {
            let mut bits = word;
            while bits != 0 {
                let other = nr * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if other == task {
                    continue;
                }
                let distance = seats.distance(other, task);
                if found.is_none_or(|found| exceeds(distance, found)) {
                    found = Some(distance);
                }
                if distance == end {
                    return found;
                }
            }
        }
        found
    }

    /// Index in the queue of the task that is nearest to the one that has the line. Of several, it
    /// is the one that has waited longest. The other thread of a core is not nearer than a core next
    /// to it: on two sockets of Skylake, all of whose threads change one line, a change takes about
    /// 60 ns, and not half of the 47 ns between cores.
    pub(super) fn nearest(&self, seats: &Seats) -> usize {
        let least = seats.smallest_part();
        let (mut found, mut nearest) = (0, None);
        for (nr, waiter) in self.queue.iter().enumerate() {
            let distance = match waiter.task == self.last {
                true => least,
                false => seats.distance(self.last, waiter.task).max(least),
            };
            if nearest.is_none_or(|nearest| distance < nearest) {
                (found, nearest) = (nr, Some(distance));
                if distance <= seats.nearest.max(least) {
                    break;
                }
            }
        }
        found
    }

    fn has_copy(&self, task: usize) -> bool {
        self.sharers.get(task / 64).is_some_and(|word| word >> (task % 64) & 1 == 1)
    }

    fn add_copy(&mut self, task: usize) {
        if self.sharers.len() <= task / 64 {
            self.sharers.resize(task / 64 + 1, 0);
        }
        self.sharers[task / 64] |= 1 << (task % 64);
    }
}

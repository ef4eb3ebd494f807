//! Locks: taking them, and passing them on.

use super::super::workload::{Access, Hold};
use super::Engine;
use super::events::Event;
use super::tally::Waiter;
use crate::machine::Distance;

impl Engine<'_> {
    /// Takes a lock. Returns whether the task goes on at once.
    pub(super) fn acquire(&mut self, task: usize, nr: usize) -> bool {
        if !self.has_stored(task) {
            return false;
        }
        self.tasks[task].next += 1;
        let lock = &mut self.locks[nr];
        if !lock.is_free() {
            if lock.queue.is_empty() && !lock.is_held {
                // The readers begin to keep somebody waiting.
                lock.tally.begin(self.now);
            }
            lock.queue.push_back(Waiter { task, how: Hold::Exclusive, since: self.now });
            return false;
        }
        lock.is_held = true;
        lock.tally.begin(self.now);
        let word = &mut self.lines[self.words + nr];
        let distance = word.distance(task, Access::Atomic, self.seats);
        word.take(task, Access::Atomic);
        let Some(distance) = distance else { return true };
        self.locks[nr].tally.far += u64::from(distance == Distance::Machine);
        self.events.add(self.now + self.transfer(distance), Event::Task(task));
        false
    }

    /// Releases a lock that the task has to itself. Returns whether the task goes on at once.
    pub(super) fn release(&mut self, task: usize, nr: usize) -> bool {
        if !self.has_stored(task) {
            return false;
        }
        self.tasks[task].next += 1;
        let lock = &mut self.locks[nr];
        lock.is_held = false;
        lock.tally.end(self.now);
        lock.tally.services += 1;
        self.pass_on(task, nr);
        true
    }

    /// Takes a lock as a reader. Returns whether the task goes on at once.
    pub(super) fn acquire_shared(&mut self, task: usize, nr: usize) -> bool {
        if !self.update_word(task, nr) {
            return false;
        }
        let lock = &mut self.locks[nr];
        if lock.refuses_readers() {
            lock.queue.push_back(Waiter { task, how: Hold::Shared, since: self.now });
            return false;
        }
        lock.readers += 1;
        true
    }

    /// Releases a lock as a reader. Returns whether the task goes on at once.
    pub(super) fn release_shared(&mut self, task: usize, nr: usize) -> bool {
        if !self.update_word(task, nr) {
            return false;
        }
        let lock = &mut self.locks[nr];
        lock.readers -= 1;
        if lock.readers == 0 {
            lock.tally.end(self.now);
            self.pass_on(task, nr);
        }
        true
    }

    /// Changes the number of readers in the word of a lock. Returns whether that is done, and the
    /// task is at its next operation.
    fn update_word(&mut self, task: usize, nr: usize) -> bool {
        if !std::mem::take(&mut self.tasks[task].has_word) {
            if !self.has_stored(task) {
                return false;
            }
            if !self.request(task, self.words + nr, Access::Atomic) {
                self.tasks[task].has_word = true;
                return false;
            }
        }
        self.tasks[task].next += 1;
        true
    }

    /// Gives a free lock to the first in the queue: a writer, or all readers before the next
    /// writer.
    fn pass_on(&mut self, from: usize, nr: usize) {
        while let Some(&Waiter { task, how, since }) = self.locks[nr].queue.front() {
            if how == Hold::Exclusive && self.locks[nr].readers > 0 {
                self.locks[nr].tally.begin(self.now);
                return;
            }
            // A task cannot wait for what it has just released.
            let distance = self.seats.distance(from, task);
            let time = self.inputs.handover * self.transfer(distance);
            self.lines[self.words + nr].take(task, Access::Atomic);
            self.events.add(self.now + time, Event::Task(task));
            let lock = &mut self.locks[nr];
            lock.queue.pop_front();
            lock.tally.waited += self.now - since.max(self.start);
            match how {
                Hold::Shared => lock.readers += 1,
                Hold::Exclusive => {
                    lock.is_held = true;
                    lock.tally.begin(self.now);
                    lock.tally.far += u64::from(distance == Distance::Machine);
                    return;
                }
            }
        }
    }
}

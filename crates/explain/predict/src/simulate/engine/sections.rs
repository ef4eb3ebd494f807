//! Locks: taking them, waiting for them, and releasing them.
//!
//! All kinds do the same to the line of the lock. A task first tries to take the lock by an atomic
//! instruction. If that fails, it joins a queue by another one. The first task of the queue polls
//! the lock. All others poll entries of the queue, on lines of their own.
//!
//! * **qspinlock** (kernel/locking/qspinlock.c): the first task that waits sets the pending bit,
//!   and the next one is the first of the queue; both poll. The first one takes the free lock by a
//!   store. If others wait behind it, it then stores to the entry of the next one, which begins to
//!   poll the lock.
//! * **Mutexes and semaphores** (mutex.c, rwsem.c, osq_lock.c): tasks that have not waited may
//!   steal the free lock. The first one of the queue takes it by an atomic instruction, and then
//!   leaves the queue by another one, which tells the next one to poll. Nobody sleeps, because the
//!   owner always runs and each task has a CPU of its own.

use super::super::workload::{Access, Hold, LockKind};
use super::Engine;
use super::events::Event;
use super::lock::Stage;
use super::tally::Waiter;
use crate::machine::Distance;

/// Instructions from the failed attempt to the atomic instruction that joins the queue: counted
/// in `native_queued_spin_lock_slowpath` (about 40), and `__mutex_lock` and
/// `rwsem_down_write_slowpath` with `osq_lock` (60 to 100).
const SLOW_PATH: f64 = 60.0;

/// Time from the load that finds the lock free to the first instruction of the section, in times
/// of an instruction. About 30 instructions tell the next one of the queue and return. The loop of
/// the waiting CPU ends by a branch that was predicted otherwise, which costs about as much again:
/// 15 to 20 cycles (Agner Fog, "The microarchitecture of Intel, AMD and VIA CPUs", 2023).
const LEAVING: f64 = 60.0;

impl Engine<'_> {
    /// Takes a lock. Returns whether the task goes on at once.
    pub(super) fn acquire(&mut self, task: usize, nr: usize, line: usize, how: Hold) -> bool {
        loop {
            let goes_on = match self.tasks[task].stage {
                Stage::Begins => {
                    self.has_stored(task) && self.ask(task, line, Access::Atomic, Stage::Tried)
                }
                Stage::Tried if self.locks[nr].admits(how) => {
                    self.hold(task, nr, how);
                    return self.finish(task);
                }
                Stage::Tried => self.execute(task, SLOW_PATH, Stage::Enters),
                Stage::Enters => self.ask(task, line, Access::Atomic, Stage::Joins),
                Stage::Joins => self.join(task, nr, how),
                Stage::Waits | Stage::Polls => self.ask(task, line, Access::Load, Stage::Loaded),
                Stage::Loaded => {
                    let lock = &self.locks[nr];
                    let is_first = lock.queue.front().is_some_and(|first| first.task == task);
                    match is_first && lock.is_free(how) {
                        true if how == Hold::Shared => {
                            self.hold_after_waiting(task, nr, how);
                            self.call_next(task, nr);
                            return self.finish(task);
                        }
                        true if lock.kind == LockKind::Spin => {
                            self.hold_after_waiting(task, nr, how);
                            self.store(task, line, None);
                            self.call_next(task, nr);
                            self.execute(task, LEAVING, Stage::Leaves)
                        }
                        true => self.ask(task, line, Access::Atomic, Stage::Takes),
                        false => {
                            self.tasks[task].stage = Stage::Polls;
                            self.watch(task, line);
                            false
                        }
                    }
                }
                Stage::Takes if self.locks[nr].is_free(how) => {
                    self.hold_after_waiting(task, nr, how);
                    self.ask(task, line, Access::Atomic, Stage::Unlinks)
                }
                // Another task has stolen the lock. The attempt has loaded it.
                Stage::Takes => {
                    self.tasks[task].stage = Stage::Loaded;
                    true
                }
                Stage::Unlinks => {
                    self.call_next(task, nr);
                    self.execute(task, LEAVING, Stage::Leaves)
                }
                Stage::Leaves | Stage::Releases => return self.finish(task),
            };
            if !goes_on {
                return false;
            }
        }
    }

    /// Releases a lock. Returns whether the task goes on at once.
    pub(super) fn release(&mut self, task: usize, nr: usize, line: usize, how: Hold) -> bool {
        if self.locks[nr].kind == LockKind::Spin && how == Hold::Exclusive {
            self.store(task, line, Some(nr));
            return self.finish(task);
        }
        if self.tasks[task].stage == Stage::Begins
            && !(self.has_stored(task) && self.ask(task, line, Access::Atomic, Stage::Releases))
        {
            return false;
        }
        match how {
            Hold::Exclusive => self.give_back(task, nr),
            Hold::Shared => {
                let lock = &mut self.locks[nr];
                lock.readers -= 1;
                if lock.readers == 0 {
                    lock.tally.end(self.now);
                }
            }
        }
        self.finish(task)
    }

    /// The task no longer has the lock to itself.
    pub(super) fn give_back(&mut self, task: usize, nr: usize) {
        let lock = &mut self.locks[nr];
        lock.is_held = false;
        lock.last = Some(task);
        lock.tally.end(self.now);
        lock.tally.services += 1;
        if !lock.queue.is_empty() {
            // The time until the next one has it counts too.
            lock.tally.begin(self.now);
        }
    }

    /// Requests the line, and is at the stage when it arrives. Returns whether it is there already.
    fn ask(&mut self, task: usize, line: usize, access: Access, stage: Stage) -> bool {
        self.tasks[task].stage = stage;
        self.request(task, line, access)
    }

    /// Executes a part of the slow path, and is at the stage after it.
    fn execute(&mut self, task: usize, instructions: f64, stage: Stage) -> bool {
        let of_task = &mut self.tasks[task];
        of_task.stage = stage;
        of_task.is_executing = true;
        let time = self.inputs.slow_path * instructions * of_task.pace.outside;
        self.events.add(self.now + time, Event::Task(task));
        false
    }

    /// Goes on with the next operation.
    fn finish(&mut self, task: usize) -> bool {
        let task = &mut self.tasks[task];
        task.stage = Stage::Begins;
        task.next += 1;
        true
    }

    fn join(&mut self, task: usize, nr: usize, how: Hold) -> bool {
        let lock = &mut self.locks[nr];
        let is_spin = lock.kind == LockKind::Spin && how == Hold::Exclusive;
        let polls = match lock.queue.len() {
            0 => {
                lock.is_pending = is_spin;
                true
            }
            1 => lock.is_pending && lock.polling == 1,
            _ => false,
        };
        if lock.queue.is_empty() && !lock.is_held {
            // The readers begin to keep somebody waiting.
            lock.tally.end(self.now);
            lock.tally.begin(self.now);
        }
        lock.queue.push_back(Waiter { task, how, since: self.now });
        lock.polling += usize::from(polls);
        self.tasks[task].stage = if polls { Stage::Loaded } else { Stage::Waits };
        polls
    }

    fn hold(&mut self, task: usize, nr: usize, how: Hold) {
        let lock = &mut self.locks[nr];
        match how {
            Hold::Shared => lock.readers += 1,
            Hold::Exclusive => {
                let is_far = |last| self.seats.distance(last, task) == Distance::Machine;
                lock.is_held = true;
                lock.tally.end(self.now);
                lock.tally.begin(self.now);
                lock.tally.far += u64::from(lock.last.is_some_and(is_far));
            }
        }
    }

    /// The first of the queue gets the lock.
    fn hold_after_waiting(&mut self, task: usize, nr: usize, how: Hold) {
        let lock = &mut self.locks[nr];
        let first = lock.queue.pop_front().expect("the task waits");
        lock.polling -= 1;
        lock.is_pending = false;
        lock.tally.waited += self.now - first.since.max(self.start);
        self.hold(task, nr, how);
    }

    /// Lets the next one of the queue poll the lock, unless it already does. The store to its entry
    /// takes the line from the CPU that polls it, and this CPU loads it again.
    fn call_next(&mut self, task: usize, nr: usize) {
        let lock = &mut self.locks[nr];
        if lock.polling > 0 {
            return;
        }
        let Some(&Waiter { task: next, .. }) = lock.queue.front() else { return };
        lock.polling = 1;
        let time = 2.0 * self.transfer(self.seats.distance(task, next)) + self.some_pause();
        self.events.add(self.now + time, Event::Task(next));
    }
}

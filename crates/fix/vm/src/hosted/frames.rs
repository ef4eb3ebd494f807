//! Frames that are free.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use knee_sync::shim::Padded;

use crate::page::Frame;

thread_local! {
    /// The CPU that the thread became last: where frames come from and go to.
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// The thread is this CPU from now on.
pub(super) fn set_cpu(number: usize) {
    CPU.set(number);
}

/// A list of frames for each CPU, as kernels have them: what a CPU frees it takes again, while it is in its cache
/// and in nobody else's. What one lacks it gets from others.
pub(super) struct Frames {
    lists: Box<[Padded<Mutex<Vec<Frame>>>]>,
    /// Who has this may lock several lists.
    sharing: Mutex<()>,
}

impl Frames {
    /// So many frames from 0 on, the same number for each of so many CPUs.
    pub(super) fn new(frames: usize, cpus: usize) -> Frames {
        let cpus = cpus.max(1);
        let first = |cpu: usize| (frames * cpu / cpus) as u64;
        let list = |cpu| (first(cpu)..first(cpu + 1)).rev().map(Frame).collect();
        Frames {
            lists: (0..cpus).map(|cpu| Padded(Mutex::new(list(cpu)))).collect(),
            sharing: Mutex::new(()),
        }
    }

    fn list(&self, cpu: usize) -> MutexGuard<'_, Vec<Frame>> {
        self.lists[cpu].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of the thread's CPU. Of another machine's CPU it may be any.
    fn own(&self) -> usize {
        CPU.get() % self.lists.len()
    }

    /// How many there are. Exact if nobody takes or gives any meanwhile.
    pub(super) fn count(&self) -> usize {
        let _sharing = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
        (0..self.lists.len()).map(|cpu| self.list(cpu).len()).sum()
    }

    /// Takes so many as there are, at most all of these; says how many.
    pub(super) fn take(&self, frames: &mut [Frame]) -> usize {
        let mut list = self.list(self.own());
        if list.len() < frames.len() {
            drop(list);
            let _sharing = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
            list = self.list(self.own());
            self.share(&mut list, frames.len(), 1);
        }
        pop(&mut list, frames)
    }

    /// Half of what others have or more, until there are so many in the thread's own list: those from the `next` on
    /// after it. By who may lock others beside. All that were looked at stay locked, so that what is given
    /// meanwhile is not missed.
    #[cold]
    fn share(&self, list: &mut Vec<Frame>, count: usize, next: usize) {
        if list.len() >= count || next == self.lists.len() {
            return;
        }
        let mut others = self.list((self.own() + next) % self.lists.len());
        let part = (others.len() / 2).max(count - list.len()).min(others.len());
        // Those that it will not take soon.
        list.extend(others.drain(..part));
        self.share(list, count, next + 1);
    }

    /// These are free.
    pub(super) fn give(&self, frames: &[Frame]) {
        self.list(self.own()).extend_from_slice(frames);
    }
}

/// Takes so many as there are from a list, at most all of these; says how many.
fn pop(list: &mut Vec<Frame>, frames: &mut [Frame]) -> usize {
    let count = frames.len().min(list.len());
    let rest = list.len() - count;
    frames[..count].copy_from_slice(&list[rest..]);
    list.truncate(rest);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeSet;
    use std::thread;

    #[test]
    fn a_cpu_takes_again_what_it_has_given() {
        let frames = Frames::new(100, 2);
        let mut some = [Frame(0); 8];
        set_cpu(1);
        assert_eq!(frames.take(&mut some), 8);
        assert!(some.iter().all(|frame| frame.0 >= 50), "they are of its own half");
        frames.give(&some);
        let mut again = [Frame(0); 8];
        assert_eq!(frames.take(&mut again), 8);
        assert_eq!(again, some);
        assert_eq!(frames.count(), 92);
    }

    #[test]
    fn each_cpu_may_have_all_frames() {
        let frames = Frames::new(101, 3);
        for cpu in 0..3 {
            set_cpu(cpu);
            let mut all = Vec::new();
            loop {
                let mut some = [Frame(0); 7];
                let count = frames.take(&mut some);
                all.extend_from_slice(&some[..count]);
                if count == 0 {
                    break;
                }
            }
            let numbers: BTreeSet<_> = all.iter().map(|frame| frame.0).collect();
            assert!(numbers.into_iter().eq(0..101), "each once");
            assert_eq!(frames.count(), 0);
            frames.give(&all);
        }
    }

    #[test]
    fn no_frame_is_lost_or_had_twice_while_cpus_share() {
        let frames = Frames::new(64, 4);
        thread::scope(|scope| {
            for cpu in 0..4 {
                let frames = &frames;
                scope.spawn(move || {
                    set_cpu(cpu);
                    for round in 0..2000 {
                        let mut some = [Frame(0); 24];
                        let count = frames.take(&mut some[..1 + round % 24]);
                        frames.give(&some[..count]);
                    }
                });
            }
        });
        let mut all = [Frame(0); 65];
        assert_eq!(frames.take(&mut all), 64);
        let numbers: BTreeSet<_> = all[..64].iter().map(|frame| frame.0).collect();
        assert!(numbers.into_iter().eq(0..64));
    }
}

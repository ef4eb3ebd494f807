//! Frame allocator: per-CPU free lists.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use knee_sync::shim::Padded;

use crate::page::{ENTRIES as LARGE, Frame};

thread_local! {
    /// The CPU that this thread acts as. The thread uses the CPU's free list.
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Sets the calling thread's CPU.
pub(super) fn set_cpu(number: usize) {
    CPU.set(number);
}

/// A free list per CPU, as in kernels: a CPU reuses the frames that it freed, because they may still be in
/// its cache. A CPU whose list is too short steals frames from other lists.
pub(super) struct Frames {
    lists: Box<[Padded<Mutex<Vec<Frame>>>]>,
    /// The free large pages, each represented by its first frame. They are split when all lists are empty.
    large: Mutex<Vec<Frame>>,
    /// A thread must take this lock before it locks more than one list.
    sharing: Mutex<()>,
}

impl Frames {
    /// Distributes frames `0..frames` equally over `cpus` CPUs.
    pub(super) fn new(frames: usize, cpus: usize) -> Frames {
        let cpus = cpus.max(1);
        let first = |cpu: usize| (frames * cpu / cpus) as u64;
        let list = |cpu| (first(cpu)..first(cpu + 1)).rev().map(Frame).collect();
        Frames {
            lists: (0..cpus).map(|cpu| Padded(Mutex::new(list(cpu)))).collect(),
            large: Mutex::new(Vec::new()),
            sharing: Mutex::new(()),
        }
    }

    fn list(&self, cpu: usize) -> MutexGuard<'_, Vec<Frame>> {
        self.lists[cpu].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn large(&self) -> MutexGuard<'_, Vec<Frame>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index of the calling CPU's list. If the CPU belongs to another machine, this may be the index of
    /// any list.
    fn own(&self) -> usize {
        CPU.get() % self.lists.len()
    }

    /// Returns the number of free frames. The result is exact if no CPU allocates or frees concurrently.
    pub(super) fn count(&self) -> usize {
        let _sharing = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
        let single: usize = (0..self.lists.len()).map(|cpu| self.list(cpu).len()).sum();
        single + LARGE * self.large().len()
    }

    /// Allocates frames into the front of `frames` until the slice is full or no frame is free. Returns
    /// their number.
    pub(super) fn take(&self, frames: &mut [Frame]) -> usize {
        let mut list = self.list(self.own());
        if list.len() < frames.len() {
            drop(list);
            let _sharing = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
            list = self.list(self.own());
            self.share(&mut list, frames.len(), 1);
            while list.len() < frames.len()
                && let Some(first) = self.large().pop()
            {
                list.extend((0..LARGE as u64).rev().map(|index| Frame(first.0 + index)));
            }
        }
        pop(&mut list, frames)
    }

    /// Steals frames from the other lists until `list` has `count` frames. Begins with the list at index
    /// `own() + next`, modulo the number of lists. Takes half of each visited list, or more if `list` needs
    /// more. The caller must hold the lock `sharing`. Visited lists stay locked until the end, so that a CPU
    /// cannot free a frame to a list that was already visited.
    #[cold]
    fn share(&self, list: &mut Vec<Frame>, count: usize, next: usize) {
        if list.len() >= count || next == self.lists.len() {
            return;
        }
        let mut others = self.list((self.own() + next) % self.lists.len());
        let part = (others.len() / 2).max(count - list.len()).min(others.len());
        // Take frames from the front, because the other CPU pops these frames last.
        list.extend(others.drain(..part));
        self.share(list, count, next + 1);
    }

    /// Allocates 512 consecutive frames, the first of which is a multiple of 512: a large page that was freed
    /// whole, or a run from a list. Returns the first frame.
    pub(super) fn take_large(&self) -> Option<Frame> {
        if let Some(first) = self.large().pop() {
            return Some(first);
        }
        (0..self.lists.len()).find_map(|next| {
            let runs = take_runs(&mut self.list((self.own() + next) % self.lists.len()));
            let mut large = self.large();
            large.extend(runs);
            large.pop()
        })
    }

    /// Adds the frames of the large page that begins with frame `first`.
    pub(super) fn give_large(&self, first: Frame) {
        self.large().push(first);
    }

    /// Adds freed frames to the calling CPU's list.
    pub(super) fn give(&self, frames: &[Frame]) {
        self.list(self.own()).extend_from_slice(frames);
    }
}

/// Removes from a list all runs that can form a large page, and returns the first frame of each run. Finds a
/// run only if its frames are adjacent and in descending order. Lists start in that order, but freeing single
/// frames destroys it.
fn take_runs(list: &mut Vec<Frame>) -> Vec<Frame> {
    let is_run = |run: &[Frame]| {
        let last = run[LARGE - 1];
        let descending = |(index, frame): (usize, &Frame)| frame.0 + index as u64 == run[0].0;
        last.0.is_multiple_of(LARGE as u64) && run.iter().enumerate().all(descending)
    };
    let (mut runs, mut others, mut start) = (Vec::new(), Vec::new(), 0);
    while start < list.len() {
        match list.get(start..start + LARGE) {
            Some(run) if is_run(run) => {
                runs.push(run[LARGE - 1]);
                start += LARGE;
            }
            _ => {
                others.push(list[start]);
                start += 1;
            }
        }
    }
    *list = others;
    runs
}

/// Pops frames into the front of `frames` until the slice is full or `list` is empty. Returns their number.
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
    fn a_cpu_reuses_the_frames_that_it_freed() {
        let frames = Frames::new(100, 2);
        let mut some = [Frame(0); 8];
        set_cpu(1);
        assert_eq!(frames.take(&mut some), 8);
        assert!(some.iter().all(|frame| frame.0 >= 50), "the frames are from the CPU's own half");
        frames.give(&some);
        let mut again = [Frame(0); 8];
        assert_eq!(frames.take(&mut again), 8);
        assert_eq!(again, some);
        assert_eq!(frames.count(), 92);
    }

    #[test]
    fn a_large_page_stays_whole_while_other_frames_are_free() {
        let frames = Frames::new(3 * LARGE, 1);
        let first = frames.take_large().unwrap();
        frames.give_large(first);
        let mut some = vec![Frame(0); 2 * LARGE];
        assert_eq!(frames.take(&mut some), 2 * LARGE);
        let last = frames.take_large().expect("the other frames were in two runs");
        assert_eq!(frames.take(&mut some[..1]), 0);
        frames.give_large(last);
        assert_eq!(frames.count(), LARGE);
        assert_eq!(frames.take(&mut some), LARGE);
    }

    #[test]
    fn each_cpu_can_allocate_all_frames() {
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
            assert!(numbers.into_iter().eq(0..101), "each frame is allocated once");
            assert_eq!(frames.count(), 0);
            frames.give(&all);
        }
    }

    #[test]
    fn no_frame_is_lost_or_allocated_twice_while_cpus_steal() {
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

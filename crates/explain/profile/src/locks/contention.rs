//! Pairs begin and end records into waits.
//!
//! The waiting thread writes both records. Its waits can nest: a mutex guards its queue with a spin lock,
//! and an interrupt may take locks at any time. Each thread therefore has a stack of waits, and an end
//! record belongs to the innermost wait for the same lock.
//!
//! ```text
//! begin mutex ─ begin spin ─ end spin ─ begin mutex (it sleeps now) ─ end mutex
//! └──────────────────────────── one wait for the mutex ────────────────────────┘
//! ```
//!
//! A wait with an unknown end is left out, so that no duration is overestimated.

use foldhash::HashMap;
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::Waits;
use super::kinds::MUTEX;

/// A waiting thread: its TID, and the CPU for the idle threads, which all have TID 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    number: i32,
    cpu: u32,
}

impl Thread {
    pub(crate) fn new(number: i32, cpu: u32) -> Thread {
        Thread { number, cpu: if number == 0 { cpu } else { 0 } }
    }
}

/// A wait that has not ended.
#[derive(Debug)]
struct Open {
    lock: u64,
    flags: u32,
    /// The time of its begin, in nanoseconds.
    since: u64,
    /// The index of its stack.
    stack: usize,
}

/// Collects waits. Its size grows with distinct stacks and threads, not with waits.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    open: HashMap<Thread, Vec<Open>>,
    /// Waits by stack: flags, then addresses from the innermost outward.
    stacks: IndexMap<Box<[u64]>, Waits, RandomState>,
    key: Vec<u64>,
    /// Waits that have begun so far.
    pub(crate) seen: u64,
    /// Waits that are left out because a record is missing.
    pub(crate) unmatched: u64,
}

impl Contention {
    /// A thread begins to wait at a time in nanoseconds. `stack` contains addresses from the innermost outward.
    pub(crate) fn begin(
        &mut self,
        thread: Thread,
        lock: u64,
        flags: u32,
        time: u64,
        stack: impl IntoIterator<Item = u64>,
    ) {
        let open = self.open.entry(thread).or_default();
        if let Some(place) = open.iter().rposition(|open| open.lock == lock) {
            // A mutex has a second begin record when the thread stops spinning and sleeps: __mutex_lock_common
            // in kernel/locking/mutex.c. No other kind of lock has two begin records for one wait.
            let goes_on = open[place].flags & flags & MUTEX != 0;
            let kept = place + usize::from(goes_on);
            self.unmatched += (open.len() - kept) as u64;
            open.truncate(kept);
            if goes_on {
                return;
            }
        }
        self.seen += 1;
        self.key.clear();
        self.key.push(flags.into());
        self.key.extend(stack);
        let known = self.stacks.get_index_of(self.key.as_slice());
        let stack = known.unwrap_or_else(|| {
            self.stacks.insert_full(self.key.as_slice().into(), Waits::default()).0
        });
        open.push(Open { lock, flags, since: time, stack });
    }

    /// A thread ends a wait.
    pub(crate) fn end(&mut self, thread: Thread, lock: u64, time: u64) {
        let open = self.open.get_mut(&thread);
        let found = open.and_then(|open| Some((open.iter().rposition(|o| o.lock == lock)?, open)));
        let Some((place, open)) = found else {
            self.unmatched += 1;
            return;
        };
        self.unmatched += (open.len() - place - 1) as u64;
        let wait = &open[place];
        self.stacks[wait.stack].add(time.saturating_sub(wait.since));
        open.truncate(place);
    }

    /// A thread has exited. Its open waits ended after the recording, because a waiting thread cannot exit.
    pub(crate) fn exit(&mut self, thread: Thread) {
        for open in self.open.remove(&thread).unwrap_or_default() {
            self.stacks[open.stack].still_waiting += 1;
        }
    }

    /// Records were lost: open waits may have ended and begun again meanwhile.
    pub(crate) fn lost(&mut self) {
        self.unmatched += self.open.drain().map(|(_, open)| open.len() as u64).sum::<u64>();
    }

    /// The recording is over: open waits have not ended.
    pub(crate) fn close(&mut self) {
        for open in self.open.drain().flat_map(|(_, open)| open) {
            self.stacks[open.stack].still_waiting += 1;
        }
    }

    /// Flags and addresses of each stack, and its waits.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (&[u64], &Waits)> {
        self.stacks.iter().map(|(key, waits)| (&**key, waits))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPIN: u32 = 1;
    const WRITE: u32 = 4;
    const ONE: Thread = Thread { number: 1, cpu: 0 };
    const TWO: Thread = Thread { number: 2, cpu: 0 };

    /// Waits by flags: acquisitions, total, longest, still waiting.
    fn of(contention: &Contention, flags: u32) -> (u64, u64, u64, u64) {
        let mut all = Waits::default();
        contention
            .stacks()
            .filter(|(key, _)| key[0] == u64::from(flags))
            .for_each(|(_, waits)| all.join(waits));
        (all.acquisitions, all.total_ns, all.longest_ns, all.still_waiting)
    }

    #[test]
    fn a_wait_lasts_from_its_begin_to_its_end() {
        let mut contention = Contention::default();
        contention.begin(ONE, 0xa, WRITE, 100, [1, 2]);
        contention.begin(TWO, 0xa, WRITE, 110, [1, 2]);
        contention.end(ONE, 0xa, 150);
        contention.end(TWO, 0xa, 190);
        assert_eq!(of(&contention, WRITE), (2, 130, 80, 0));
        assert_eq!((contention.stacks().count(), contention.unmatched), (1, 0));
    }

    #[test]
    fn waits_nest() {
        let mut contention = Contention::default();
        contention.begin(ONE, 0xa, WRITE, 100, [1]);
        contention.begin(ONE, 0xb, SPIN, 110, [2]);
        contention.begin(ONE, 0xc, SPIN, 112, [3]);
        contention.end(ONE, 0xc, 115);
        contention.end(ONE, 0xb, 120);
        contention.end(ONE, 0xa, 200);
        assert_eq!(of(&contention, WRITE), (1, 100, 100, 0));
        assert_eq!(of(&contention, SPIN), (2, 13, 10, 0));
    }

    #[test]
    fn spinning_and_sleeping_for_a_mutex_are_one_wait() {
        let mut contention = Contention::default();
        contention.begin(ONE, 0xa, MUTEX | SPIN, 100, [1]);
        contention.begin(ONE, 0xa, MUTEX, 150, [1]);
        contention.end(ONE, 0xa, 300);
        assert_eq!(of(&contention, MUTEX | SPIN), (1, 200, 200, 0));
        assert_eq!((of(&contention, MUTEX).0, contention.unmatched), (0, 0));
    }

    #[test]
    fn a_wait_without_an_end_is_left_out() {
        let mut contention = Contention::default();
        contention.begin(ONE, 0xa, SPIN, 100, [1]);
        contention.begin(ONE, 0xa, SPIN, 500, [1]);
        contention.end(ONE, 0xa, 510);
        assert_eq!((of(&contention, SPIN), contention.unmatched), ((1, 10, 10, 0), 1));
        // The end of the inner wait is missing. The end of the outer wait implies it.
        contention.begin(ONE, 0xa, WRITE, 600, [1]);
        contention.begin(ONE, 0xb, SPIN, 610, [1]);
        contention.end(ONE, 0xa, 700);
        assert_eq!((of(&contention, WRITE), contention.unmatched), ((1, 100, 100, 0), 2));
    }

    #[test]
    fn an_end_without_a_begin_is_not_a_wait() {
        let mut contention = Contention::default();
        contention.end(ONE, 0xa, 100);
        contention.begin(ONE, 0xb, SPIN, 200, [1]);
        contention.end(ONE, 0xa, 210);
        contention.end(ONE, 0xb, 220);
        assert_eq!((of(&contention, SPIN), contention.unmatched), ((1, 20, 20, 0), 2));
    }

    #[test]
    fn no_wait_spans_lost_records() {
        let mut contention = Contention::default();
        contention.begin(ONE, 0xa, MUTEX, 100, [1]);
        contention.lost();
        contention.begin(ONE, 0xa, MUTEX, 900, [1]);
        contention.end(ONE, 0xa, 910);
        assert_eq!((of(&contention, MUTEX), contention.unmatched), ((1, 10, 10, 0), 1));
    }

    #[test]
    fn a_wait_at_the_end_is_counted_as_unfinished() {
        let mut contention = Contention::default();
        contention.begin(ONE, 0xa, WRITE, 100, [1]);
        contention.begin(TWO, 0xa, WRITE, 100, [1]);
        contention.exit(ONE);
        contention.close();
        assert_eq!((of(&contention, WRITE), contention.unmatched), ((0, 0, 0, 2), 0));
    }

    #[test]
    fn idle_threads_of_two_cpus_are_distinct() {
        let mut contention = Contention::default();
        contention.begin(Thread::new(0, 0), 0xa, SPIN, 100, [1]);
        contention.begin(Thread::new(0, 1), 0xa, SPIN, 110, [1]);
        contention.end(Thread::new(0, 0), 0xa, 120);
        contention.end(Thread::new(0, 1), 0xa, 140);
        assert_eq!(of(&contention, SPIN), (2, 50, 30, 0));
        assert_eq!(Thread::new(7, 0), Thread::new(7, 1), "other threads are the same on all CPUs");
    }

    proptest! {
        #[test]
        fn no_wait_is_counted_twice_or_lost_if_records_are_missing(
            events in prop::collection::vec((0..3, 0..2, 0_u64..3), 0..200)
        ) {
            let mut contention = Contention::default();
            let (mut time, mut ends) = (0, 0);
            for (kind, thread, lock) in events {
                time += 1;
                let thread = Thread::new(thread + 1, 0);
                match kind {
                    0 => contention.begin(thread, lock, SPIN, time, [lock]),
                    1 => {
                        let before = contention.unmatched;
                        let open = contention.open.get(&thread);
                        let matches = open.is_some_and(|o| o.iter().any(|o| o.lock == lock));
                        contention.end(thread, lock, time);
                        if !matches {
                            ends += 1;
                            prop_assert_eq!(contention.unmatched, before + 1);
                        }
                    }
                    _ if lock == 0 => contention.exit(thread),
                    _ => continue,
                }
            }
            contention.close();
            let (over, total, longest, waiting) = of(&contention, SPIN);
            let left_out = contention.unmatched - ends;
            prop_assert_eq!(contention.seen, over + waiting + left_out);
            prop_assert!(longest <= total && total <= longest.saturating_mul(over));
        }
    }
}

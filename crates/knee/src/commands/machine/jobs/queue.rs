//! The jobs that are left, as the seats of all machines take them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs that wait or run.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// How often a failed job is repeated.
    retries: u32,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<usize>,
    running: usize,
    /// Jobs that are done or have no attempts left.
    ended: usize,
    attempts: BTreeMap<usize, u32>,
    is_stopped: bool,
}

/// Counts of jobs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) running: usize,
    pub(super) ended: usize,
    pub(super) waiting: usize,
}

impl Queue {
    pub(super) fn new(jobs: impl IntoIterator<Item = usize>, retries: u32) -> Self {
        let state = State { waiting: jobs.into_iter().collect(), ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new(), retries }
    }

    /// The next job. Waits while other jobs run, because they may have to be repeated. `None` if all jobs have
    /// ended, after [`Queue::stop`], or if the machine of the caller is lost.
    pub(super) fn take(&self, is_lost: impl Fn() -> bool) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.is_stopped || is_lost() {
                return None;
            }
            if let Some(job) = state.waiting.pop_front() {
                state.begin(job);
                return Some(job);
            }
            if state.running == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// All jobs that wait, for an engine with a queue of its own.
    pub(super) fn take_all(&self) -> Vec<usize> {
        let mut state = self.lock();
        let jobs: Vec<usize> = std::mem::take(&mut state.waiting).into();
        jobs.iter().for_each(|&job| state.begin(job));
        jobs
    }

    /// An attempt of a job has ended. A job that is not done waits again if it has attempts left.
    pub(super) fn ended(&self, job: usize, is_done: bool) {
        let mut state = self.lock();
        state.running -= 1;
        match is_done || state.attempts_of(job) > self.retries {
            true => state.ended += 1,
            false => state.waiting.push_back(job),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the work: no seat gets another job.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// How often a job has been attempted.
    pub(super) fn attempts(&self, job: usize) -> u32 {
        self.lock().attempts_of(job)
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.lock();
        Counts { running: state.running, ended: state.ended, waiting: state.waiting.len() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, job: usize) {
        self.running += 1;
        *self.attempts.entry(job).or_default() += 1;
    }

    fn attempts_of(&self, job: usize) -> u32 {
        self.attempts.get(&job).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_job_is_repeated_after_the_others_until_its_retries_are_used_up() {
        let queue = Queue::new([1, 2], 1);
        let next = || queue.take(|| false);
        assert_eq!((next(), next()), (Some(1), Some(2)));
        queue.ended(1, false);
        queue.ended(2, true);
        assert_eq!(queue.counts(), Counts { running: 0, ended: 1, waiting: 1 });
        assert_eq!(next(), Some(1));
        queue.ended(1, false);
        assert_eq!((next(), queue.attempts(1), queue.attempts(2)), (None, 2, 1));
    }

    #[test]
    fn a_seat_waits_for_jobs_that_may_have_to_be_repeated() {
        let queue = Queue::new([1], 1);
        assert_eq!(queue.take(|| false), Some(1));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| queue.take(|| false));
            queue.ended(1, false);
            assert_eq!(other.join().unwrap(), Some(1));
        });
    }

    #[test]
    fn nobody_gets_a_job_after_the_end_or_on_a_lost_machine() {
        let queue = Queue::new([1], 0);
        assert_eq!(queue.take(|| true), None);
        assert_eq!(queue.take(|| false), Some(1));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.take(|| false));
            queue.stop();
            assert_eq!(waits.join().unwrap(), None);
        });
    }
}

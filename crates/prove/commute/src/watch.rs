//! A list of the running explorations, so that knee can report models that panic or loop forever.
//!
//! A model that panics, or that loops forever without asking a question, cannot report its path
//! itself.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::literal::Literal;

/// An execution that takes this long counts as stuck. Executions normally take microseconds.
pub const STUCK: Duration = Duration::from_secs(10);

/// All running explorations.
static RUNNING: Mutex<Vec<Arc<Progress>>> = Mutex::new(Vec::new());

thread_local! {
    /// The exploration that this thread runs.
    static ON_THIS_THREAD: RefCell<Option<Arc<Progress>>> = const { RefCell::new(None) };
}

/// The current execution of an exploration.
struct Snapshot {
    /// The operations.
    operations: Vec<&'static str>,
    /// The answers so far.
    path: Vec<String>,
    /// The time since the execution began.
    running: Duration,
}

impl std::fmt::Display for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() { "nothing".into() } else { self.path.join(", ") };
        write!(f, "{}, after: {path}", self.operations.join(" and "))
    }
}

/// The current execution, shared by an exploration and its watchers.
#[derive(Debug)]
pub(crate) struct Progress {
    operations: Vec<&'static str>,
    situations: AtomicUsize,
    execution: Mutex<(Instant, Vec<(Literal, bool)>)>,
}

impl Progress {
    fn execution(&self) -> MutexGuard<'_, (Instant, Vec<(Literal, bool)>)> {
        // A panic cannot leave the data inconsistent, so poisoning is ignored.
        self.execution.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Begins an execution.
    pub(crate) fn start(&self) {
        let mut execution = self.execution();
        execution.0 = Instant::now();
        execution.1.clear();
    }

    /// Records a decision.
    pub(crate) fn decided(&self, literal: &Literal, answer: bool) {
        self.execution().1.push((literal.clone(), answer));
    }

    /// Records that an execution defined a situation.
    pub(crate) fn found_situation(&self) {
        self.situations.fetch_add(1, Relaxed);
    }

    fn snapshot(&self) -> Snapshot {
        let execution = self.execution();
        Snapshot {
            operations: self.operations.clone(),
            path: execution.1.iter().map(|(literal, answer)| literal.show(*answer)).collect(),
            running: execution.0.elapsed(),
        }
    }
}

/// Lists an exploration as running until this guard is dropped.
pub(crate) struct Running(pub(crate) Arc<Progress>);

impl Running {
    pub(crate) fn new(operations: Vec<&'static str>) -> Self {
        let execution = Mutex::new((Instant::now(), Vec::new()));
        let progress =
            Arc::new(Progress { operations, situations: AtomicUsize::new(0), execution });
        running().push(Arc::clone(&progress));
        ON_THIS_THREAD.set(Some(Arc::clone(&progress)));
        Self(progress)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        running().retain(|progress| !Arc::ptr_eq(progress, &self.0));
        ON_THIS_THREAD.set(None);
    }
}

fn running() -> MutexGuard<'static, Vec<Arc<Progress>>> {
    RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The execution that this thread runs, for the panic hook.
fn on_this_thread() -> Option<Snapshot> {
    ON_THIS_THREAD.with_borrow(|progress| progress.as_ref().map(|progress| progress.snapshot()))
}

/// The execution that has run longest, if it has run for at least `limit`.
fn stuck(limit: Duration) -> Option<Snapshot> {
    let executions: Vec<Snapshot> = running().iter().map(|progress| progress.snapshot()).collect();
    executions
        .into_iter()
        .filter(|execution| execution.running >= limit)
        .max_by_key(|execution| execution.running)
}

/// The number of situations that the running exploration has found so far. If several explorations are
/// running, the largest of their numbers.
pub fn situations_so_far() -> usize {
    running().iter().map(|progress| progress.situations.load(Relaxed)).max().unwrap_or(0)
}

/// Watches all explorations of this process. After a panic, calls `report` with the execution that
/// panicked. If an execution is stuck, calls `report` and ends the process with status 4.
pub fn watch(report: impl Fn(String) + Copy + Send + Sync + 'static) {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        previous(panic);
        if let Some(execution) = on_this_thread() {
            report(format!("the model panicked: {execution}"));
        }
    }));
    std::thread::spawn(move || {
        let mut was_stuck = false;
        loop {
            std::thread::sleep(STUCK / 20);
            let execution = stuck(STUCK);
            // If the whole machine was paused, a check may find an execution that only seems stuck. By the
            // next check, such an execution has ended. That is why the process ends only if two checks in a
            // row find a stuck execution.
            if was_stuck && let Some(execution) = &execution {
                let seconds = execution.running.as_secs();
                report(format!(
                    "an execution of the model has run for {seconds} s and probably does not terminate: \
                     {execution}"
                ));
                std::process::exit(4);
            }
            was_stuck = execution.is_some();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::exploration::Limits;
    use crate::generate::Wanted;
    use crate::model::Model;
    use crate::models::counter::counter;

    #[test]
    fn the_situations_of_a_running_exploration_are_counted() {
        let (counter, mut tests) = (counter(), 0);
        let wanted = Wanted { patterns: 1, differing: true };
        let take = &mut |_| {
            tests += 1;
            assert!(situations_so_far() >= tests);
            ControlFlow::Continue(())
        };
        counter.generate(&[0, 0], &Limits::default(), &wanted, take).unwrap();
        assert!(tests > 0);
    }
}

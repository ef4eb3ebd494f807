//! What is being explored just now: for whoever waits, and for the words after a panic.
//!
//! A model may loop for ever without asking anything, or panic; both can be told only from
//! outside, by the path that leads there.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::literal::Literal;

/// All explorations that are under way.
static UNDER_WAY: Mutex<Vec<Arc<Progress>>> = Mutex::new(Vec::new());

thread_local! {
    /// The exploration of this thread.
    static OF_THIS_THREAD: RefCell<Option<Arc<Progress>>> = const { RefCell::new(None) };
}

/// The execution that an exploration is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The operations.
    pub operations: Vec<&'static str>,
    /// What has been answered so far.
    pub path: Vec<String>,
    /// How long ago it began.
    pub running: Duration,
}

impl std::fmt::Display for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() { "nothing".into() } else { self.path.join(", ") };
        write!(f, "{}, after: {path}", self.operations.join(" and "))
    }
}

/// Shared by an exploration and whoever watches it.
#[derive(Debug)]
pub(crate) struct Progress {
    operations: Vec<&'static str>,
    execution: Mutex<(Instant, Vec<(Literal, bool)>)>,
}

impl Progress {
    fn execution(&self) -> MutexGuard<'_, (Instant, Vec<(Literal, bool)>)> {
        // Whoever panicked has left nothing half done in it.
        self.execution.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// An execution begins.
    pub(crate) fn start(&self) {
        let mut execution = self.execution();
        execution.0 = Instant::now();
        execution.1.clear();
    }

    /// A question was answered.
    pub(crate) fn decided(&self, literal: &Literal, answer: bool) {
        self.execution().1.push((literal.clone(), answer));
    }

    fn now(&self) -> Snapshot {
        let execution = self.execution();
        Snapshot {
            operations: self.operations.clone(),
            path: execution.1.iter().map(|(literal, answer)| literal.show(*answer)).collect(),
            running: execution.0.elapsed(),
        }
    }
}

/// An exploration that is under way as long as this lives.
pub(crate) struct UnderWay(pub(crate) Arc<Progress>);

impl UnderWay {
    pub(crate) fn of(operations: Vec<&'static str>) -> Self {
        let execution = Mutex::new((Instant::now(), Vec::new()));
        let progress = Arc::new(Progress { operations, execution });
        under_way().push(Arc::clone(&progress));
        OF_THIS_THREAD.set(Some(Arc::clone(&progress)));
        Self(progress)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        under_way().retain(|progress| !Arc::ptr_eq(progress, &self.0));
        OF_THIS_THREAD.set(None);
    }
}

fn under_way() -> MutexGuard<'static, Vec<Arc<Progress>>> {
    UNDER_WAY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The execution that this thread is in: what a panic hook tells.
pub fn on_this_thread() -> Option<Snapshot> {
    OF_THIS_THREAD.with_borrow(|progress| progress.as_ref().map(|progress| progress.now()))
}

/// The execution that has been running longest, where one has for `limit`: models take
/// microseconds, so one that does not end within seconds never will.
pub fn stuck(limit: Duration) -> Option<Snapshot> {
    let executions: Vec<Snapshot> = under_way().iter().map(|progress| progress.now()).collect();
    executions
        .into_iter()
        .filter(|execution| execution.running >= limit)
        .max_by_key(|execution| execution.running)
}

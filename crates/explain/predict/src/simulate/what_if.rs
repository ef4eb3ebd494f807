//! What would come next: the workload after a change.

use super::workload::{Iteration, Lock, SHOOTDOWN, Scope, Step, Workload};

/// The largest `iterations` of [`Workload::batch`]. The recorded iterations are repeated as often.
pub const MOST_ITERATIONS: usize = 256;
/// The most steps of all traced CPUs after a change. Each takes 24 bytes.
const MOST_STEPS: usize = 1 << 24;

/// Why a change is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Neither a line nor a lock has the name.
    #[error("no shared line or lock is named {0:?}")]
    Unknown(String),
    /// The batch is too small or too large.
    #[error("a batch must be from 1 to {MOST_ITERATIONS} iterations")]
    Batch,
    /// The changed workload would be too long.
    #[error(
        "the workload would have more than {MOST_STEPS} steps; trace fewer rounds, or take smaller \
         batches"
    )]
    TooLong,
}

/// The lines and locks with a name, and the locks in these lines, or the shootdowns.
struct Named {
    lines: Vec<usize>,
    locks: Vec<usize>,
    shootdowns: bool,
}

impl Named {
    fn find(workload: &Workload, name: &str) -> Result<Self, ChangeError> {
        let lines = workload.lines.iter().enumerate().filter(|(_, line)| line.name == name);
        let line_of = |lock: &Lock| workload.lines.get(lock.line);
        let is_named =
            |lock: &Lock| lock.name == name || line_of(lock).is_some_and(|line| line.name == name);
        let locks = workload.locks.iter().enumerate().filter(|(_, lock)| is_named(lock));
        let named = Self {
            lines: lines.map(|(index, _)| index).collect(),
            locks: locks.map(|(index, _)| index).collect(),
            shootdowns: name == SHOOTDOWN && workload.has_shootdowns(),
        };
        match named.lines.is_empty() && named.locks.is_empty() && !named.shootdowns {
            true => Err(ChangeError::Unknown(name.to_owned())),
            false => Ok(named),
        }
    }

    fn has_lock(&self, lock: usize) -> bool {
        self.locks.contains(&lock)
    }

    fn uses(&self, step: &Step) -> bool {
        match step {
            Step::Compute { .. } => false,
            Step::Shootdown => self.shootdowns,
            Step::Visit { line, .. } => self.lines.contains(line),
            Step::Acquire { lock, .. } | Step::Release { lock } => self.has_lock(*lock),
        }
    }

    /// The steps without uses of the lines, and without sections of the locks, including the visits
    /// inside. The instructions remain, and so do sections of other locks inside.
    fn removed(&self, iteration: &Iteration) -> Iteration {
        let mut held: Vec<usize> = Vec::new();
        let mut steps = Vec::with_capacity(iteration.steps.len());
        for step in &iteration.steps {
            let is_inside = held.last().is_some_and(|lock| self.has_lock(*lock));
            match *step {
                Step::Acquire { lock, .. } => held.push(lock),
                Step::Release { lock } => held.retain(|other| *other != lock),
                _ => {}
            }
            let is_visit = matches!(step, Step::Visit { .. });
            if !(self.uses(step) || is_visit && is_inside) {
                steps.push(*step);
            }
        }
        Iteration { steps }
    }
}

impl Workload {
    /// The workload without visits of this line and the locks in it, or without this lock. Other
    /// lines that were visited under the lock remain.
    ///
    /// # Errors
    /// Nothing has the name.
    pub fn without(&self, name: &str) -> Result<Self, ChangeError> {
        let named = Named::find(self, name)?;
        let mut changed = self.clone();
        let all = changed.recorded.iter_mut().flat_map(|recorded| &mut recorded.iterations);
        all.for_each(|iteration| iteration.steps.retain(|step| !named.uses(step)));
        Ok(changed)
    }

    /// The workload with such a line or lock for each task. Nobody has to interrupt a task whose
    /// address space is its own.
    ///
    /// # Errors
    /// Nothing has the name.
    pub fn split(&self, name: &str) -> Result<Self, ChangeError> {
        let named = Named::find(self, name)?;
        if named.shootdowns {
            return self.without(name);
        }
        let mut changed = self.clone();
        named.lines.into_iter().for_each(|line| changed.lines[line].scope = Scope::Task);
        named.locks.into_iter().for_each(|lock| changed.locks[lock].scope = Scope::Task);
        Ok(changed)
    }

    /// The workload with visits of this line, or sections of this lock, in only one of so many
    /// iterations. The instructions of the others remain, because they are part of the measured
    /// time.
    ///
    /// # Errors
    /// Nothing has the name, the number is 0 or above [`MOST_ITERATIONS`], or the workload would have more
    /// than 16 million steps.
    pub fn batch(&self, name: &str, iterations: usize) -> Result<Self, ChangeError> {
        if !(1..=MOST_ITERATIONS).contains(&iterations) {
            return Err(ChangeError::Batch);
        }
        let named = Named::find(self, name)?;
        let steps: usize = self.iterations().map(|iteration| iteration.steps.len()).sum();
        if steps.saturating_mul(iterations) > MOST_STEPS {
            return Err(ChangeError::TooLong);
        }
        let mut changed = self.clone();
        for recorded in &mut changed.recorded {
            // Each iteration is among the copies as often as there are iterations in a batch, and
            // once as it was.
            let copy = |copy: usize| {
                recorded.iterations.iter().enumerate().map({
                    let named = &named;
                    move |(nr, iteration)| match (nr + copy).is_multiple_of(iterations) {
                        true => iteration.clone(),
                        false => named.removed(iteration),
                    }
                })
            };
            recorded.iterations = (0..iterations).flat_map(copy).collect();
        }
        Ok(changed)
    }
}

//! What tasks do, as far as contention depends on it.

use std::collections::BTreeSet;

/// Recorded iterations of an operation, and the lines and locks that they use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// The iterations of each traced CPU. Each task replays those of one CPU.
    pub recorded: Vec<Recorded>,
    /// The cache lines that CPUs share.
    pub lines: Vec<Line>,
    /// The locks that CPUs share. A lock's word is part of the lock: there is no line for it.
    pub locks: Vec<Lock>,
    /// Whether tasks interrupt each other's CPUs and wait for them, as for a TLB shootdown. That is not simulated, so
    /// points of several tasks are of [`Class::D`](super::Class::D).
    pub interrupts: bool,
}

/// The iterations of a traced CPU, in order. A task replays them again and again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// The memory node of the CPU. A task replays the iterations of a CPU whose node is that of the
    /// task's own CPU, modulo the number of traced nodes or of
    /// sockets, whichever is smaller.
    pub node: usize,
    /// The iterations.
    pub iterations: Vec<Iteration>,
}

/// One iteration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Iteration {
    /// What it does, in order.
    pub steps: Vec<Step>,
}

/// A part of an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Instructions between other steps. They include accesses to lines that no other CPU uses.
    Compute {
        /// How many.
        instructions: f64,
    },
    /// An access to a line.
    Visit {
        /// Index in [`Workload::lines`].
        line: usize,
        /// What kind.
        access: Access,
    },
    /// Taking a lock.
    Acquire {
        /// Index in [`Workload::locks`].
        lock: usize,
        /// With whom it is shared.
        hold: Hold,
    },
    /// Giving a lock back, in the same iteration.
    Release {
        /// Index in [`Workload::locks`].
        lock: usize,
    },
}

/// What a visit does to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Load,
    /// It only writes, and does not wait for the line.
    Store,
    /// It reads and writes as one, such as `lock xadd`.
    Atomic,
    /// A load, and a compare-and-swap that expects the value of the load.
    CompareExchange,
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// By one task.
    Exclusive,
    /// By any number of readers.
    Shared,
}

/// A cache line, or several of the same kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name, such as `aa_profile.label.count`.
    pub name: String,
    /// Who shares one.
    pub scope: Scope,
}

/// A lock, or several of the same kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// Its name, such as `files_struct.file_lock`.
    pub name: String,
    /// How tasks wait for it.
    pub kind: LockKind,
    /// Who shares one.
    pub scope: Scope,
}

/// How tasks wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// They spin in a queue, like those of qspinlock or qrwlock.
    Spin,
    /// The first one spins, and others may sleep.
    Mutex,
    /// The same, with readers.
    RwSemaphore,
}

/// Which tasks share one line or lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All tasks.
    Global,
    /// The tasks of one socket.
    Node,
    /// As many tasks as CPUs were traced, each of which replays another CPU. A line that only some
    /// of the traced CPUs touched is therefore shared by as many tasks, and not by all that replay
    /// these CPUs.
    Group,
    /// No others.
    Task,
}

/// What is wrong with a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// There is nothing to replay.
    #[error("the trace contains no iterations")]
    Empty,
    /// No time can pass.
    #[error("the iterations of traced CPU {0} contain no instructions")]
    NoInstructions(usize),
    /// An index, or a number of instructions, does not exist.
    #[error("iteration {iteration} of traced CPU {cpu} contains an invalid step (number {step})")]
    Step {
        /// Index of the traced CPU.
        cpu: usize,
        /// Index of its iteration.
        iteration: usize,
        /// Index of the step.
        step: usize,
    },
    /// A lock is taken twice, or released without being held.
    #[error("iteration {iteration} of traced CPU {cpu} does not take and release {lock} in turn")]
    Unbalanced {
        /// Index of the traced CPU.
        cpu: usize,
        /// Index of its iteration.
        iteration: usize,
        /// Name of the lock.
        lock: String,
    },
    /// Tasks that replay this could deadlock.
    #[error("{first} and {second} are taken in both orders (ABBA); they may be several locks")]
    Order {
        /// Name of a lock.
        first: String,
        /// Name of the other lock.
        second: String,
    },
}

impl Iteration {
    /// Instructions of the iteration.
    pub fn instructions(&self) -> f64 {
        let of_step = |step: &Step| match step {
            Step::Compute { instructions } => *instructions,
            _ => 0.0,
        };
        self.steps.iter().map(of_step).sum()
    }
}

impl Workload {
    /// Mean number of instructions of an iteration.
    pub fn mean_instructions(&self) -> f64 {
        let all = || self.recorded.iter().flat_map(|recorded| &recorded.iterations);
        all().map(Iteration::instructions).sum::<f64>() / all().count() as f64
    }

    /// Checks that tasks can replay it.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn check(&self) -> Result<(), WorkloadError> {
        if self.recorded.is_empty() || self.recorded.iter().any(|cpu| cpu.iterations.is_empty()) {
            return Err(WorkloadError::Empty);
        }
        let mut orders = BTreeSet::new();
        for (cpu, recorded) in self.recorded.iter().enumerate() {
            for (nr, iteration) in recorded.iterations.iter().enumerate() {
                self.check_iteration(iteration, (cpu, nr), &mut orders)?;
            }
            if recorded.iterations.iter().map(Iteration::instructions).sum::<f64>() <= 0.0 {
                return Err(WorkloadError::NoInstructions(cpu));
            }
        }
        self.check_orders(&orders)
    }

    /// Adds the pairs of locks of which the second is taken while the first is held.
    fn check_iteration(
        &self,
        iteration: &Iteration,
        (cpu, nr): (usize, usize),
        orders: &mut BTreeSet<(usize, usize)>,
    ) -> Result<(), WorkloadError> {
        let unbalanced = |lock: usize| {
            let lock = self.locks[lock].name.clone();
            Err(WorkloadError::Unbalanced { cpu, iteration: nr, lock })
        };
        let mut held: Vec<usize> = Vec::new();
        for (index, step) in iteration.steps.iter().enumerate() {
            let is_valid = match *step {
                Step::Compute { instructions } => instructions.is_finite() && instructions >= 0.0,
                Step::Visit { line, .. } => line < self.lines.len(),
                Step::Acquire { lock, .. } | Step::Release { lock } => lock < self.locks.len(),
            };
            if !is_valid {
                return Err(WorkloadError::Step { cpu, iteration: nr, step: index });
            }
            match *step {
                Step::Acquire { lock, .. } if held.contains(&lock) => return unbalanced(lock),
                Step::Acquire { lock, .. } => {
                    orders.extend(held.iter().map(|&outer| (outer, lock)));
                    held.push(lock);
                }
                Step::Release { lock } => match held.iter().position(|&other| other == lock) {
                    Some(position) => drop(held.remove(position)),
                    None => return unbalanced(lock),
                },
                _ => {}
            }
        }
        held.first().map_or(Ok(()), |&lock| unbalanced(lock))
    }

    /// Checks that no lock is taken, over any number of others, inside itself.
    fn check_orders(&self, orders: &BTreeSet<(usize, usize)>) -> Result<(), WorkloadError> {
        let mut reached = orders.clone();
        loop {
            let longer: Vec<(usize, usize)> = reached
                .iter()
                .flat_map(|&(first, second)| {
                    let from = orders.range((second, 0)..=(second, usize::MAX));
                    from.map(move |&(_, third)| (first, third))
                })
                .filter(|pair| !reached.contains(pair))
                .collect();
            if longer.is_empty() {
                break;
            }
            reached.extend(longer);
        }
        let is_circular = |&&(first, second): &&(usize, usize)| {
            first < second && reached.contains(&(second, first))
        };
        match reached.iter().find(is_circular) {
            Some(&(first, second)) => Err(WorkloadError::Order {
                first: self.locks[first].name.clone(),
                second: self.locks[second].name.clone(),
            }),
            None => Ok(()),
        }
    }
}

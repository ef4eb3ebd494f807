//! What tasks do, as far as contention depends on it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Recorded iterations of an operation, and the lines and locks that they use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The iterations of each traced CPU. Each task replays those of one CPU.
    pub recorded: Vec<Recorded>,
    /// The cache lines that CPUs share.
    pub lines: Vec<Line>,
    /// The locks that CPUs share.
    pub locks: Vec<Lock>,
}

/// The iterations of a traced CPU, in order. A task replays them again and again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// An interrupt of the CPUs of all other tasks, which use the same address space, and waiting
    /// until all of them have answered: a TLB shootdown.
    Shootdown,
}

/// The name of [`Step::Shootdown`] among the names of lines and locks.
pub const SHOOTDOWN: &str = "TLB shootdown";

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its name, such as `aa_profile.label.count`.
    pub name: String,
    /// Who shares one.
    pub scope: Scope,
}

/// A lock, or several of the same kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// Its name, such as `files_struct.file_lock`.
    pub name: String,
    /// The line that contains its word: an index in [`Workload::lines`]. Taking and releasing the
    /// lock uses this line, without being a [`Step::Visit`].
    pub line: usize,
    /// How tasks wait for it.
    pub kind: LockKind,
    /// Who shares one.
    pub scope: Scope,
}

/// How tasks wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// They spin in a queue, like those of qspinlock or qrwlock.
    Spin,
    /// The first one spins, and others may sleep.
    Mutex,
    /// The same, with readers.
    RwSemaphore,
    /// They spin, sleep or overtake each other, as a lock of a program allows.
    Futex,
}

/// Which tasks share one line or lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// The most locks that a task holds at once: `MAX_LOCK_DEPTH` of Linux (include/linux/sched.h), beyond which its checker
/// of locks gives up.
const MOST_HELD: usize = 48;
/// The most pairs of locks of which one is taken while the other is held.
const MOST_ORDERS: usize = 1 << 18;

/// What is wrong with a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// There is nothing to replay.
    #[error("the trace contains no iterations")]
    Empty,
    /// No time can pass.
    #[error("the iterations of traced CPU {0} contain no instructions")]
    NoInstructions(usize),
    /// The line of a lock does not exist.
    #[error("the line of {0} is not among those that the tasks share")]
    NoLine(String),
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
    /// More locks are held at once than in any program.
    #[error("iteration {iteration} of traced CPU {cpu} holds more than {MOST_HELD} locks at once")]
    Depth {
        /// Index of the traced CPU.
        cpu: usize,
        /// Index of its iteration.
        iteration: usize,
    },
    /// More pairs of nested locks than in any program.
    #[error(
        "the iterations take more than {MOST_ORDERS} different pairs of locks inside each other"
    )]
    Orders,
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
    /// Whether tasks interrupt each other.
    pub fn has_shootdowns(&self) -> bool {
        self.steps().any(|step| *step == Step::Shootdown)
    }

    /// The iterations of all traced CPUs.
    pub fn iterations(&self) -> impl Iterator<Item = &Iteration> {
        self.recorded.iter().flat_map(|recorded| &recorded.iterations)
    }

    /// The steps of all iterations.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.iterations().flat_map(|iteration| &iteration.steps)
    }

    /// Mean number of instructions of an iteration.
    pub fn mean_instructions(&self) -> f64 {
        let instructions = self.iterations().map(Iteration::instructions).sum::<f64>();
        instructions / self.iterations().count() as f64
    }

    /// Checks that tasks can replay it.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn check(&self) -> Result<(), WorkloadError> {
        if self.recorded.is_empty() || self.recorded.iter().any(|cpu| cpu.iterations.is_empty()) {
            return Err(WorkloadError::Empty);
        }
        if let Some(lock) = self.locks.iter().find(|lock| lock.line >= self.lines.len()) {
            return Err(WorkloadError::NoLine(lock.name.clone()));
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
                Step::Shootdown => true,
                Step::Acquire { lock, .. } | Step::Release { lock } => lock < self.locks.len(),
            };
            if !is_valid {
                return Err(WorkloadError::Step { cpu, iteration: nr, step: index });
            }
            match *step {
                Step::Acquire { lock, .. } if held.contains(&lock) => return unbalanced(lock),
                Step::Acquire { .. } if held.len() == MOST_HELD => {
                    return Err(WorkloadError::Depth { cpu, iteration: nr });
                }
                Step::Acquire { lock, .. } => {
                    orders.extend(held.iter().map(|&outer| (outer, lock)));
                    if orders.len() > MOST_ORDERS {
                        return Err(WorkloadError::Orders);
                    }
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

    /// Checks that no lock is taken, over any number of others, inside itself: removes locks inside of which no other one
    /// is taken, until none is left.
    fn check_orders(&self, orders: &BTreeSet<(usize, usize)>) -> Result<(), WorkloadError> {
        let mut outer: Vec<Vec<usize>> = vec![Vec::new(); self.locks.len()];
        let mut inside = vec![0_usize; self.locks.len()];
        for &(first, second) in orders {
            outer[second].push(first);
            inside[first] += 1;
        }
        let mut innermost: Vec<usize> = (0..inside.len()).filter(|&nr| inside[nr] == 0).collect();
        while let Some(lock) = innermost.pop() {
            for &first in &outer[lock] {
                inside[first] -= 1;
                if inside[first] == 0 {
                    innermost.push(first);
                }
            }
        }
        // Inside each lock that is left, another one that is left is taken. A walk over as many of them as there are locks
        // ends in a circle.
        let mut next: Vec<Option<usize>> = vec![None; self.locks.len()];
        for &(first, second) in orders.iter().rev().filter(|(_, second)| inside[*second] > 0) {
            next[first] = Some(second);
        }
        let Some(left) = (0..inside.len()).find(|&nr| inside[nr] > 0) else { return Ok(()) };
        let walk = (0..inside.len()).try_fold(left, |lock, _| next[lock]);
        let Some((one, other)) = walk.and_then(|lock| Some((lock, next[lock]?))) else {
            return Ok(());
        };
        Err(WorkloadError::Order {
            first: self.locks[one.min(other)].name.clone(),
            second: self.locks[one.max(other)].name.clone(),
        })
    }
}

//! What a task executes: recorded iterations without what no other task can notice.

use super::workload::{Access, Hold, Recorded, Scope, Step, Workload};

/// Instructions from one load of a line to another one that a processor executes at the same time.
/// The reorder buffer of Haswell holds 192, and that of Skylake 224 (Intel 64 and IA-32
/// Architectures Optimization Reference Manual).
const SAME_LOAD: f64 = 100.0;

/// The programs of a workload.
#[derive(Debug)]
pub(super) struct Programs {
    /// One for each traced CPU.
    pub(super) all: Vec<Program>,
    /// Mean instructions of an iteration inside locks.
    inside: f64,
    /// Mean instructions of an iteration outside of locks.
    outside: f64,
    /// Whether tasks share anything.
    pub(super) is_shared: bool,
}

/// The endless program of a task.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) operations: Vec<Operation>,
    /// Where each iteration starts.
    pub(super) starts: Vec<u32>,
}

/// A step of a program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Compute {
        instructions: f64,
        is_inside: bool,
    },
    Visit {
        line: u32,
        access: Access,
    },
    Acquire {
        lock: u32,
        hold: Hold,
    },
    Release {
        lock: u32,
        hold: Hold,
    },
    /// Interrupts of the CPUs of all other tasks.
    Shootdown,
    /// The end of an iteration.
    End,
}

/// Time of an instruction, in iterations on one CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) inside: f64,
    pub(super) outside: f64,
}

impl Pace {
    /// The pace in ns if an iteration takes so many.
    pub(super) fn slower(self, iteration_ns: f64) -> Self {
        Self { inside: self.inside * iteration_ns, outside: self.outside * iteration_ns }
    }
}

impl Programs {
    /// The programs of a workload that has been checked.
    pub(super) fn new(workload: &Workload) -> Self {
        let all: Vec<Program> =
            workload.recorded.iter().map(|recorded| Program::new(workload, recorded)).collect();
        let iterations = all.iter().map(|program| program.starts.len()).sum::<usize>() as f64;
        let (mut inside, mut outside) = (0.0, 0.0);
        let mut is_shared = false;
        for operation in all.iter().flat_map(|program| &program.operations) {
            match operation {
                Operation::Compute { instructions, is_inside: true } => inside += instructions,
                Operation::Compute { instructions, is_inside: false } => outside += instructions,
                Operation::End => {}
                _ => is_shared = true,
            }
        }
        Self { all, inside: inside / iterations, outside: outside / iterations, is_shared }
    }

    /// The share of an iteration's time that is spent inside locks.
    pub(super) fn share_inside(&self, section: f64) -> f64 {
        self.pace(section).inside * self.inside
    }

    /// The pace of instructions if those inside locks take `section` times as long as the mean
    /// instruction. The time of a whole iteration stays the same, because it has been measured.
    pub(super) fn pace(&self, section: f64) -> Pace {
        let all = self.inside + self.outside;
        if self.outside == 0.0 {
            return Pace { inside: 1.0 / all, outside: 0.0 };
        }
        let section = section.min(all / self.inside);
        let outside = (all - section * self.inside) / self.outside;
        Pace { inside: section / all, outside: outside / all }
    }
}

impl Program {
    fn new(workload: &Workload, recorded: &Recorded) -> Self {
        let mut program = Self { operations: Vec::new(), starts: Vec::new() };
        for iteration in &recorded.iterations {
            program.starts.push(program.operations.len() as u32);
            // The locks that are held.
            let mut held: Vec<(usize, Hold)> = Vec::new();
            let mut done = 0.0;
            // The line that the last visit loads, and the instructions until then.
            let mut loaded: Option<(usize, f64)> = None;
            for step in &iteration.steps {
                match *step {
                    Step::Compute { instructions } => {
                        done += instructions;
                        program.compute(instructions, !held.is_empty());
                    }
                    Step::Visit { line, access } => {
                        // The first attempt of a loop takes the line for itself, even if it fails, so
                        // a load before it is all that the loop needs besides.
                        let is_loaded =
                            loaded.is_some_and(|(of, at)| of == line && done - at < SAME_LOAD);
                        let access = match access {
                            Access::CompareExchange if is_loaded => Access::Atomic,
                            access => access,
                        };
                        loaded = (access == Access::Load).then_some((line, done));
                        if workload.lines[line].scope != Scope::Task {
                            program.operations.push(Operation::Visit { line: line as u32, access });
                        }
                    }
                    Step::Acquire { lock, hold } => {
                        if workload.locks[lock].scope != Scope::Task {
                            held.push((lock, hold));
                            let lock = lock as u32;
                            program.operations.push(Operation::Acquire { lock, hold });
                        }
                    }
                    Step::Shootdown => program.operations.push(Operation::Shootdown),
                    Step::Release { lock } => {
                        if let Some(nr) = held.iter().position(|(other, _)| *other == lock) {
                            let (_, hold) = held.remove(nr);
                            let lock = lock as u32;
                            program.operations.push(Operation::Release { lock, hold });
                        }
                    }
                }
            }
            program.operations.push(Operation::End);
        }
        program
    }

    fn compute(&mut self, more: f64, is_inside: bool) {
        match self.operations.last_mut() {
            Some(Operation::Compute { instructions, is_inside: last }) if *last == is_inside => {
                *instructions += more;
            }
            _ if more > 0.0 => {
                self.operations.push(Operation::Compute { instructions: more, is_inside });
            }
            _ => {}
        }
    }
}

//! A task: where it is in its program.

use super::super::program::{Operation, Pace, Program};
use super::super::seats::Seat;
use super::super::workload::Scope;

/// A running task.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) operations: &'a [Operation],
    /// Iterations of the program.
    iterations: usize,
    /// How many times the task has executed the program.
    laps: u64,
    /// Index of the next operation.
    pub(super) next: usize,
    /// Instructions that remain of an operation that was interrupted; 0 if none was.
    pub(super) rest: f64,
    /// Lines to which it has stored, and which have not arrived.
    pub(super) stores: Vec<usize>,
    /// Instructions until the store buffer is full.
    pub(super) hidden: f64,
    /// Whether it waits for its stores.
    pub(super) drains: bool,
    /// Whether it has the word of the lock of its current operation.
    pub(super) has_word: bool,
    /// Time of an instruction in ns.
    pub(super) pace: Pace,
    seat: &'a Seat,
}

impl<'a> Task<'a> {
    pub(super) fn new(program: &'a Program, seat: &'a Seat, pace: Pace, groups: usize) -> Self {
        // Tasks that replay the same iterations start at different ones.
        let start = seat.group * program.starts.len() / groups;
        Self {
            operations: &program.operations,
            iterations: program.starts.len(),
            laps: 0,
            next: program.starts[start] as usize,
            rest: 0.0,
            stores: Vec::new(),
            hidden: 0.0,
            drains: false,
            has_word: false,
            pace,
            seat,
        }
    }

    /// The line or lock that the task uses, of those that begin at `first` and have this scope.
    pub(super) fn own(&self, (scope, first): (Scope, usize)) -> usize {
        first + self.seat.instance(scope)
    }

    /// Ends an iteration.
    pub(super) fn complete(&mut self) {
        self.next += 1;
        if self.next == self.operations.len() {
            self.next = 0;
            self.laps += 1;
        }
    }

    /// Iterations that the task has executed, with a part of the current one.
    pub(super) fn progress(&self) -> f64 {
        let share = self.next as f64 / self.operations.len() as f64;
        self.iterations as f64 * (self.laps as f64 + share)
    }
}

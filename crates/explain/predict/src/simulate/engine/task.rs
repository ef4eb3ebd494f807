//! A task: where it is in its program.

use std::collections::VecDeque;

use super::super::program::{Operation, Pace, Program};
use super::super::seats::Seat;
use super::super::workload::Scope;
use super::lock::Stage;
use super::store::Store;

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
    /// Stores that have not taken effect, in order.
    pub(super) stores: VecDeque<Store>,
    /// How many of them have requested their lines.
    pub(super) requested: usize,
    /// Instructions until the store buffer is full.
    pub(super) hidden: f64,
    /// Whether it waits for its stores.
    pub(super) drains: bool,
    /// How far it is with the lock of its current operation.
    pub(super) stage: Stage,
    /// Whether it executes instructions until its next event, so that interrupts delay it.
    pub(super) is_executing: bool,
    /// Time in ns that interrupts have taken since then.
    pub(super) interrupted: f64,
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
            stores: VecDeque::new(),
            requested: 0,
            hidden: 0.0,
            drains: false,
            stage: Stage::default(),
            is_executing: false,
            interrupted: 0.0,
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

//! A task: where it is in its program.

use super::super::program::{Operation, Pace, Program};
use super::super::seats::Seat;
use super::super::workload::Scope;

/// A running task.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) operations: &'a [Operation],
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
    group: usize,
    node: usize,
}

impl<'a> Task<'a> {
    pub(super) fn new(program: &'a Program, seat: &Seat, pace: Pace, groups: usize) -> Self {
        // Tasks that replay the same iterations start at different ones.
        let start = seat.group * program.starts.len() / groups;
        Self {
            operations: &program.operations,
            next: program.starts[start] as usize,
            rest: 0.0,
            stores: Vec::new(),
            hidden: 0.0,
            drains: false,
            has_word: false,
            pace,
            group: seat.group,
            node: seat.instance(Scope::Node),
        }
    }

    /// The one of the lines or locks of a scope that the task uses.
    pub(super) fn instance(&self, scope: Scope) -> usize {
        match scope {
            Scope::Global | Scope::Task => 0,
            Scope::Node => self.node,
            Scope::Group => self.group,
        }
    }

    /// Ends an iteration.
    pub(super) fn complete(&mut self) {
        self.next = if self.next + 1 == self.operations.len() { 0 } else { self.next + 1 };
    }
}

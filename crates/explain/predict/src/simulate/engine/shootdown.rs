//! TLB shootdowns: a CPU interrupts all others that use its address space, and waits for them.

use super::Engine;
use super::events::Event;
use crate::machine::Distance;

impl Engine<'_> {
    /// Interrupts all other tasks. Returns whether the task goes on at once.
    pub(super) fn shootdown(&mut self, task: usize) -> bool {
        if !self.has_stored(task) {
            return false;
        }
        self.tasks[task].next += 1;
        let others = self.tasks.len() - 1;
        if others == 0 {
            return true;
        }
        let handler = self.inputs.handler_ns;
        for (nr, other) in self.tasks.iter_mut().enumerate() {
            // A task that waits for a line or a lock does not lose time.
            if nr != task && other.is_executing {
                other.interrupted += handler;
            }
        }
        let time = self.inputs.interrupt_ns + self.inputs.interrupt_each_ns * (others - 1) as f64;
        // It handles interrupts while it waits.
        self.tasks[task].is_executing = true;
        self.shootdowns.services += 1;
        self.shootdowns.busy += time;
        self.shootdowns.waited += time;
        self.shootdowns.far += u64::from(self.seats.farthest == Distance::Machine);
        self.events.add(self.now + time, Event::Task(task));
        false
    }

    /// The task goes on, unless interrupts have delayed it.
    pub(super) fn resume(&mut self, nr: usize) {
        let task = &mut self.tasks[nr];
        let delay = std::mem::take(&mut task.interrupted);
        if task.is_executing && delay > 0.0 {
            self.events.add(self.now + delay, Event::Task(nr));
            return;
        }
        task.is_executing = false;
        self.go_on(nr);
    }
}

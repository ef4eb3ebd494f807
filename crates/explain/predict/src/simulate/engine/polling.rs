//! Waiting CPUs that poll a lock: they load its line again whenever another CPU has changed it.

use super::super::workload::Access;
use super::Engine;
use super::events::Event;

impl Engine<'_> {
    /// Another CPU has taken the line to write. All CPUs that poll it load it again, each at the
    /// end of its current pause.
    pub(super) fn poll_again(&mut self, line: usize) {
        while let Some(task) = self.lines[line].pollers.pop() {
            self.poll_later(task);
        }
    }

    /// Waits for the next change of the line.
    pub(super) fn watch(&mut self, task: usize, line: usize) {
        if self.lines[line].is_local(task, Access::Load) {
            self.lines[line].pollers.push(task);
        } else {
            self.poll_later(task);
        }
    }

    fn poll_later(&mut self, task: usize) {
        let pause = self.some_pause();
        self.events.add(self.now + pause, Event::Task(task));
    }

    /// The rest of a pause at a random time, in ns.
    pub(super) fn some_pause(&mut self) -> f64 {
        f64::from(self.random.rand_float()) * self.inputs.pause_ns
    }
}

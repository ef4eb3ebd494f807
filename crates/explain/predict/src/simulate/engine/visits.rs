//! Transfers of cache lines.

use super::super::workload::Access;
use super::events::Event;
use super::tally::Waiter;
use super::{Engine, HIDDEN_INSTRUCTIONS};
use crate::machine::Distance;

impl Engine<'_> {
    /// Starts the visit of a line. Returns whether the task goes on at once.
    pub(super) fn visit(&mut self, nr: usize, line: usize, access: Access) -> bool {
        if matches!(access, Access::Atomic | Access::CompareExchange) && !self.has_stored(nr) {
            return false;
        }
        let task = &mut self.tasks[nr];
        task.next += 1;
        if task.stores.contains(&line) {
            // The load gets the value from the store buffer; the store waits for the same line.
            return true;
        }
        let is_local = self.request(nr, line, access);
        if access != Access::Store || is_local {
            return is_local;
        }
        let task = &mut self.tasks[nr];
        if task.stores.is_empty() {
            task.hidden = HIDDEN_INSTRUCTIONS;
        }
        task.stores.push(line);
        true
    }

    /// Whether all stores of a task are done. Otherwise it will be woken up when they are.
    pub(super) fn has_stored(&mut self, task: usize) -> bool {
        let task = &mut self.tasks[task];
        task.drains = !task.stores.is_empty();
        !task.drains
    }

    /// Requests a line. Returns whether the task has it already. Otherwise the task will be woken
    /// up when it arrives.
    pub(super) fn request(&mut self, task: usize, nr: usize, access: Access) -> bool {
        let line = &mut self.lines[nr];
        if line.current.is_some() {
            line.queue.push_back(Waiter { task, how: access, since: self.now });
            return false;
        }
        if line.is_local(task, access) {
            line.take(task, access);
            return true;
        }
        self.start_transfer(nr, task, access);
        false
    }

    /// Brings a line to a task.
    fn start_transfer(&mut self, nr: usize, task: usize, access: Access) {
        let distance = self.lines[nr].distance(task, access, self.seats);
        let once = distance.map_or(0.0, |distance| self.transfer(distance));
        let line = &mut self.lines[nr];
        if access == Access::Load && line.is_shared() {
            line.take(task, access);
            self.events.add(self.now + once, Event::Task(task));
            return;
        }
        line.current = Some((task, access));
        line.tally.begin(self.now);
        line.tally.services += 1;
        line.tally.far += u64::from(distance == Some(Distance::Machine));
        let transfers = if access == Access::CompareExchange { 2.0 } else { 1.0 };
        self.events.add(self.now + transfers * once, Event::Line(nr));
    }

    /// The line has arrived. Its next transfer starts, and the task goes on.
    pub(super) fn end_transfer(&mut self, nr: usize) {
        let line = &mut self.lines[nr];
        let (task, access) = line.current.take().expect("a transfer is under way");
        line.take(task, access);
        line.tally.end(self.now);
        while let Some(waiter) = self.next_waiter(nr) {
            self.lines[nr].tally.waited += self.now - waiter.since.max(self.start);
            self.start_transfer(nr, waiter.task, waiter.how);
        }
        if access != Access::Store {
            self.go_on(task);
            return;
        }
        let of_task = &mut self.tasks[task];
        of_task.stores.retain(|stored| *stored != nr);
        if of_task.stores.is_empty() && std::mem::take(&mut of_task.drains) {
            self.go_on(task);
        }
    }

    /// Removes the next one from the queue of a line, unless a transfer is under way.
    fn next_waiter(&mut self, nr: usize) -> Option<Waiter<Access>> {
        let line = &mut self.lines[nr];
        if line.current.is_some() || line.queue.is_empty() {
            return None;
        }
        let is_by_distance =
            line.queue.len() > 1 && f64::from(self.random.rand_float()) < self.inputs.near_first;
        let index = if is_by_distance { line.nearest(self.seats) } else { 0 };
        line.queue.remove(index)
    }
}

//! Transfers of cache lines.

use super::super::workload::Access;
use super::Engine;
use super::events::Event;
use super::tally::Waiter;
use crate::machine::Distance;

impl Engine<'_> {
    /// Starts the visit of a line. Returns whether the task goes on at once.
    pub(super) fn visit(&mut self, nr: usize, line: usize, access: Access) -> bool {
        if matches!(access, Access::Atomic | Access::CompareExchange) && !self.has_stored(nr) {
            return false;
        }
        let task = &mut self.tasks[nr];
        task.next += 1;
        if task.stores.iter().any(|store| store.line == line) {
            // The load gets the value from the store buffer; the store waits for the same line.
            return true;
        }
        if access == Access::Store {
            self.store(nr, line, None);
            return true;
        }
        self.request(nr, line, access)
    }

    /// Requests a line. Returns whether the task has it already. Otherwise the task will be woken
    /// up when it arrives.
    pub(super) fn request(&mut self, task: usize, nr: usize, access: Access) -> bool {
        let line = &mut self.lines[nr];
        if line.current.is_some() {
            if line.keeps(task, access, self.now) {
                return true;
            }
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
        line.kept_until = self.now + self.inputs.kept * once;
        line.tally.begin(self.now);
        line.tally.services += 1;
        line.tally.far += u64::from(distance == Some(Distance::Machine));
        // The load needs no transfer if the CPU still has a copy from before.
        let loads = access == Access::CompareExchange && !line.is_local(task, Access::Load);
        let transfers = if loads { self.inputs.compare } else { 1.0 };
        self.events.add(self.now + transfers * once, Event::Line(nr));
    }

    /// The line has arrived. Its next transfer starts, and the task goes on.
    pub(super) fn end_transfer(&mut self, nr: usize) {
        let line = &mut self.lines[nr];
        let (task, access) = line.current.take().expect("a transfer is under way");
        line.take(task, access);
        line.tally.end(self.now);
        if !line.is_shared() {
            self.poll_again(nr);
        }
        while let Some(waiter) = self.next_waiter(nr) {
            self.lines[nr].tally.waited += self.now - waiter.since.max(self.start);
            self.start_transfer(nr, waiter.task, waiter.how);
        }
        match access {
            Access::Store => self.end_stores(task, nr),
            _ => self.go_on(task),
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

//! The store buffer of a task: stores wait for their lines, and take effect in order.

use super::super::workload::Access;
use super::store::{Progress, Store};
use super::{Engine, HIDDEN_INSTRUCTIONS};

/// Lines that a CPU can request at the same time: the L1 cache of Haswell has 10 fill buffers, that of
/// Skylake 12, and that of Ice Lake 16 (Intel 64 and IA-32 Architectures Optimization Reference
/// Manual). A copy of a page makes that many transfers at once.
const FILL_BUFFERS: usize = 12;

impl Engine<'_> {
    /// Stores to a line, and may release a lock by that. The task goes on at once.
    ///
    /// The lines of several stores are requested at the same time, but stores take effect in order, as on
    /// x86 (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, 9.2.2). A
    /// release requests its line when all earlier stores have taken effect: the waiting CPU that
    /// polls the lock would otherwise take it back before.
    pub(super) fn store(&mut self, task: usize, line: usize, releases: Option<usize>) {
        let stores = &mut self.tasks[task].stores;
        let is_first = stores.is_empty();
        stores.push_back(Store { line, progress: Progress::Waits, releases });
        if is_first {
            self.tasks[task].hidden = HIDDEN_INSTRUCTIONS;
        }
        self.advance_stores(task);
    }

    /// Whether all stores of a task are done. Otherwise it will be woken up when they are.
    pub(super) fn has_stored(&mut self, task: usize) -> bool {
        let task = &mut self.tasks[task];
        task.drains = !task.stores.is_empty();
        !task.drains
    }

    /// A line for stores of the task has arrived.
    pub(super) fn end_stores(&mut self, task: usize, line: usize) {
        let stores = &mut self.tasks[task].stores;
        let arrived =
            |store: &&mut Store| store.line == line && store.progress == Progress::Requested;
        stores.iter_mut().filter(arrived).for_each(|store| store.progress = Progress::Arrived);
        self.tasks[task].requested -= 1;
        self.advance_stores(task);
        let task_state = &mut self.tasks[task];
        if task_state.stores.is_empty() && std::mem::take(&mut task_state.drains) {
            self.go_on(task);
        }
    }

    /// Requests the lines of as many stores as possible, and lets the first ones take effect.
    fn advance_stores(&mut self, task: usize) {
        let can_request =
            |store: &Store| store.progress == Progress::Waits && store.releases.is_none();
        while self.tasks[task].requested < FILL_BUFFERS
            && let Some(index) = self.tasks[task].stores.iter().position(can_request)
        {
            self.request_store(task, index);
        }
        self.commit(task);
    }

    fn request_store(&mut self, task: usize, index: usize) {
        let line = self.tasks[task].stores[index].line;
        let is_local = self.request(task, line, Access::Store);
        let of_task = &mut self.tasks[task];
        of_task.stores[index].progress =
            if is_local { Progress::Arrived } else { Progress::Requested };
        of_task.requested += usize::from(!is_local);
    }

    /// Lets the first stores take effect, as far as their lines have arrived.
    fn commit(&mut self, task: usize) {
        while let Some(&Store { progress, releases, .. }) = self.tasks[task].stores.front() {
            match progress {
                Progress::Waits => self.request_store(task, 0),
                Progress::Requested => return,
                Progress::Arrived => {
                    self.tasks[task].stores.pop_front();
                    if let Some(lock) = releases {
                        self.give_back(task, lock);
                    }
                }
            }
        }
    }
}

//! Keeps one record of each occurrence where two events recorded it.
//!
//! An event of a thread is inherited by the threads that this thread starts. A thread that started while events
//! were opened is listed later and gets events of its own, and may have inherited some as well. Its descendants
//! inherit both.

use std::collections::HashMap;

use linux_perf_event_reader::{EventRecord, RawEventRecord};

use super::event::Kind;

/// Chooses one event of each kind for each thread: the one whose record arrives first.
#[derive(Debug)]
pub(super) struct Once {
    /// By the ID of an event. Inherited events have the ID of the original.
    kinds: HashMap<u64, Kind>,
    chosen: HashMap<(i32, Kind), u64>,
}

impl Once {
    pub(super) fn new(kinds: HashMap<u64, Kind>) -> Once {
        Once { kinds, chosen: HashMap::new() }
    }

    /// Whether a record is from the chosen event of its thread. Records of forks and exits always are.
    pub(super) fn accepts(&mut self, raw: &RawEventRecord<'_>) -> bool {
        if let Ok(EventRecord::Fork(record) | EventRecord::Exit(record)) = raw.parse() {
            // Another thread may have had, or may get, the same TID.
            self.forget(record.tid);
            return true;
        }
        let common = raw.common_data().unwrap_or_default();
        match (common.tid, common.id) {
            (Some(thread), Some(id)) => self.is_chosen(thread, id),
            _ => true,
        }
    }

    fn is_chosen(&mut self, thread: i32, id: u64) -> bool {
        let Some(&kind) = self.kinds.get(&id) else { return true };
        *self.chosen.entry((thread, kind)).or_insert(id) == id
    }

    fn forget(&mut self, thread: i32) {
        self.chosen.retain(|(other, _), _| *other != thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::event::Role;

    #[test]
    fn a_thread_is_sampled_by_one_event_on_each_cpu() {
        let kinds = [
            (10, (0, Role::Sampling)),
            (11, (1, Role::Sampling)),
            (20, (0, Role::Sampling)),
            (21, (1, Role::Sampling)),
        ];
        let mut once = Once::new(kinds.into());
        let all: Vec<bool> =
            [10, 20, 21, 11, 10, 21].into_iter().map(|id| once.is_chosen(7, id)).collect();
        assert_eq!(all, [true, false, true, false, true, true]);
        assert!(once.is_chosen(8, 20), "another thread has its own choice");
        assert!(once.is_chosen(7, 99), "an event that is opened once");
        once.forget(7);
        assert!(once.is_chosen(7, 20), "a new thread with the same TID");
    }
}

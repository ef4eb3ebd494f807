//! What a map of an address space does.

use std::sync::Arc;

use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{Page, Pages, Protection, Quota, Space};

/// What all areas allow.
pub(crate) const WRITABLE: Protection = Protection::READ_WRITE;

/// A map that threads share.
pub(crate) trait Map: Sync + 'static {
    /// What a thread has to have.
    type Thread;

    /// The thread of this number takes part.
    fn thread(&'static self, number: usize) -> Self::Thread;

    /// Maps pages where nothing is mapped.
    fn map(&self, thread: &Self::Thread, pages: Pages);

    /// Unmaps pages.
    fn unmap(&self, thread: &Self::Thread, pages: Pages);

    /// Whether a page may be written to.
    fn is_writable(&self, thread: &Self::Thread, page: Page) -> bool;
}

/// A space of knee-vm on a machine in this process.
pub(crate) struct Knee {
    pub(crate) machine: &'static Hosted,
    pub(crate) space: Space<'static, Hosted>,
}

impl Knee {
    pub(crate) fn new() -> &'static Knee {
        Knee::with_quota(None)
    }

    /// With a limit of pages that may be mapped.
    pub(crate) fn with_quota(limit: Option<u64>) -> &'static Knee {
        let machine: &'static Hosted = Box::leak(Box::new(Hosted::new(1 << 17, 3)));
        let cpu = machine.cpu(2);
        let space = match limit {
            None => Space::new(&cpu),
            Some(limit) => {
                let quota = Quota::new(machine, limit).expect("there is memory");
                Space::with_quota(&cpu, Arc::new(quota))
            }
        };
        let space = space.expect("there is memory");
        Box::leak(Box::new(Knee { machine, space }))
    }
}

impl Map for Knee {
    type Thread = Processor<'static>;

    fn thread(&'static self, number: usize) -> Processor<'static> {
        self.machine.cpu(number)
    }

    fn map(&self, cpu: &Processor<'static>, pages: Pages) {
        self.space.map(cpu, pages, WRITABLE).expect("nothing is mapped there");
    }

    fn unmap(&self, cpu: &Processor<'static>, pages: Pages) {
        self.space.unmap(cpu, pages).expect("there is memory");
    }

    fn is_writable(&self, cpu: &Processor<'static>, page: Page) -> bool {
        self.space.query(cpu, page).is_some_and(|may| may.contains(Protection::WRITE))
    }
}

//! A swap device in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use knee_vm::{PAGE, Pager, PagerError, Swap};

type Slots = BTreeMap<u64, Box<[u8; PAGE]>>;

/// A swap device in memory. If a slot was never written, reading it panics.
#[derive(Default, Clone)]
pub struct Disk {
    slots: Arc<Mutex<Slots>>,
    /// How many of the next transfers fail.
    failures: Arc<AtomicU64>,
}

impl Disk {
    /// Creates a swap area of `slots` slots on the device.
    ///
    /// # Panics
    /// If there is not enough memory for the swap area.
    pub fn swap(&self, slots: u64) -> Arc<Swap> {
        Arc::new(Swap::new(slots, Box::new(self.clone())).expect("there is memory"))
    }

    /// Makes the next `count` transfers fail.
    pub fn fail(&self, count: u64) {
        self.failures.store(count, SeqCst);
    }

    /// The first words of the slots that were written.
    pub fn words(&self) -> Vec<(u64, u64)> {
        let word = |page: &[u8; PAGE]| {
            u64::from_ne_bytes(page[..8].try_into().expect("a page has 8 bytes"))
        };
        self.with(|slots| slots.iter().map(|(&slot, page)| (slot, word(page))).collect())
    }

    fn with<R>(&self, with: impl FnOnce(&mut Slots) -> R) -> R {
        with(&mut self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn check(&self) -> Result<(), PagerError> {
        let less = |count: u64| count.checked_sub(1);
        match self.failures.fetch_update(SeqCst, SeqCst, less) {
            Ok(_) => Err(PagerError::Failed),
            Err(_) => Ok(()),
        }
    }
}

impl Pager for Disk {
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        assert!(page.iter().all(|&byte| byte == 0), "the frame is not zeroed");
        if let Err(error) = self.check() {
            page.fill(0xff);
            return Err(error);
        }
        self.with(|slots| *page = **slots.get(&index).expect("the slot was written before"));
        Ok(())
    }

    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        self.check()?;
        self.with(|slots| slots.insert(index, Box::new(*page)));
        Ok(())
    }
}

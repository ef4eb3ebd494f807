//! Entries that wait for a grace period, and queues of such entries.

use core::ptr::{self, NonNull};

/// The head of an object that waits for a grace period. The entry is part of the object, so retiring
/// allocates nothing.
///
/// ```
/// use knee_sync::epoch::Entry;
///
/// #[repr(C)]
/// struct Connection {
///     entry: Entry, // first, so that its address is that of the connection
///     port: u16,
/// }
/// ```
#[derive(Debug)]
pub struct Entry {
    next: *mut Entry,
    /// The global epoch when the entry was sealed; 0 before that.
    tag: u64,
    /// The number of objects that the entry stands for.
    weight: u32,
    call: Option<Call>,
}

/// Called with an entry when its grace period is over.
pub(crate) type Call = unsafe fn(NonNull<Entry>);

impl Entry {
    /// An entry that is not waiting for a grace period.
    pub const fn new() -> Entry {
        Entry { next: ptr::null_mut(), tag: 0, weight: 1, call: None }
    }

    pub(super) fn prepare(&mut self, weight: u32, call: Call) {
        *self = Entry { weight, call: Some(call), ..Entry::new() };
    }
}

impl Default for Entry {
    fn default() -> Entry {
        Entry::new()
    }
}

/// A queue of entries, first in, first out.
#[derive(Debug)]
pub(super) struct Queue {
    first: *mut Entry,
    last: *mut Entry,
    /// The number of objects that the entries stand for.
    pub(super) weight: usize,
}

// SAFETY: only the queue refers to its entries, and the threads that retired them have guaranteed that
// any thread may call them.
unsafe impl Send for Queue {}

impl Queue {
    pub(super) const EMPTY: Queue =
        Queue { first: ptr::null_mut(), last: ptr::null_mut(), weight: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// # Safety
    /// The entry stays in place and belongs to the queue from now on: nothing else accesses it.
    pub(super) unsafe fn push(&mut self, mut entry: NonNull<Entry>) {
        // SAFETY: the caller guarantees that nothing else accesses the entry.
        let new = unsafe { entry.as_mut() };
        new.next = ptr::null_mut();
        self.weight += new.weight as usize;
        // SAFETY: the queue owns its entries, by the contract of `push`.
        match unsafe { self.last.as_mut() } {
            Some(last) => last.next = entry.as_ptr(),
            None => self.first = entry.as_ptr(),
        }
        self.last = entry.as_ptr();
    }

    pub(super) fn pop(&mut self) -> Option<NonNull<Entry>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: the queue owns its entries, by the contract of `push`.
        let entry = unsafe { first.as_ref() };
        self.first = entry.next;
        self.weight -= entry.weight as usize;
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        Some(first)
    }

    /// Appends all entries of `other`, and gives each of them `tag`.
    pub(super) fn append(&mut self, other: &mut Queue, tag: u64) {
        while let Some(mut entry) = other.pop() {
            // SAFETY: `pop` has taken the entry out of the other queue, so nothing else accesses the entry.
            unsafe {
                entry.as_mut().tag = tag;
                self.push(entry);
            }
        }
    }

    /// Appends all entries of `other`, which keep their tags.
    pub(super) fn concat(&mut self, other: Queue) {
        // SAFETY: the queue owns its entries, by the contract of `push`.
        match unsafe { self.last.as_mut() } {
            Some(_) if other.is_empty() => return,
            Some(last) => last.next = other.first,
            None => self.first = other.first,
        }
        self.last = other.last;
        self.weight += other.weight;
    }

    /// Takes entries from the front while their tags are below `safe`, up to about `most` objects.
    pub(super) fn take_ready(&mut self, safe: u64, most: usize) -> Queue {
        let mut ready = Queue::EMPTY;
        // SAFETY: the queue owns its entries, by the contract of `push`.
        while unsafe { self.first.as_ref() }.is_some_and(|first| first.tag < safe)
            && ready.weight < most
        {
            let Some(entry) = self.pop() else { break };
            // SAFETY: `pop` has taken the entry out of the queue, so nothing else accesses the entry.
            unsafe { ready.push(entry) };
        }
        ready
    }

    /// Makes the calls of all entries, even if one of these calls panics. A second panic aborts the process.
    ///
    /// # Safety
    /// The grace periods of all entries are over.
    pub(super) unsafe fn call(self) {
        struct Rest(Queue);

        impl Rest {
            fn call(&mut self) {
                while let Some(entry) = self.0.pop() {
                    // SAFETY: `pop` has taken the entry out of the queue, so nothing else accesses the entry.
                    if let Some(call) = unsafe { entry.as_ref() }.call {
                        // SAFETY: the thread that retired the entry has guaranteed that it may be called
                        // once, after its grace period.
                        unsafe { call(entry) };
                    }
                }
            }
        }

        impl Drop for Rest {
            fn drop(&mut self) {
                self.call();
            }
        }

        Rest(self).call();
    }
}

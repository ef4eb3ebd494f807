//! What waits for a grace period.

use core::ptr::{self, NonNull};

/// The head of something that waits for a grace period, to be part of it: an intrusive list costs no
/// allocation.
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
    /// The write clock when it was sealed; 0 until then.
    tag: u64,
    /// How many objects it stands for.
    weight: u32,
    call: Option<Call>,
}

/// What is called with an entry when its grace period is over.
pub(crate) type Call = unsafe fn(NonNull<Entry>);

impl Entry {
    /// An entry that waits for nothing yet.
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

/// Entries, first in first out.
#[derive(Debug)]
pub(super) struct Queue {
    first: *mut Entry,
    last: *mut Entry,
    /// Objects that its entries stand for.
    pub(super) weight: usize,
}

// SAFETY: the entries in it are reachable through it alone, and may be called by any thread: who
// defers promises that.
unsafe impl Send for Queue {}

impl Queue {
    pub(super) const EMPTY: Queue =
        Queue { first: ptr::null_mut(), last: ptr::null_mut(), weight: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// # Safety
    /// The entry is exclusively the queue's from now on, and stays where it is.
    pub(super) unsafe fn push(&mut self, mut entry: NonNull<Entry>) {
        // SAFETY: the caller says so.
        let new = unsafe { entry.as_mut() };
        new.next = ptr::null_mut();
        self.weight += new.weight as usize;
        // SAFETY: the last entry is the queue's.
        match unsafe { self.last.as_mut() } {
            Some(last) => last.next = entry.as_ptr(),
            None => self.first = entry.as_ptr(),
        }
        self.last = entry.as_ptr();
    }

    pub(super) fn pop(&mut self) -> Option<NonNull<Entry>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: entries in the queue are the queue's.
        let entry = unsafe { first.as_ref() };
        self.first = entry.next;
        self.weight -= entry.weight as usize;
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        Some(first)
    }

    /// Appends all of `other`, each with `tag`.
    pub(super) fn append(&mut self, other: &mut Queue, tag: u64) {
        while let Some(mut entry) = other.pop() {
            // SAFETY: it was the other queue's, and is this one's now.
            unsafe {
                entry.as_mut().tag = tag;
                self.push(entry);
            }
        }
    }

    /// Appends all of `other`, with the tags that they have.
    pub(super) fn concat(&mut self, other: Queue) {
        // SAFETY: the last entry is the queue's.
        match unsafe { self.last.as_mut() } {
            Some(_) if other.is_empty() => return,
            Some(last) => last.next = other.first,
            None => self.first = other.first,
        }
        self.last = other.last;
        self.weight += other.weight;
    }

    /// Takes the first entries whose grace periods are over, as those with a tag below `read` are, of
    /// about `most` objects.
    pub(super) fn take_ready(&mut self, read: u64, most: usize) -> Queue {
        let mut ready = Queue::EMPTY;
        // SAFETY: entries in the queue are the queue's.
        while unsafe { self.first.as_ref() }.is_some_and(|first| first.tag < read)
            && ready.weight < most
        {
            let Some(entry) = self.pop() else { break };
            // SAFETY: it is in no queue.
            unsafe { ready.push(entry) };
        }
        ready
    }

    /// Calls all entries. If one panics, all the same; a second that does aborts the process.
    ///
    /// # Safety
    /// Their grace periods are over.
    pub(super) unsafe fn call(self) {
        struct Rest(Queue);

        impl Rest {
            fn call(&mut self) {
                while let Some(entry) = self.0.pop() {
                    // SAFETY: it is in no queue, so it is ours until it is called.
                    if let Some(call) = unsafe { entry.as_ref() }.call {
                        // SAFETY: who deferred it promised that it may be called after its grace period.
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

//! A table with an entry for each thread, indexed by the thread's number.

use alloc::boxed::Box;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::mutant::order;
use crate::padded::Padded;
use crate::primitive::AtomicPtr;

/// The number of entries in the first chunk. Each later chunk has twice as many entries as the chunk before
/// it.
const FIRST: usize = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// 29 chunks have almost 2^32 entries. A model for loom needs only one chunk, and each further chunk would
/// slow it down.
const CHUNKS: usize = if cfg!(loom) { 1 } else { 29 };

/// An array that grows without moving its entries. Each entry has cache lines of its own.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chunks: [AtomicPtr<Padded<T>>; CHUNKS],
}

/// The number of entries in a chunk.
const fn entries(chunk: usize) -> usize {
    FIRST << chunk
}

impl<T: Default> Table<T> {
    pub(crate) fn new() -> Table<T> {
        Table { chunks: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    /// The entry with this number. The first use of a chunk allocates the chunk.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &T {
        // The highest bit of the sum of the number and `FIRST` selects the chunk.
        let shifted = number + FIRST;
        let chunk = (shifted.ilog2() - FIRST.ilog2()) as usize;
        // Acquire: this thread must see the entries as the allocating thread initialised them.
        let first = match NonNull::new(self.chunks[chunk].load(order!(Acquire, "table_get"))) {
            Some(first) => first,
            None => self.make(chunk),
        };
        // SAFETY: `shifted - entries(chunk)` is less than the number of entries in the chunk, which lives
        // as long as the table.
        unsafe { first.add(shifted - entries(chunk)).as_ref() }
    }

    #[cold]
    fn make(&self, chunk: usize) -> NonNull<Padded<T>> {
        let new: Box<[Padded<T>]> = (0..entries(chunk)).map(|_| Padded::default()).collect();
        let new = Box::into_raw(new);
        let made = self.chunks[chunk].compare_exchange(
            ptr::null_mut(),
            new.cast::<Padded<T>>(),
            order!(AcqRel, "table_make"),
            order!(Acquire, "table_lost"),
        );
        let first = match made {
            Ok(_) => new.cast(),
            Err(other) => {
                // SAFETY: `new` is the box above, which the failed exchange has not published.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        NonNull::new(first).expect("boxes are not null")
    }
}

impl<T> Table<T> {
    /// All entries. The entries of a chunk that is allocated during the iteration may be missing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().enumerate().flat_map(|(chunk, first)| {
            let first = first.load(order!(Acquire, "table_iter"));
            // SAFETY: the chunk has this many entries, and lives as long as the table.
            let all =
                (!first.is_null()).then(|| unsafe { slice::from_raw_parts(first, entries(chunk)) });
            all.into_iter().flatten().map(|entry| &entry.0)
        })
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        for (chunk, first) in self.chunks.iter().enumerate() {
            let first = first.load(Relaxed);
            if !first.is_null() {
                let all = ptr::slice_from_raw_parts_mut(first, entries(chunk));
                // SAFETY: `make` allocated the chunk as a box of this length, and `&mut self` excludes
                // other users.
                drop(unsafe { Box::from_raw(all) });
            }
        }
    }
}

// SAFETY: threads share entries by reference, and only the table's owner drops them.
unsafe impl<T: Sync + Send> Sync for Table<T> {}
// SAFETY: as for `Sync`.
unsafe impl<T: Sync + Send> Send for Table<T> {}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[test]
    fn each_number_has_an_entry_of_its_own() {
        const NUMBERS: usize = 300;
        let table = Table::<AtomicUsize>::new();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..NUMBERS {
                        table.get(number).fetch_add(number + 1, Relaxed);
                    }
                });
            }
        });
        let all: Vec<usize> = table.iter().map(|entry| entry.load(Relaxed)).collect();
        // The last chunk is larger than needed.
        assert_eq!(all.len(), 8 + 16 + 32 + 64 + 128 + 256);
        let used: Vec<usize> = (0..NUMBERS).map(|number| 4 * (number + 1)).collect();
        assert_eq!(all[..NUMBERS], used);
        assert!(all[NUMBERS..].iter().all(|&value| value == 0));
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use std::sync::Arc;

    use crate::model::{check, thread};
    use crate::primitive::Guarded;

    #[test]
    fn every_thread_sees_entries_initialised() {
        check(3, || {
            let table = Arc::new(Table::<Guarded<u32>>::new());
            let maker = thread::spawn({
                let table = Arc::clone(&table);
                move || table.get(0).with(|_| ())
            });
            // SAFETY: if another thread initialised the entry at the same time, loom would panic.
            table.get(1).with(|entry| assert_eq!(unsafe { *entry }, 0));
            table.iter().skip(2).for_each(|_| ());
            maker.join().unwrap();
        });
    }
}

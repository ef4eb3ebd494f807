//! Counts of retired objects that are not freed yet, for each way to reclaim.
//!
//! A common counter would cost more than the measured operation. So each thread has its own. The sum is exact
//! only while no thread counts.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Ways to reclaim that have numbers; those of C are in `build.rs`.
const IDS: usize = 14;

#[repr(align(128))]
struct Counters([AtomicI64; IDS]);

static ALL: Mutex<Vec<&'static Counters>> = Mutex::new(Vec::new());

thread_local! {
    /// It has no destructor, as the destructors of other thread-locals free objects.
    static MINE: Cell<Option<&'static Counters>> = const { Cell::new(None) };
}

#[cold]
fn join() -> &'static Counters {
    let mine: &Counters = Box::leak(Box::new(Counters(Default::default())));
    ALL.lock().expect("nobody panics with it").push(mine);
    MINE.set(Some(mine));
    mine
}

#[inline]
fn mine(id: usize) -> &'static AtomicI64 {
    &MINE.get().unwrap_or_else(join).0[id]
}

#[inline]
fn add(id: usize, by: i64) {
    let count = mine(id);
    count.store(count.load(Relaxed) + by, Relaxed);
}

/// Objects that are retired and not freed.
pub(crate) fn count(id: usize) -> i64 {
    ALL.lock().expect("nobody panics with it").iter().map(|of| of.0[id].load(Relaxed)).sum()
}

/// The calling thread's counter, for C.
#[unsafe(no_mangle)]
extern "C" fn peers_live(id: u64) -> *mut i64 {
    mine(id as usize).as_ptr()
}

/// An object that counts its predecessor as retired, and itself as freed when it is dropped.
pub(crate) struct Object<const ID: usize>(#[expect(dead_code, reason = "it has a size")] u64);

impl<const ID: usize> Object<ID> {
    /// Replaces nothing.
    pub(crate) const FIRST: Object<ID> = Object(1);

    #[inline]
    pub(crate) fn new() -> Object<ID> {
        add(ID, 1);
        Object(1)
    }
}

impl<const ID: usize> Drop for Object<ID> {
    #[inline]
    fn drop(&mut self) {
        add(ID, -1);
    }
}

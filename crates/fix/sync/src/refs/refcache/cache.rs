//! Counts, the caches of their changes, and the review of those that are zero.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::array;
use core::fmt;
use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lock_api::{Mutex, RawMutex};

use crate::biased::Biased;
use crate::mutant::is_mutant;
use crate::platform::Platform;
use crate::primitive::{AtomicBool, AtomicPtr, AtomicU64, constant};
use crate::registry::{Node, Registry};

/// Places of a cache, which then has 4 KiB. sv6 has 4096 for a CPU and all its threads.
const SLOTS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 256 };

/// Caches that are flushed after one heavy fence. The owner of the last waits for all to be flushed,
/// a few microseconds for each.
pub(super) const GROUP: usize = 16;

/// The bit of a weak reference's word that says that the object's count is zero.
const DYING: usize = 1;

/// The count of an object, at the object's beginning.
pub(super) struct Header<R> {
    state: Mutex<R, State>,
    free: unsafe fn(NonNull<Header<R>>),
}

struct State {
    /// The global count.
    count: i64,
    /// The epoch of the last eviction that left the count at zero, or the one after.
    touched: u64,
    /// It is in a queue.
    queued: bool,
    /// The word of its weak references, once there is one.
    weak: Option<Arc<WeakRef>>,
}

impl<R: RawMutex> Header<R> {
    /// A count of one, of an object that `free` frees.
    pub(super) fn new(free: unsafe fn(NonNull<Header<R>>)) -> Header<R> {
        Header {
            state: Mutex::new(State { count: 1, touched: 0, queued: false, weak: None }),
            free,
        }
    }

    /// The word of the object's weak references.
    ///
    /// # Safety
    /// The caller has a reference, and the pointer is good for all of the object.
    pub(super) unsafe fn weak_ref(object: NonNull<Header<R>>) -> Arc<WeakRef> {
        // SAFETY: said by the caller.
        let mut state = unsafe { object.as_ref() }.state.lock();
        let queued = state.queued;
        let word = state.weak.get_or_insert_with(|| {
            let word = WeakRef(AtomicPtr::new(object.as_ptr().cast()));
            // A review that finds the bit missing would wait for another two epochs.
            if queued {
                word.set_dying();
            }
            Arc::new(word)
        });
        Arc::clone(word)
    }
}

/// What weak references know of their object: its address and [`DYING`], or null.
///
/// It decides between an upgrade and the end, and publishes nothing: the object came with the weak
/// reference, and what was done with it comes to the review through caches and the object's lock. That
/// an upgrade does not find what the word was long ago is due to the fences of `flush` and of owners. So
/// its accesses need no order.
pub(super) struct WeakRef(AtomicPtr<()>);

impl WeakRef {
    /// Under the object's lock.
    fn set_dying(&self) {
        let word = self.0.load(Relaxed);
        self.0.store(word.map_addr(|address| address | DYING), Relaxed);
    }

    /// Under the object's lock.
    fn clear_dying(&self) {
        let word = self.0.load(Relaxed);
        self.0.store(word.map_addr(|address| address & !DYING), Relaxed);
    }

    /// Ends it if nobody has upgraded since it was set to dying.
    fn end(&self) -> bool {
        let word = self.0.load(Relaxed);
        word.addr() & DYING != 0
            && self.0.compare_exchange(word, ptr::null_mut(), Relaxed, Relaxed).is_ok()
    }
}

/// A change of an object's count that its global count does not know yet.
struct DeltaSlot<R> {
    object: *mut Header<R>,
    delta: i64,
}

impl<R> DeltaSlot<R> {
    /// A place that no object has.
    const EMPTY: DeltaSlot<R> = DeltaSlot { object: ptr::null_mut(), delta: 0 };
}

/// The changes of one thread.
struct Cache<R> {
    slots: [DeltaSlot<R>; SLOTS],
    /// Objects that its evictions have left at zero.
    queue: Queue<R>,
}

/// The place of an object: the highest bits of a product with the golden ratio (Knuth), as objects are
/// often a power of two apart.
#[inline]
fn place<R>(object: NonNull<Header<R>>) -> usize {
    let product = (object.addr().get() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// Objects that are to be reviewed. Each has `queued` set and is in no other queue.
type Queue<R> = Vec<NonNull<Header<R>>>;

/// Adds a delta to the object's global count, in this epoch at the latest.
///
/// # Safety
/// If the slot is not empty, the object is there. It is, as long as a cache has a delta of it: see the
/// module.
unsafe fn evict<R: RawMutex>(slot: DeltaSlot<R>, epoch: u64, queue: &mut Queue<R>) {
    let Some(object) = NonNull::new(slot.object) else { return };
    if is_mutant!("refcache_skips_zero") && slot.delta == 0 {
        return;
    }
    // SAFETY: said by the caller.
    let mut state = unsafe { object.as_ref() }.state.lock();
    state.count += slot.delta;
    if state.count != 0 {
        return;
    }
    state.touched = epoch;
    if let Some(word) = &state.weak {
        word.set_dying();
    }
    if !state.queued {
        state.queued = true;
        queue.push(object);
    }
}

/// A thread's place.
struct Member<R> {
    cache: Biased<Box<Cache<R>>>,
    /// There is something in the cache.
    used: AtomicBool,
}

// SAFETY: the pointers of the cache are used by whoever has it, and what they point to is `Sync`.
unsafe impl<R: Send + Sync> Sync for Member<R> {}
// SAFETY: as above.
unsafe impl<R: Send + Sync> Send for Member<R> {}

impl<R> Member<R> {
    fn new() -> Member<R> {
        let cache = Box::new(Cache { slots: [DeltaSlot::EMPTY; SLOTS], queue: Vec::new() });
        Member { cache: Biased::new(cache), used: AtomicBool::new(false) }
    }
}

/// Threads, their caches, and the epoch: a process has [one](super::ThisProcess), and a kernel makes its own,
/// see [the module](super#without-an-operating-system). `R` is the lock of each object.
pub struct Refcache<P, R> {
    platform: P,
    members: Registry<Member<R>>,
    epoch: AtomicU64,
    /// Objects that are to be reviewed, for the one who ticks.
    queue: Mutex<R, Pending<R>>,
}

struct Pending<R>(Queue<R>);

// SAFETY: what is there is `Send` and `Sync`: whoever makes an object promises it.
unsafe impl<R: Send + Sync> Send for Pending<R> {}

impl<P: Platform, R: RawMutex> Refcache<P, R> {
    constant! {
        /// In which nobody takes part.
        pub fn new(platform: P) -> Refcache<P, R> {
            Refcache {
                platform,
                members: Registry::new(),
                epoch: AtomicU64::new(0),
                queue: Mutex::new(Pending(Vec::new())),
            }
        }
    }

    /// Registers the calling thread, with a cache that an unregistered thread left or with a new one.
    pub fn register(&self) -> Local<'_, P, R> {
        Local { refcache: self, node: self.members.take_or_make(Member::new) }
    }

    /// Ends the epoch: flushes the caches that were used, reviews what is at zero, and frees what has
    /// been there long enough. See [`tick`](super#the-algorithm).
    pub fn tick(&self) {
        let dead = self.end_epoch();
        // Without the lock: a destructor may drop other references, and may even tick.
        for object in dead {
            // SAFETY: its true count is zero and no weak reference has it any more, see the module;
            // so we have it, and its lock shows us what was done with it.
            unsafe { (object.as_ref().free)(object) };
        }
    }

    fn end_epoch(&self) -> Queue<R> {
        // One at a time: an epoch that ends has flushed all caches.
        let mut pending = self.queue.lock();
        let queue = &mut pending.0;
        let epoch = self.epoch.load(Relaxed);
        self.flush(epoch, queue);
        let next = epoch + 1;
        self.epoch.store(next, Relaxed);
        let mut dead = Vec::new();
        queue.retain(|&object| match review(object, next) {
            Verdict::Later => true,
            Verdict::Alive => false,
            Verdict::Dead => {
                dead.push(object);
                false
            }
        });
        dead
    }

    fn flush(&self, epoch: u64, queue: &mut Queue<R>) {
        // An owner's section that began before this fence is seen as inside; one that begins later
        // sees what we wrote before: words that are dying or null, and the epoch that began last.
        if !is_mutant!("refcache_no_fence") {
            self.platform.heavy();
        }
        // In this order: an owner that was inside before has set `used`.
        let mut used = self.members.values().filter(|member| {
            let is_inside = member.cache.is_owner_inside() && !is_mutant!("refcache_used_only");
            is_inside || member.used.load(Relaxed)
        });
        loop {
            let group: [_; GROUP] = array::from_fn(|_| used.next());
            let group = || group.iter().flatten();
            if group().next().is_none() {
                return;
            }
            group().for_each(|member| member.cache.request(&self.platform));
            if !is_mutant!("refcache_group_no_fence") {
                self.platform.heavy();
            }
            for member in group() {
                let flush = |cache: &mut Box<Cache<R>>| {
                    for slot in &mut cache.slots {
                        // A delta of zero as well: the object was in use in this epoch.
                        // SAFETY: there is a delta of it.
                        unsafe { evict(mem::replace(slot, DeltaSlot::EMPTY), epoch, queue) };
                    }
                    queue.append(&mut cache.queue);
                    member.used.store(false, Relaxed);
                };
                // SAFETY: it was announced, and the fence came after that.
                unsafe { member.cache.lock_requested(&self.platform, flush) };
            }
        }
    }
}

enum Verdict {
    Later,
    Alive,
    Dead,
}

/// What becomes of an object that is in the queue, at the beginning of the epoch.
fn review<R: RawMutex>(object: NonNull<Header<R>>, epoch: u64) -> Verdict {
    // SAFETY: objects of a queue are there: only a review frees them.
    let mut state = unsafe { object.as_ref() }.state.lock();
    if state.count != 0 {
        state.queued = false;
        if let Some(word) = &state.weak {
            word.clear_dying();
        }
        return Verdict::Alive;
    }
    if epoch < state.touched + if is_mutant!("refcache_early") { 1 } else { 2 } {
        return Verdict::Later;
    }
    match &state.weak {
        Some(word) if !word.end() => {
            // Somebody has upgraded. The reference is in a cache still, or has been dropped there.
            word.set_dying();
            state.touched = epoch;
            Verdict::Later
        }
        _ => Verdict::Dead,
    }
}

impl<P, R> fmt::Debug for Refcache<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Refcache").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// A registered thread. Copies are the same thread, until one of them is
/// [unregistered](Local::unregister).
pub struct Local<'d, P, R> {
    refcache: &'d Refcache<P, R>,
    node: &'d Node<Member<R>>,
}

impl<P, R> Clone for Local<'_, P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for Local<'_, P, R> {}

impl<P, R> fmt::Debug for Local<'_, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Local")
    }
}

impl<P: Platform, R: RawMutex> Local<'_, P, R> {
    /// Unregisters the thread. The next ticks flush its cache with the others.
    ///
    /// # Safety
    /// Must be called by the thread that registered, which must not use a copy any more.
    pub unsafe fn unregister(self) {
        self.node.release();
    }

    /// Notes a change of an object's count.
    ///
    /// # Safety
    /// This is the thread that has joined. The object is there, and the caller has a reference, which
    /// it gives up with a change of -1.
    #[inline]
    pub(super) unsafe fn add(self, object: NonNull<Header<R>>, change: i64) {
        let member = &self.node.value;
        // SAFETY: said by the caller; `note` does not come back here.
        unsafe {
            member
                .cache
                .lock_owner(&self.refcache.platform, |cache| self.note(cache, object, change));
        }
    }

    /// A reference from a weak one, if the object is there.
    ///
    /// # Safety
    /// This is the thread that has joined.
    pub(super) unsafe fn upgrade(self, word: &WeakRef) -> Option<NonNull<Header<R>>> {
        let upgrade = |cache: &mut Box<Cache<R>>| {
            // As long as we are inside, our cache is not flushed, so fewer than two epochs end: what
            // the word shows us is not freed.
            let mut found = word.0.load(Relaxed);
            while found.addr() & DYING != 0 {
                let alive = found.map_addr(|address| address & !DYING);
                match word.0.compare_exchange(found, alive, Relaxed, Relaxed) {
                    Ok(_) => found = alive,
                    Err(other) => found = other,
                }
            }
            let object = NonNull::new(found)?.cast();
            // SAFETY: as above.
            unsafe { self.note(cache, object, 1) };
            Some(object)
        };
        // SAFETY: said by the caller.
        unsafe { self.node.value.cache.lock_owner(&self.refcache.platform, upgrade) }
    }

    /// # Safety
    /// The object is there, and stays so as long as the thread is inside.
    #[inline]
    unsafe fn note(self, cache: &mut Cache<R>, object: NonNull<Header<R>>, change: i64) {
        let slot = &mut cache.slots[place(object)];
        if ptr::eq(slot.object, object.as_ptr()) {
            slot.delta += change;
            return;
        }
        let old = mem::replace(slot, DeltaSlot { object: object.as_ptr(), delta: change });
        match old.object.is_null() {
            true => self.node.value.used.store(true, Relaxed),
            // SAFETY: there is a delta of it.
            false => unsafe { self.make_room(old, &mut cache.queue) },
        }
    }

    /// # Safety
    /// As with [`evict`].
    #[cold]
    unsafe fn make_room(self, old: DeltaSlot<R>, queue: &mut Queue<R>) {
        // A `tick` that had looked at this cache before we came in may end the epoch at any moment;
        // the one after it waits for us. So the next epoch is the latest that this can be.
        // The fences of `flush` and of owners see to it, so no order is needed.
        let latest = self.refcache.epoch.load(Relaxed) + 1;
        // SAFETY: said by the caller.
        unsafe { evict(old, latest, queue) };
    }
}

//! Counts, the caches of their deltas, and the review of counts that are zero.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::array;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lock_api::{Mutex, RawMutex};

use crate::biased::Biased;
use crate::mutant::is_mutant;
use crate::platform::Platform;
use crate::primitive::{AtomicBool, AtomicPtr, AtomicU64, constant};
use crate::registry::{Node, Registry};

/// The number of slots in a cache: 256 slots are 4 KiB. sv6 has 4096 slots for each CPU.
const SLOTS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 256 };

/// The number of caches that are flushed after one heavy fence. The owner of the last cache may have to wait
/// until all caches of the group are flushed, which takes a few microseconds for each cache.
pub(super) const GROUP: usize = 16;

/// A bit in a weak reference's word. Each touch of the object sets the bit. An upgrade clears the bit, and so
/// does a review that finds a global count other than zero.
const DYING: usize = 1;

/// The count of an object, at the start of the object.
pub(super) struct Header<R> {
    state: Mutex<R, State>,
    free: unsafe fn(NonNull<Header<R>>),
}

struct State {
    /// The global count.
    count: i64,
    /// The epoch of the object's last touch, or the epoch after that one.
    touched: u64,
    /// Whether the object is in a queue.
    queued: bool,
    /// The word that the object's weak references share, if there are any.
    weak: Option<Arc<WeakRef>>,
}

impl<R: RawMutex> Header<R> {
    /// A count of one, for an object that `free` frees.
    pub(super) fn new(free: unsafe fn(NonNull<Header<R>>)) -> Header<R> {
        Header {
            state: Mutex::new(State { count: 1, touched: 0, queued: false, weak: None }),
            free,
        }
    }

    /// The word of the object's weak references.
    ///
    /// # Safety
    /// The caller has a reference, and the pointer is valid for the whole object.
    pub(super) unsafe fn weak_ref(object: NonNull<Header<R>>) -> Arc<WeakRef> {
        // SAFETY: the caller has a reference, so the object is alive.
        let mut state = unsafe { object.as_ref() }.state.lock();
        let queued = state.queued;
        let word = state.weak.get_or_insert_with(|| {
            let word = WeakRef(AtomicPtr::new(object.as_ptr().cast()));
            // If the object is queued, set the bit: the review would mistake a clear bit for an upgrade, and
            // keep the object for another two epochs.
            if queued {
                word.set_dying();
            }
            Arc::new(word)
        });
        Arc::clone(word)
    }
}

/// The word that all weak references of an object share: the object's address and [`DYING`], or null.
///
/// An exchange of the word only decides whether an upgrade or the free comes first. The exchange need not
/// make other stores visible. A thread that upgrades has received a weak reference, which was made after the
/// object was initialized, so the thread sees the initialized object. A review sees everything that other
/// threads did with the object, because it synchronizes with them through the caches and the object's lock.
/// The fences in `flush` and in `lock_owner` keep an upgrade from loading an old word. So all accesses to the
/// word are Relaxed.
pub(super) struct WeakRef(AtomicPtr<()>);

impl WeakRef {
    /// Must be called under the object's lock.
    fn set_dying(&self) {
        let word = self.0.load(Relaxed);
        self.0.store(word.map_addr(|address| address | DYING), Relaxed);
    }

    /// Must be called under the object's lock.
    fn clear_dying(&self) {
        let word = self.0.load(Relaxed);
        self.0.store(word.map_addr(|address| address & !DYING), Relaxed);
    }

    /// Sets the word to null, unless an upgrade has cleared the dying bit. Returns whether it set the word.
    fn end(&self) -> bool {
        let word = self.0.load(Relaxed);
        word.addr() & DYING != 0
            && self.0.compare_exchange(word, ptr::null_mut(), Relaxed, Relaxed).is_ok()
    }
}

/// A change of an object's count that is not yet in the object's global count.
struct DeltaSlot<R> {
    object: *mut Header<R>,
    delta: i64,
}

impl<R> DeltaSlot<R> {
    /// A slot without an object.
    const EMPTY: DeltaSlot<R> = DeltaSlot { object: ptr::null_mut(), delta: 0 };
}

/// The cached changes of one thread.
struct Cache<R> {
    slots: [DeltaSlot<R>; SLOTS],
    /// Objects whose count is zero after an eviction from this cache.
    queue: Queue<R>,
}

/// The index of an object's slot. Objects are often a power of two apart, so the low bits of their addresses
/// are often the same. The index is the highest bits of the product of the address and the golden ratio
/// (Knuth), because they depend on all bits of the address.
#[inline]
fn place<R>(object: NonNull<Header<R>>) -> usize {
    let product = (object.addr().get() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// Objects to review. Each of these objects has `queued` set, and is in only one queue.
type Queue<R> = Vec<NonNull<Header<R>>>;

/// Adds a delta to the object's global count. `epoch` must not be earlier than the current epoch.
///
/// # Safety
/// If the slot is not empty, its object is alive. An object is alive while any cache has a delta of the
/// object (see the module).
unsafe fn evict<R: RawMutex>(slot: DeltaSlot<R>, epoch: u64, queue: &mut Queue<R>) {
    let Some(object) = NonNull::new(slot.object) else { return };
    if is_mutant!("refcache_skips_zero") && slot.delta == 0 {
        return;
    }
    // SAFETY: the caller guarantees that the object is alive.
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

/// The state of a registered thread.
pub(super) struct Member<R> {
    cache: Biased<Box<Cache<R>>>,
    /// Whether the cache may have deltas. The flag is set when an empty slot is filled, and cleared when the
    /// cache is flushed.
    used: AtomicBool,
}

// SAFETY: only the thread that has locked the cache uses its pointers, and they point to `Sync` objects.
unsafe impl<R: Send + Sync> Sync for Member<R> {}
// SAFETY: as for `Sync`.
unsafe impl<R: Send + Sync> Send for Member<R> {}

impl<R> Member<R> {
    fn new() -> Member<R> {
        let cache = Box::new(Cache { slots: [DeltaSlot::EMPTY; SLOTS], queue: Vec::new() });
        Member { cache: Biased::new(cache), used: AtomicBool::new(false) }
    }
}

/// Threads, their caches, and the epoch. A process has [one refcache](super::ThisProcess). A kernel makes its
/// own refcache: see [the module](super#without-an-operating-system). `R` is the type of each object's lock.
pub struct Refcache<P, R> {
    platform: P,
    members: Registry<Member<R>>,
    epoch: AtomicU64,
    /// Objects that the next ticks review.
    queue: Mutex<R, Pending<R>>,
}

struct Pending<R>(Queue<R>);

// SAFETY: the pointers are to objects that are `Send` and `Sync`, as their constructor requires.
unsafe impl<R: Send + Sync> Send for Pending<R> {}

impl<P: Platform, R: RawMutex> Refcache<P, R> {
    constant! {
        /// A refcache without threads.
        pub fn new(platform: P) -> Refcache<P, R> {
            Refcache {
                platform,
                members: Registry::new(),
                epoch: AtomicU64::new(0),
                queue: Mutex::new(Pending(Vec::new())),
            }
        }
    }

    /// Registers the calling thread, and gives it a cache: a cache that an unregistered thread left behind,
    /// or a new cache.
    pub fn register(&self) -> Local<'_, P, R> {
        Local { refcache: self, node: self.members.take_or_make(Member::new), one: PhantomData }
    }

    /// Ends the epoch: flushes the caches that were used, reviews the objects whose count is zero, and frees
    /// those whose count has been zero for long enough. See [the algorithm](super#the-algorithm).
    pub fn tick(&self) {
        let dead = self.end_epoch();
        // The queue is not locked here: a destructor may drop other references, and may even tick.
        for object in dead {
            // SAFETY: the true count is zero and no weak reference can be upgraded (see the module). So this
            // thread has the object to itself. The caches and the object's lock have made everything that
            // other threads did with the object visible to this thread.
            unsafe { (object.as_ref().free)(object) };
        }
    }

    fn end_epoch(&self) -> Queue<R> {
        // The lock lets only one tick run at a time, so all caches have been flushed when an epoch ends.
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
        // If an owner set `inside` before this fence and is still inside, `is_owner_inside` below returns
        // true. If an owner sets `inside` later, it sees the stores from before the fence: words that are
        // dying or null, and the current epoch.
        if !is_mutant!("refcache_no_fence") {
            self.platform.heavy();
        }
        // `used` must be loaded after `is_owner_inside`: if the owner has left, it set `used` before it left.
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
                        // Deltas of zero are evicted as well, because they show that the object was in use in
                        // this epoch.
                        // SAFETY: the cache has a delta of the object, so the object is alive.
                        unsafe { evict(mem::replace(slot, DeltaSlot::EMPTY), epoch, queue) };
                    }
                    queue.append(&mut cache.queue);
                    member.used.store(false, Relaxed);
                };
                // SAFETY: the lock was requested above, and the heavy fence came after that.
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

/// Decides at the start of `epoch` whether a queued object is dead, is alive, or must be reviewed later.
fn review<R: RawMutex>(object: NonNull<Header<R>>, epoch: u64) -> Verdict {
    // SAFETY: only a review frees queued objects.
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
            // An upgrade has cleared the bit. The delta of the upgrade's reference is still in a cache, even
            // if the reference has been dropped since.
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

/// A thread's registration in a [`Refcache`], with the thread's cache. One thread at a time uses the
/// registration.
///
/// Dropping the registration unregisters the thread. The next tick flushes the thread's cache.
pub struct Local<'d, P, R> {
    refcache: &'d Refcache<P, R>,
    node: &'d Node<Member<R>>,
    /// Not `Sync`.
    one: PhantomData<Cell<()>>,
}

impl<P, R> Drop for Local<'_, P, R> {
    fn drop(&mut self) {
        self.node.release();
    }
}

impl<P, R> fmt::Debug for Local<'_, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Local")
    }
}

#[cfg(all(feature = "std", not(loom)))]
impl<'d, P, R> Local<'d, P, R> {
    /// Takes the node out of the `Local`, without unregistering the thread.
    pub(super) fn into_node(self) -> &'d Node<Member<R>> {
        mem::ManuallyDrop::new(self).node
    }

    /// # Safety
    /// The node came from [`into_node`](Local::into_node) of a `Local` of this refcache. Only one thread uses
    /// the `Local`s that are made from the node. After that thread has dropped one of these `Local`s, it uses
    /// no `Local` that is made from the node.
    #[inline]
    pub(super) unsafe fn from_node(
        refcache: &'d Refcache<P, R>,
        node: &'d Node<Member<R>>,
    ) -> Local<'d, P, R> {
        Local { refcache, node, one: PhantomData }
    }
}

impl<P: Platform, R: RawMutex> Local<'_, P, R> {
    /// Caches a change of an object's count.
    ///
    /// # Safety
    /// The caller has a reference to the object. With a change of -1, the caller gives this reference up.
    #[inline]
    pub(super) unsafe fn add(&self, object: NonNull<Header<R>>, change: i64) {
        // SAFETY: the caller has a reference.
        self.with_cache(|cache| unsafe { self.note(cache, object, change) });
    }

    /// Upgrades a weak reference, if the object is still alive.
    pub(super) fn upgrade(&self, word: &WeakRef) -> Option<NonNull<Header<R>>> {
        self.with_cache(|cache| {
            // No tick flushes this cache while this closure runs, so at most one epoch ends in this time. One
            // epoch is not enough to free the object that the word points to now (see the module).
            let mut found = word.0.load(Relaxed);
            while found.addr() & DYING != 0 {
                let alive = found.map_addr(|address| address & !DYING);
                match word.0.compare_exchange(found, alive, Relaxed, Relaxed) {
                    Ok(_) => found = alive,
                    Err(other) => found = other,
                }
            }
            let object = NonNull::new(found)?.cast();
            // SAFETY: the object is alive while this closure runs, as shown above.
            unsafe { self.note(cache, object, 1) };
            Some(object)
        })
    }

    /// Passes the cache to `with`. The cache is not flushed during the call. `with` must not access the cache
    /// in any other way.
    #[inline]
    fn with_cache<T>(&self, with: impl FnOnce(&mut Cache<R>) -> T) -> T {
        // SAFETY: one thread at a time has the `Local` of a registration, and a node has one registration
        // at a time. The functions of this type, which are the only callers, do not nest.
        unsafe { self.node.value.cache.lock_owner(&self.refcache.platform, |cache| with(cache)) }
    }

    /// # Safety
    /// The object is alive while the thread holds the cache's lock.
    #[inline]
    unsafe fn note(&self, cache: &mut Cache<R>, object: NonNull<Header<R>>, change: i64) {
        let slot = &mut cache.slots[place(object)];
        if ptr::eq(slot.object, object.as_ptr()) {
            slot.delta += change;
            return;
        }
        let old = mem::replace(slot, DeltaSlot { object: object.as_ptr(), delta: change });
        match old.object.is_null() {
            true => self.node.value.used.store(true, Relaxed),
            // SAFETY: the slot had a delta of the object, so the object is alive.
            false => unsafe { make_room(self.refcache, old, &mut cache.queue) },
        }
    }
}

/// Evicts a delta whose slot another object needs.
///
/// # Safety
/// The contract of [`evict`].
#[cold]
unsafe fn make_room<P, R: RawMutex>(
    refcache: &Refcache<P, R>,
    old: DeltaSlot<R>,
    queue: &mut Queue<R>,
) {
    // If a tick passed this cache before this thread locked the cache, the tick may end the epoch at any
    // moment, but the next tick waits for this thread. So the current epoch is at most one epoch later than
    // the loaded epoch. The fences in `flush` and in `lock_owner` ensure this, so the load is Relaxed.
    let latest = refcache.epoch.load(Relaxed) + 1;
    // SAFETY: the caller guarantees the contract of `evict`.
    unsafe { evict(old, latest, queue) };
}

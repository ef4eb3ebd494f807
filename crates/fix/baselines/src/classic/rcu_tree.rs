//! The map of Linux since 6.4: faults walk the tree without locks, and each entry has its own lock.
//!
//! The tree is a B-tree of ranges, like Linux's maple tree. A node has up to 16 children. A writer copies a
//! node, changes the copy, and then puts it in the node's place with a single store. Readers in an epoch
//! section see the old node or the new one. `mmap_lock` serializes writers.
//!
//! A fault finds its entry in the tree and counts itself as a reader of the entry. The fault writes nothing
//! else in the map. While a thread holds `mmap_lock` for writing, it has a *turn*, and each turn has a
//! number. Before the thread changes an entry, it *marks* the entry with the number of its turn, and waits
//! for the entry's readers. New readers see the mark and take `mmap_lock` instead. Faults that find no entry
//! also take `mmap_lock`, because the tree may be changing. When a turn ends, its number is no longer
//! current, so all its marks lose their effect at once.
//!
//! Linux merges nodes to keep them at least half full. This tree frees empty nodes, but merges none.
//!
//! Source: Linux 6.4 to 6.13, `include/linux/mm.h` (`vma_start_read`, `vma_start_write`), `mm/memory.c`
//! (`lock_vma_under_rcu`), `lib/maple_tree.c`.

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use knee_sync::Platform;
use knee_vm::{Cpu, Machine, Page, Pages, Protection};

use super::entries::{Entries, Entry, View};
use super::gap_cache::GapCache;
use super::lock::{Shared, Writing};
use super::map::{Map, MapKind};
use super::on_cpu::OnCpu;
use super::reverse::Reverse;

/// A map in a tree that is read without locks. Each entry has a lock of its own.
#[derive(Debug)]
pub enum RcuTree {}

impl MapKind for RcuTree {
    type Map<R: Reverse> = RcuMap<R>;
}

/// The map of [`RcuTree`].
#[derive(Debug)]
pub struct RcuMap<R: Reverse> {
    /// `mmap_lock`.
    lock: Shared<GapCache>,
    /// The number of the current turn or, between turns, of the next one: `mm_lock_seq`.
    turn: AtomicU64,
    root: AtomicPtr<Node<R>>,
}

/// The number of slots in a node: as many as in a leaf of a maple tree.
const FAN: usize = 16;

/// A child: a node of the level below, or, at level 0, an area.
type Slot = *mut ();

/// A node. Once a node is in the tree, only its slots change, and they change only if the node's level is
/// above 0.
#[derive(Debug)]
struct Node<R: Reverse> {
    level: u8,
    len: usize,
    /// At level 0, the first pages of the areas. Above level 0, a lower bound for each child: no area of the
    /// child begins before this page, not even an area that is inserted later.
    keys: [Page; FAN],
    slots: [AtomicPtr<()>; FAN],
    of: std::marker::PhantomData<fn() -> R>,
}

/// An area: an entry of the map.
#[derive(Debug)]
#[repr(align(64))]
struct Area<R: Reverse> {
    readers: AtomicU32,
    /// The last turn in which the area was marked.
    marked: AtomicU64,
    state: UnsafeCell<State<R>>,
}

/// The content of an area. The area's readers read this content, and only a writer that has marked the area
/// changes it.
#[derive(Debug)]
struct State<R: Reverse> {
    pages: Pages,
    protection: Protection,
    /// `None` if the area was removed from the map.
    backing: Option<R::Backing>,
}

// SAFETY: the tree changes only under the lock, and an area changes only while it is marked and has no
// readers. If a reader finds a node or an area without the lock, that node or area stays valid until the
// reader's epoch section ends.
unsafe impl<R: Reverse> Sync for RcuMap<R> {}
// SAFETY: as above.
unsafe impl<R: Reverse> Send for RcuMap<R> {}
// SAFETY: as above; nodes do not own their children.
unsafe impl<R: Reverse> Send for Node<R> {}
// SAFETY: as above.
unsafe impl<R: Reverse> Send for Area<R> {}

impl<R: Reverse> Node<R> {
    fn new(level: u8, items: &[(Page, Slot)]) -> *mut Node<R> {
        let mut node = Node {
            level,
            len: items.len(),
            keys: [Page(0); FAN],
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; FAN],
            of: std::marker::PhantomData,
        };
        for (place, &(key, slot)) in items.iter().enumerate() {
            (node.keys[place], *node.slots[place].get_mut()) = (key, slot);
        }
        Box::into_raw(Box::new(node))
    }

    fn keys(&self) -> &[Page] {
        &self.keys[..self.len]
    }

    /// Returns the number of keys that are at most `page`.
    #[inline]
    fn places_up_to(&self, page: Page) -> usize {
        self.keys().iter().take_while(|key| **key <= page).count()
    }

    /// Above level 0, returns the slot of the child that contains, or would contain, an area that begins at
    /// this page. At level 0, returns the slot of the last area that begins at or before this page.
    #[inline]
    fn place(&self, page: Page) -> usize {
        self.places_up_to(page).saturating_sub(1)
    }

    /// # Safety
    /// The node must be of level 1 or above, and the caller must be in an epoch section or hold the lock.
    #[inline]
    unsafe fn child(&self, place: usize) -> &Node<R> {
        // SAFETY: the children are nodes, which are freed only when the epoch sections that may have found
        // them have ended. Acquire: pairs with `replace`.
        unsafe { &*self.slots[place].load(Acquire).cast() }
    }

    /// # Safety
    /// The node must be of level 0, and the caller must be in an epoch section or hold the lock.
    #[inline]
    unsafe fn area(&self, place: usize) -> &Area<R> {
        // SAFETY: the children are areas, which are freed only when the epoch sections that may have found
        // them have ended. Relaxed: the slots of level 0 do not change after the node is published.
        unsafe { &*self.slots[place].load(Relaxed).cast() }
    }

    /// Returns the last area that begins at or before a page.
    ///
    /// # Safety
    /// The caller must be in an epoch section or hold the lock.
    unsafe fn up_to(&self, page: Page) -> Option<&Area<R>> {
        if self.level == 0 {
            // SAFETY: the caller is in an epoch section or holds the lock.
            return self.places_up_to(page).checked_sub(1).map(|place| unsafe { self.area(place) });
        }
        // A key is only a lower bound: even if it is at most `page`, all areas of the child may begin after
        // `page`. So the search may have to continue in the children before this one.
        // SAFETY: the caller is in an epoch section or holds the lock.
        (0..=self.place(page)).rev().find_map(|place| unsafe { self.child(place).up_to(page) })
    }

    /// Returns the first area that begins at or after a page.
    ///
    /// # Safety
    /// The caller must be in an epoch section or hold the lock.
    unsafe fn from(&self, page: Page) -> Option<&Area<R>> {
        if self.level == 0 {
            let place = self.keys().iter().position(|key| *key >= page);
            // SAFETY: the caller is in an epoch section or holds the lock.
            return place.map(|place| unsafe { self.area(place) });
        }
        // SAFETY: the caller is in an epoch section or holds the lock.
        (self.place(page)..self.len).find_map(|place| unsafe { self.child(place).from(page) })
    }

    /// Passes to `with`, in order, the areas that begin at or after a page, until `with` returns false.
    ///
    /// # Safety
    /// The caller must hold the lock.
    unsafe fn for_each_from(&self, page: Page, with: &mut dyn FnMut(Pages) -> bool) -> bool {
        if self.level == 0 {
            let first = self.keys().iter().position(|key| *key >= page).unwrap_or(self.len);
            // SAFETY: the caller holds the lock, so no other thread changes areas.
            return (first..self.len).all(|place| with(unsafe { self.area(place).state() }.pages));
        }
        (self.place(page)..self.len)
            // SAFETY: the caller holds the lock.
            .all(|place| unsafe { self.child(place).for_each_from(page, with) })
    }
}

impl<R: Reverse> Area<R> {
    /// # Safety
    /// The caller must be a reader of the area or hold the lock.
    unsafe fn state(&self) -> &State<R> {
        // SAFETY: a thread that changes the area holds the lock and has waited for readers.
        unsafe { &*self.state.get() }
    }

    /// # Safety
    /// The caller must hold the lock.
    unsafe fn view(&self) -> View<'_, R> {
        // SAFETY: the caller holds the lock.
        let State { pages, protection, backing } = unsafe { self.state() };
        let backing = backing.as_ref().expect("the area is in the map");
        View { pages: *pages, protection: *protection, backing }
    }

    /// Makes the caller a reader, or returns false if the area is marked: `vma_start_read`.
    #[inline]
    fn try_read(&self, turn: &AtomicU64) -> bool {
        // Acquire: if the turn in which the area was marked is over, the reader sees what was done in that
        // turn.
        let is_marked = || self.marked.load(SeqCst) == turn.load(Acquire);
        if is_marked() {
            return false;
        }
        // Either the reader sees the mark, or the writer sees the reader: all four accesses are SeqCst.
        self.readers.fetch_add(1, SeqCst);
        let is_late = is_marked();
        if is_late {
            self.end_read();
        }
        !is_late
    }

    #[inline]
    fn end_read(&self) {
        // Release: pairs with `mark`, whose caller changes the area next.
        self.readers.fetch_sub(1, Release);
    }
}

impl<R: Reverse> RcuMap<R> {
    /// # Safety
    /// The caller must be in an epoch section or hold the lock.
    #[inline]
    unsafe fn root(&self) -> Option<&Node<R>> {
        // SAFETY: nodes are freed only when the epoch sections that may have found them have ended. Acquire:
        // as in `Node::child`.
        unsafe { self.root.load(Acquire).as_ref() }
    }

    /// Calls `with` if the area contains the page.
    ///
    /// # Safety
    /// The caller must be a reader of the area or hold the lock.
    #[inline]
    unsafe fn within<T>(
        area: &Area<R>,
        page: Page,
        with: impl FnOnce(Protection, &R::Backing) -> T,
    ) -> Option<T> {
        // SAFETY: the caller is a reader of the area or holds the lock.
        let State { pages, protection, backing } = unsafe { area.state() };
        let backing = backing.as_ref().filter(|_| pages.contains(page))?;
        Some(with(*protection, backing))
    }
}

impl<R: Reverse> Map<R> for RcuMap<R> {
    type Writing<'a, 'm: 'a, M: Machine>
        = Held<'a, 'm, M, R>
    where
        M: 'm;

    fn new() -> RcuMap<R> {
        let lock = Shared::new(GapCache::default());
        RcuMap { lock, turn: AtomicU64::new(1), root: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    fn with_entry<'m, M: Machine, T>(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        with: impl FnOnce(Protection, &R::Backing) -> T,
    ) -> Option<T> {
        let mut with = Some(with);
        let mut once = |protection, backing: &_| {
            with.take().expect("`with` is called once")(protection, backing)
        };
        {
            let _guard = cpu.pin();
            // SAFETY: this thread is in an epoch section.
            let area = unsafe { self.root().and_then(|root| root.up_to(page)) };
            if let Some(area) = area.filter(|area| area.try_read(&self.turn)) {
                /// Ends the read even if `with` panics, because a writer may be waiting for the area's
                /// readers.
                struct End<'a, R: Reverse>(&'a Area<R>);
                impl<R: Reverse> Drop for End<'_, R> {
                    fn drop(&mut self) {
                        self.0.end_read();
                    }
                }
                let _end = End(area);
                // SAFETY: this thread is a reader of the area.
                let found = unsafe { RcuMap::within(area, page, &mut once) };
                if found.is_some() {
                    return found;
                }
            }
        }
        let _lock = self.lock.read(&OnCpu::of(cpu));
        // SAFETY: this thread holds the lock.
        unsafe { RcuMap::within(self.root()?.up_to(page)?, page, &mut once) }
    }

    #[inline]
    fn write<'a, 'm, M: Machine + 'm>(&'a self, cpu: &'a Cpu<'m, M>) -> Held<'a, 'm, M, R> {
        Held { map: self, lock: Some(self.lock.write(&OnCpu::of(cpu))), cpu }
    }

    fn read<M: Machine, T>(&self, cpu: &Cpu<'_, M>, with: impl FnOnce() -> T) -> T {
        let _lock = self.lock.read(&OnCpu::of(cpu));
        with()
    }

    fn clear(&mut self, mut end: impl FnMut(u64, R::Backing)) {
        fn clear<R: Reverse>(node: *mut Node<R>, end: &mut impl FnMut(u64, R::Backing)) {
            // SAFETY: the pointer came from a box, and `&mut self` excludes other threads.
            let node = unsafe { Box::from_raw(node) };
            for slot in &node.slots[..node.len] {
                match node.level {
                    0 => {
                        // SAFETY: as above.
                        let area = unsafe { Box::from_raw(slot.load(Relaxed).cast::<Area<R>>()) };
                        let State { pages, backing, .. } = area.state.into_inner();
                        end(pages.count(), backing.expect("the area is in the map"));
                    }
                    _ => clear(slot.load(Relaxed).cast::<Node<R>>(), end),
                }
            }
        }
        let root = std::mem::replace(self.root.get_mut(), ptr::null_mut());
        if !root.is_null() {
            clear(root, &mut end);
        }
    }
}

impl<R: Reverse> Drop for RcuMap<R> {
    fn drop(&mut self) {
        self.clear(|_, _| ());
    }
}

/// An [`RcuMap`] that is locked for writing.
pub struct Held<'a, 'm, M: Machine, R: Reverse> {
    map: &'a RcuMap<R>,
    /// `None` only during a downgrade.
    lock: Option<Writing<'a, GapCache>>,
    cpu: &'a Cpu<'m, M>,
}

/// The items of a node, and room for one more item.
struct Items {
    len: usize,
    items: [(Page, Slot); FAN + 1],
}

impl Items {
    fn of<R: Reverse>(node: &Node<R>) -> Items {
        let mut items = Items { len: node.len, items: [(Page(0), ptr::null_mut()); FAN + 1] };
        for place in 0..node.len {
            items.items[place] = (node.keys[place], node.slots[place].load(Relaxed));
        }
        items
    }

    fn insert(&mut self, place: usize, item: (Page, Slot)) {
        self.items.copy_within(place..self.len, place + 1);
        self.items[place] = item;
        self.len += 1;
    }

    fn remove(&mut self, place: usize) {
        self.items.copy_within(place + 1..self.len, place);
        self.len -= 1;
    }

    fn get(&self) -> &[(Page, Slot)] {
        &self.items[..self.len]
    }
}

/// The maximum height of the tree. A leaf splits only after eight insertions, and any other node only after
/// eight splits of its children. So a higher tree would need at least 8¹⁶ insertions.
const LEVELS: usize = 16;

/// A path from the root to a leaf: the leaf, and the nodes above it, each with the slot of the next node.
struct Path<'a, R: Reverse> {
    above: [Option<(&'a Node<R>, usize)>; LEVELS],
    leaf: &'a Node<R>,
    /// An area belongs to the leaf if it begins in this range.
    keys: Pages,
}

impl<'a, M: Machine, R: Reverse> Held<'a, '_, M, R> {
    fn root(&self) -> Option<&'a Node<R>> {
        // SAFETY: this thread holds the lock.
        unsafe { self.map.root() }
    }

    /// Returns the area that begins at `start`.
    fn area(&self, start: Page) -> &'a Area<R> {
        // SAFETY: this thread holds the lock.
        let area = self.root().and_then(|root| unsafe { root.up_to(start) });
        let area = area.expect("an entry begins there");
        // SAFETY: as above.
        debug_assert_eq!(unsafe { area.state() }.pages.start, start);
        area
    }

    /// Marks an area and waits for its readers: `vma_start_write`. The caller may then change the content.
    fn mark(&self, area: &'a Area<R>) -> *mut State<R> {
        let turn = self.map.turn.load(Relaxed);
        if area.marked.load(Relaxed) != turn {
            // SeqCst: see `try_read`.
            area.marked.store(turn, SeqCst);
            let is_read = || area.readers.load(SeqCst) > 0;
            if is_read() {
                OnCpu::of(self.cpu).wait_while(is_read);
            }
        }
        area.state.get()
    }

    /// Returns the path to the leaf that contains, or would contain, an area that begins at `page`.
    fn path(&self, page: Page) -> Option<Path<'a, R>> {
        let mut node = self.root()?;
        let (mut above, mut keys) = ([const { None }; LEVELS], Pages::new(Page(0), u64::MAX));
        while node.level > 0 {
            let place = node.place(page);
            if place > 0 {
                keys.start = node.keys[place];
            }
            keys.end = node.keys().get(place + 1).copied().unwrap_or(keys.end);
            above[usize::from(node.level)] = Some((node, place));
            // SAFETY: this thread holds the lock.
            node = unsafe { node.child(place) };
        }
        Some(Path { above, leaf: node, keys })
    }

    /// Replaces a node with a node that has these items, or with two nodes if there are too many items for
    /// one. Removes the node if there are no items.
    fn replace(&self, path: &Path<'a, R>, old: &'a Node<R>, items: &Items) {
        let level = old.level;
        let items = items.get();
        let above = path.above.get(usize::from(level) + 1).copied().flatten();
        match (items.len(), above) {
            (1..=FAN, Some((above, place))) => {
                // Release: a reader that finds the node sees its content.
                above.slots[place].store(Node::<R>::new(level, items).cast(), Release);
            }
            // Release: as above.
            (1..=FAN, None) => self.map.root.store(Node::new(level, items), Release),
            (0, None) => self.map.root.store(ptr::null_mut(), Relaxed),
            (0, Some((above, place))) => {
                let mut others = Items::of(above);
                others.remove(place);
                if place == 0 && others.len > 0 {
                    // The first child was removed. If a new area begins before all areas of the next child,
                    // it now goes to the next child. So the next child's key must be a lower bound for such
                    // an area too.
                    others.items[0].0 = above.keys[0];
                }
                self.replace(path, above, &others);
            }
            (_, above) => {
                let (low, high) = items.split_at(items.len() / 2);
                let high = (high[0].0, Node::<R>::new(level, high).cast());
                let low = Node::<R>::new(level, low).cast();
                match above {
                    Some((above, place)) => {
                        let mut others = Items::of(above);
                        others.items[place].1 = low;
                        others.insert(place + 1, high);
                        self.replace(path, above, &others);
                    }
                    None => {
                        let root = Node::new(level + 1, &[(Page(0), low), high]);
                        // Release: as above.
                        self.map.root.store(root, Release);
                    }
                }
            }
        }
        // SAFETY: the pointer came from a box, and was removed from the tree.
        unsafe { self.cpu.pin().retire(ptr::from_ref(old).cast_mut()) };
    }

    fn insert_area(&self, start: Page, area: NonNull<Area<R>>) {
        let item = (start, area.as_ptr().cast());
        match self.path(start) {
            Some(path) => {
                let mut items = Items::of(path.leaf);
                items.insert(path.leaf.places_up_to(start), item);
                self.replace(&path, path.leaf, &items);
            }
            // Release: as in `replace`.
            None => self.map.root.store(Node::new(0, &[item]), Release),
        }
    }

    fn remove_area(&self, start: Page) {
        let path = self.path(start).expect("an entry begins there");
        let mut items = Items::of(path.leaf);
        items.remove(path.leaf.place(start));
        self.replace(&path, path.leaf, &items);
    }
}

impl<M: Machine, R: Reverse> Entries<R> for Held<'_, '_, M, R> {
    fn up_to(&self, page: Page) -> Option<View<'_, R>> {
        // SAFETY: this thread holds the lock.
        unsafe { Some(self.root()?.up_to(page)?.view()) }
    }

    fn from(&self, page: Page) -> Option<View<'_, R>> {
        // SAFETY: this thread holds the lock.
        unsafe { Some(self.root()?.from(page)?.view()) }
    }

    fn insert(&mut self, Entry { pages, protection, backing }: Entry<R>) {
        let state = State { pages, protection, backing: Some(backing) };
        let area = Area {
            readers: AtomicU32::new(0),
            marked: AtomicU64::new(self.map.turn.load(Relaxed)),
            state: UnsafeCell::new(state),
        };
        self.insert_area(pages.start, NonNull::from(Box::leak(Box::new(area))));
    }

    fn remove(&mut self, start: Page) -> R::Backing {
        let area = self.area(start);
        let state = self.mark(area);
        // SAFETY: this thread has marked the area.
        let backing = unsafe { (*state).backing.take() };
        self.remove_area(start);
        // SAFETY: the pointer came from a box, and was removed from the tree.
        unsafe { self.cpu.pin().retire(ptr::from_ref(area).cast_mut()) };
        backing.expect("the area was in the map")
    }

    fn set_end(&mut self, start: Page, end: Page) {
        let state = self.mark(self.area(start));
        // SAFETY: this thread has marked the area.
        unsafe { (*state).pages.end = end };
    }

    fn set_start(&mut self, start: Page, new: Page) {
        let area = self.area(start);
        let state = self.mark(area);
        // SAFETY: this thread has marked the area.
        unsafe { (*state).pages.start = new };
        let path = self.path(start).expect("an entry begins there");
        if !path.keys.contains(new) {
            self.remove_area(start);
            return self.insert_area(new, NonNull::from(area));
        }
        let mut items = Items::of(path.leaf);
        items.items[path.leaf.place(start)].0 = new;
        self.replace(&path, path.leaf, &items);
    }

    fn set_protection(&mut self, start: Page, protection: Protection) {
        let state = self.mark(self.area(start));
        // SAFETY: this thread has marked the area.
        unsafe { (*state).protection = protection };
    }

    fn gap(&mut self, pages: Pages, count: u64) -> Option<Page> {
        let root = self.root();
        let cache = self.lock.as_deref_mut().expect("only a downgrade takes it");
        cache.find(pages, count, |from, with| {
            let Some(root) = root else { return };
            // SAFETY: this thread holds the lock.
            unsafe {
                let first = from.0.checked_sub(1).and_then(|before| root.up_to(Page(before)));
                if first.is_none_or(|first| with(first.state().pages)) {
                    root.for_each_from(from, with);
                }
            }
        })
    }

    fn unmapped(&mut self, start: Page) {
        let gap = self.before(start).map_or(Page(0), |before| before.pages.end);
        self.lock.as_deref_mut().expect("only a downgrade takes it").unmapped(gap);
    }

    fn exclude_faults(&mut self) {
        let mut next = Page(0);
        // SAFETY: this thread holds the lock.
        while let Some(area) = self.root().and_then(|root| unsafe { root.from(next) }) {
            self.mark(area);
            // SAFETY: as above.
            next = unsafe { area.state() }.pages.end;
        }
    }

    fn downgrade<T>(mut self, with: impl FnOnce() -> T) -> T {
        let lock = self.lock.take();
        drop(self);
        let _lock = lock.map(Writing::downgrade);
        with()
    }
}

impl<M: Machine, R: Reverse> Drop for Held<'_, '_, M, R> {
    fn drop(&mut self) {
        // Release: if a reader finds that the turn in which an area was marked is over, it sees what was done
        // in that turn. This thread still holds the lock, because fields are dropped only after this function
        // returns.
        self.map.turn.fetch_add(1, Release);
    }
}

//! A reverse map with one structure for each mapping operation: DragonFly's backings, Linux's `anon_vma`.
//!
//! A frame records its *object* and its page number. An object lists the parts of spaces in which its frames
//! may be mapped. Nothing is stored per page, so a walk reads the page-table entries to find out where
//! the frame is mapped. The first fault creates the object. A fork copies each backing and adds the copy to
//! the list of the same object. If later copy-on-write faults allocate frames, these belong to this object
//! too, as with Linux's `anon_vma` until 2.6.33. There are no `anon_vma_chain`s, so a walk visits all spaces
//! that are related by forks.
//!
//! Source: DragonFly BSD 5.6, `sys/vm/vm_map.h` (`struct vm_map_backing`); Linux, `mm/rmap.c`.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use knee_sync::Platform;
use knee_sync::epoch::Guard;
use knee_vm::{Cpu, Entry, Format, Frame, Machine, OutOfMemory, Page, Pages};

use super::frames::Frames;
use super::lock::Lock;
use super::pmap::Pmap;
use super::reverse::{Backing, Mapping, Reverse};
use super::reverse_state::ReverseState;
use crate::invalidation::Stamp;

/// A reverse map with one structure for each mapping operation. Each page table has a lock, as in Linux.
#[derive(Debug)]
pub enum PerBacking {}

/// A range of pages of a space, in which frames of one object may be mapped.
#[derive(Debug)]
pub struct Part {
    pmap: Arc<Pmap<PerBacking>>,
    /// The first page. The range from `start` to `end` may grow while the map is locked, but it never
    /// shrinks.
    start: AtomicU64,
    end: AtomicU64,
    /// The object, or null until the first fault.
    object: AtomicPtr<Object>,
    /// The part's position in the object's list. The list's lock guards this position.
    place: AtomicUsize,
}

/// An object: the parts of all spaces in which the object's frames may be mapped.
#[derive(Debug)]
struct Object {
    /// The object exists until the last part is removed and a grace period has passed.
    parts: Lock<Vec<NonNull<Part>>>,
}

// SAFETY: a part is removed from the list before it is freed.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Adds a part to the list. The list must not be empty, unless no other thread can reach the object.
    fn add(&self, part: &Part) {
        let mut parts = self.parts.lock_briefly();
        part.place.store(parts.len(), Relaxed);
        parts.push(NonNull::from(part));
    }

    /// Removes a part. Returns whether the list is now empty.
    fn remove(&self, part: &Part) -> bool {
        let mut parts = self.parts.lock_briefly();
        let place = part.place.load(Relaxed);
        parts.swap_remove(place);
        if let Some(moved) = parts.get(place) {
            // SAFETY: the part is in the list, and is freed only after its removal.
            unsafe { moved.as_ref() }.place.store(place, Relaxed);
        }
        parts.is_empty()
    }
}

impl Part {
    fn new(pmap: &Arc<Pmap<PerBacking>>, pages: Pages) -> Arc<Part> {
        Arc::new(Part {
            pmap: Arc::clone(pmap),
            start: AtomicU64::new(pages.start.0),
            end: AtomicU64::new(pages.end.0),
            object: AtomicPtr::new(ptr::null_mut()),
            place: AtomicUsize::new(0),
        })
    }

    fn pages(&self) -> Pages {
        Pages { start: Page(self.start.load(Relaxed)), end: Page(self.end.load(Relaxed)) }
    }

    /// Returns the object, and creates it if there is none yet.
    fn object(&self) -> *mut Object {
        // Acquire: pairs with `new_object`, so that this thread finds the object initialized.
        let object = self.object.load(Acquire);
        if object.is_null() { self.new_object() } else { object }
    }

    #[cold]
    fn new_object(&self) -> *mut Object {
        let new = Box::new(Object { parts: Lock::new(Vec::new()) });
        new.add(self);
        let new = Box::into_raw(new);
        // Release: publishes the new object. Acquire: if another thread has published its object, this thread
        // sees the object initialized.
        match self.object.compare_exchange(ptr::null_mut(), new, Release, Acquire) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: this thread has just made the object, and no other thread can reach it. The part's
                // recorded position stays correct: it is 0 in the lists of both `new` and `other`.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        }
    }
}

impl Backing<PerBacking> for Arc<Part> {
    fn is_same(&self, other: &Arc<Part>) -> bool {
        Arc::ptr_eq(self, other)
    }

    fn extend(&self, pages: Pages) -> bool {
        self.start.fetch_min(pages.start.0, Relaxed);
        self.end.fetch_max(pages.end.0, Relaxed);
        true
    }

    fn fork(&self, pmap: &Arc<Pmap<PerBacking>>) -> Arc<Part> {
        let part = Part::new(pmap, self.pages());
        // SAFETY: this part is in the object's list, so the object exists. Acquire: as in `object`.
        if let Some(object) = unsafe { self.object.load(Acquire).as_ref() } {
            // Relaxed: no other thread has the part yet.
            part.object.store(ptr::from_ref(object).cast_mut(), Relaxed);
            object.add(&part);
        }
        part
    }

    fn end(self, guard: &Guard<'_, impl Platform>) {
        // If another entry shares the part, the part stays in its list, at the same address. The reference
        // count cannot change meanwhile: only the map holds references, and the caller holds the map's lock.
        if Arc::strong_count(&self) > 1 {
            return;
        }
        // Acquire: as in `object`.
        let object = self.object.load(Acquire);
        // SAFETY: this part is in the object's list, so the object exists.
        if unsafe { object.as_ref() }.is_some_and(|object| object.remove(&self)) {
            // SAFETY: the object came from a box. No part and no frame refers to the object any more, and
            // each thread that found the object through a frame is in a section.
            unsafe { guard.retire(object) };
        }
    }
}

/// The object and the page number of a frame.
#[derive(Debug, Default)]
pub struct Owner {
    object: AtomicPtr<Object>,
    page: AtomicU64,
}

impl ReverseState for PerBacking {
    const ONE_LOCK: bool = false;
    type OfFrame = Owner;
    type OfSpace = ();
}

impl Reverse for PerBacking {
    type Backing = Arc<Part>;

    fn back(pmap: &Arc<Pmap<PerBacking>>, pages: Pages) -> Arc<Part> {
        Part::new(pmap, pages)
    }

    #[inline]
    fn reserve<'m, M: Machine>(
        _: &Frames<'m, M, PerBacking>,
        _: &Cpu<'m, M>,
        _: &Pmap<PerBacking>,
        (): &mut (),
    ) -> Result<(), OutOfMemory> {
        Ok(())
    }

    #[inline]
    fn insert<M: Machine>(
        frames: &Frames<'_, M, PerBacking>,
        of: Mapping<'_, PerBacking>,
        frame: Frame,
        backing: &Arc<Part>,
    ) {
        let record = frames.record(frame);
        record.was_shared.store(false, Relaxed);
        record.count.store(1, Relaxed);
        record.of.page.store(of.page.0, Relaxed);
        // Release: a reader that loads this pointer sees the initialized object and the frame's page number.
        record.of.object.store(backing.object(), Release);
    }

    fn share<M: Machine>(
        frames: &Frames<'_, M, PerBacking>,
        _: Mapping<'_, PerBacking>,
        frame: Frame,
    ) {
        let record = frames.record(frame);
        let _bucket = frames.lock_bucket(frame);
        record.was_shared.store(true, Relaxed);
        record.count.fetch_add(1, Relaxed);
    }

    #[inline]
    fn remove<M: Machine>(
        frames: &Frames<'_, M, PerBacking>,
        _: Mapping<'_, PerBacking>,
        frame: Frame,
        mark: impl FnOnce(&Stamp),
        _: impl FnMut(Frame),
    ) -> bool {
        let record = frames.record(frame);
        let is_last = if record.was_shared.load(Relaxed) {
            let _bucket = frames.lock_bucket(frame);
            mark(&frames.bucket(frame).stamp);
            // Relaxed: the bucket's lock orders all changes to the frame's count.
            record.count.fetch_sub(1, Relaxed) == 1
        } else {
            // No other thread has the frame or can get it, because this entry was the only path to the frame.
            record.count.store(0, Relaxed);
            true
        };
        if is_last {
            record.of.object.store(ptr::null_mut(), Relaxed);
        }
        is_last
    }

    fn for_mappings<M: Machine>(
        frames: &Frames<'_, M, PerBacking>,
        cpu: &Cpu<'_, M>,
        frame: Frame,
        mut with: impl FnMut(u64, Page),
    ) {
        let _guard = cpu.pin();
        let owner = &frames.record(frame).of;
        // SAFETY: if the frame belonged to an object at any time in this section, that object exists until
        // the section ends. Acquire: pairs with `insert`.
        let Some(object) = (unsafe { owner.object.load(Acquire).as_ref() }) else { return };
        let page = Page(owner.page.load(Relaxed));
        let parts = object.parts.lock_briefly();
        for part in parts.iter() {
            // SAFETY: the part is in the list, and is freed only after its removal.
            let part = unsafe { part.as_ref() };
            if !part.pages().contains(page) {
                continue;
            }
            let Some(entry) = frames.find(&part.pmap, page) else { continue };
            let (Entry::Page { frame: found, .. } | Entry::ProtNone(found)) =
                M::Format::read(entry.load(Relaxed), 0)
            else {
                continue;
            };
            if found == frame {
                with(part.pmap.number, page);
            }
        }
    }
}

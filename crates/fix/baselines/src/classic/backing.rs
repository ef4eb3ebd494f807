//! A structure for each operation that maps: DragonFly's backings, Linux' `anon_vma`.
//!
//! A frame knows its *object* and its page number; an object knows the parts of spaces where its frames
//! may be. Whether a frame is there, the table's entry says: so what backings say may be more than
//! what is, and nothing is kept for a page. An object comes with the first fault. A fork adds its backings to the
//! objects of those that it copies, and frames that are copied later belong to the same object, as with Linux'
//! `anon_vma` until 2.6.33: no chains, and a walk looks at all spaces of the family.
//!
//! Source: DragonFly BSD 5.6, `sys/vm/vm_map.h` (`struct vm_map_backing`); Linux, `mm/rmap.c`.

use std::fmt::Debug;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use knee_sync::Platform;
use knee_sync::epoch::Guard;
use knee_vm::{Cpu, Entry, Format, Frame, Machine, OutOfMemory, Page, Pages};

use super::frames::Frames;
use super::lock::Lock;
use super::pmap::Pmap;
use super::reverse::{Mapping, Reverse};
use crate::invalidation::Stamp;

/// What is behind an entry of a map. Those that are made of one have the same.
pub trait Backing<R: Reverse>: Debug + Clone + Send + Sync {
    /// Whether two entries have the same.
    fn is_same(&self, other: &Self) -> bool;

    /// Whether it is behind these pages as well, from now on.
    fn extend(&self, pages: Pages) -> bool;

    /// What is behind an entry of a copy of the space.
    fn fork(&self, pmap: &Arc<Pmap<R>>) -> Self;

    /// An entry is gone, after its pages' frames.
    fn end(self, guard: &Guard<'_, impl Platform>);
}

impl<R: Reverse> Backing<R> for () {
    fn is_same(&self, (): &()) -> bool {
        true
    }

    fn extend(&self, _: Pages) -> bool {
        true
    }

    fn fork(&self, _: &Arc<Pmap<R>>) {}

    fn end(self, _: &Guard<'_, impl Platform>) {}
}

/// Where frames are mapped: by the operation that has mapped. Each table has a lock, as Linux' do.
#[derive(Debug)]
pub enum PerBacking {}

/// Pages of a space where frames of an object may be.
#[derive(Debug)]
pub struct Part {
    pmap: Arc<Pmap<PerBacking>>,
    /// They grow and never shrink, under the map's lock.
    start: AtomicU64,
    end: AtomicU64,
    /// Null until the first fault.
    object: AtomicPtr<Object>,
    /// Its place in the object's list, whose lock guards it.
    place: AtomicUsize,
}

/// What frames belong to.
#[derive(Debug)]
struct Object {
    /// Parts; the object is there as long as there is one, and an epoch longer.
    parts: Lock<Vec<NonNull<Part>>>,
}

// SAFETY: parts are in the list as long as they are there.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Adds a part to the list. The object has one already, or nobody else knows it.
    fn add(&self, part: &Part) {
        let mut parts = self.parts.lock_briefly();
        part.place.store(parts.len(), Relaxed);
        parts.push(NonNull::from(part));
    }

    /// Whether the list is empty now.
    fn remove(&self, part: &Part) -> bool {
        let mut parts = self.parts.lock_briefly();
        let place = part.place.load(Relaxed);
        parts.swap_remove(place);
        if let Some(moved) = parts.get(place) {
            // SAFETY: it is in the list.
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

    /// The object of its frames.
    fn object(&self) -> *mut Object {
        let object = self.object.load(Acquire);
        if object.is_null() { self.new_object() } else { object }
    }

    #[cold]
    fn new_object(&self) -> *mut Object {
        let new = Box::new(Object { parts: Lock::new(Vec::new()) });
        new.add(self);
        let new = Box::into_raw(new);
        match self.object.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: we have just made it, and nobody knows it. The part's place is 0 in both.
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
        // SAFETY: we are a part of it, and so it is there.
        if let Some(object) = unsafe { self.object.load(Acquire).as_ref() } {
            part.object.store(ptr::from_ref(object).cast_mut(), Release);
            object.add(&part);
        }
        part
    }

    fn end(self, guard: &Guard<'_, impl Platform>) {
        // Its address stays until it is in no list any more; only the map has it, whose lock we have.
        if Arc::strong_count(&self) > 1 {
            return;
        }
        let object = self.object.load(Acquire);
        // SAFETY: we are a part of it, and so it is there.
        if unsafe { object.as_ref() }.is_some_and(|object| object.remove(&self)) {
            // SAFETY: it came from a box. No part leads to it, nor does a frame; who has found it by a
            // frame is in a section.
            unsafe { guard.retire(object) };
        }
    }
}

/// What a frame belongs to.
#[derive(Debug, Default)]
pub struct Owner {
    object: AtomicPtr<Object>,
    page: AtomicU64,
}

impl Reverse for PerBacking {
    const ONE_LOCK: bool = false;
    type OfFrame = Owner;
    type OfSpace = ();
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
            record.count.fetch_sub(1, Release) == 1
        } else {
            // Nobody else has had it, or will: our entry was the only way to it.
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
        // SAFETY: an object that a frame has lost is there until our section ends.
        let Some(object) = (unsafe { owner.object.load(Acquire).as_ref() }) else { return };
        let page = Page(owner.page.load(Relaxed));
        let parts = object.parts.lock_briefly();
        for part in parts.iter() {
            // SAFETY: it is in the list.
            let part = unsafe { part.as_ref() };
            if !part.pages().contains(page) {
                continue;
            }
            let Some(entry) = frames.find(&part.pmap, page) else { continue };
            let (Entry::Page { frame: found, .. } | Entry::ProtNone(found)) =
                M::Format::read(entry.load(Acquire), 0)
            else {
                continue;
            };
            if found == frame {
                with(part.pmap.number, page);
            }
        }
    }
}

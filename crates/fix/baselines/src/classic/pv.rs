//! A reverse map with a structure for each mapped page: FreeBSD's pv entries.
//!
//! Each frame has a list of entries, under the lock of its bucket. Entries are allocated in chunks of 168. A
//! chunk fills a frame, belongs to one space and is guarded by the space's lock. The header of a chunk names
//! the space.
//!
//! Source: FreeBSD, `sys/amd64/include/pmap.h` (`struct pv_chunk`), `sys/amd64/amd64/pmap.c`
//! (`get_pv_entry`, `pmap_pvh_remove`).

use std::cell::Cell;
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use knee_sync::Platform;
use knee_sync::epoch::Guard;
use knee_vm::{Cpu, Frame, Machine, OutOfMemory, PAGE, Page, Pages};

use super::frames::Frames;
use super::pmap::Pmap;
use super::reverse::{Backing, Mapping, Reverse};
use super::reverse_state::ReverseState;
use crate::invalidation::Stamp;

/// A reverse map with a list for each frame. The list has an entry for each page where the frame is mapped.
/// One lock guards all tables of a space, as on FreeBSD.
#[derive(Debug)]
pub enum PerPage {}

/// An entry for a mapped page. The entry has 24 bytes.
#[derive(Debug)]
#[repr(C)]
struct PvEntry {
    page: Page,
    next: *mut PvEntry,
    previous: *mut PvEntry,
}

/// The head of a frame's list, guarded by the lock of the frame's bucket.
#[derive(Debug)]
pub struct Head(Cell<*mut PvEntry>);

impl Default for Head {
    fn default() -> Head {
        Head(Cell::new(ptr::null_mut()))
    }
}

// SAFETY: all accesses hold the lock of the frame's bucket.
unsafe impl Sync for Head {}
// SAFETY: as above.
unsafe impl Send for Head {}

/// The number of entries of a chunk.
const ENTRIES: usize = (PAGE - HEADER) / size_of::<PvEntry>();
const HEADER: usize = 64;
const WORDS: usize = ENTRIES.div_ceil(64);

/// The header of a chunk. The space's lock guards all fields except `pmap`, which never changes. Other
/// threads read `pmap` without this lock, so no thread may have a unique reference to a chunk.
#[derive(Debug)]
#[repr(C)]
struct Chunk {
    pmap: *const Pmap<PerPage>,
    next: *mut Chunk,
    previous: *mut Chunk,
    /// A bit for each entry, which is set if the entry is free.
    free: [u64; WORDS],
    frame: Frame,
}

const _: () = assert!(size_of::<Chunk>() <= HEADER && ENTRIES == 168);

/// The chunks of a space. Chunks with free entries come first.
#[derive(Debug)]
pub struct Chunks {
    first: *mut Chunk,
    last: *mut Chunk,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks { first: ptr::null_mut(), last: ptr::null_mut() }
    }
}

// SAFETY: the list owns its chunks.
unsafe impl Send for Chunks {}

impl Chunks {
    fn has_room(&self) -> bool {
        // SAFETY: chunks in the list are valid, and the caller holds the space's lock.
        unsafe { self.first.as_ref() }.is_some_and(|chunk| chunk.free != [0; WORDS])
    }

    /// # Safety
    /// The chunk must be valid, and must not be in a list.
    unsafe fn push_first(&mut self, chunk: *mut Chunk) {
        // SAFETY: the caller guarantees that the chunk is valid, and chunks in the list are valid.
        unsafe {
            (*chunk).previous = ptr::null_mut();
            (*chunk).next = self.first;
            match self.first.is_null() {
                false => (*self.first).previous = chunk,
                true => self.last = chunk,
            }
        }
        self.first = chunk;
    }

    /// # Safety
    /// The chunk must be valid, and must not be in a list.
    unsafe fn push_last(&mut self, chunk: *mut Chunk) {
        // SAFETY: the caller guarantees that the chunk is valid, and chunks in the list are valid.
        unsafe {
            (*chunk).next = ptr::null_mut();
            (*chunk).previous = self.last;
            match self.last.is_null() {
                false => (*self.last).next = chunk,
                true => self.first = chunk,
            }
        }
        self.last = chunk;
    }

    /// # Safety
    /// The chunk must be in this list.
    unsafe fn unlink(&mut self, chunk: *mut Chunk) {
        // SAFETY: the caller guarantees that the chunk is in the list, and chunks in the list are valid.
        unsafe {
            let (next, previous) = ((*chunk).next, (*chunk).previous);
            match next.is_null() {
                false => (*next).previous = previous,
                true => self.last = previous,
            }
            match previous.is_null() {
                false => (*previous).next = next,
                true => self.first = next,
            }
        }
    }

    /// Allocates an entry. There must be [room](Chunks::has_room).
    fn take(&mut self) -> NonNull<PvEntry> {
        let chunk = self.first;
        // SAFETY: the first chunk exists and has a free entry, and its frame has room for all entries.
        unsafe {
            let free = &mut (*chunk).free;
            let word = free.iter().position(|bits| *bits != 0).expect("there is room");
            let entry = 64 * word + free[word].trailing_zeros() as usize;
            free[word] &= free[word] - 1;
            if *free == [0; WORDS] && self.last != chunk {
                self.unlink(chunk);
                self.push_last(chunk);
            }
            NonNull::new_unchecked(chunk.cast::<u8>().add(HEADER).cast::<PvEntry>().add(entry))
        }
    }

    /// Frees an entry. Returns the chunk's frame if the chunk has no other entry in use.
    ///
    /// # Safety
    /// The entry must belong to a chunk in this list, and must not be in a frame's list.
    unsafe fn give(&mut self, entry: NonNull<PvEntry>) -> Option<Frame> {
        let chunk = chunk_of(entry);
        // SAFETY: the caller guarantees that the entry belongs to a chunk in this list.
        unsafe {
            let number =
                (entry.as_ptr().cast::<u8>()).offset_from(chunk.cast::<u8>()) as usize - HEADER;
            let number = number / size_of::<PvEntry>();
            (*chunk).free[number / 64] |= 1 << (number % 64);
            let is_unused = (*chunk).free == all_free();
            if is_unused || self.first != chunk {
                self.unlink(chunk);
                if is_unused {
                    return Some((*chunk).frame);
                }
                self.push_first(chunk);
            }
        }
        None
    }
}

fn all_free() -> [u64; WORDS] {
    let mut free = [u64::MAX; WORDS];
    free[WORDS - 1] = (1 << (ENTRIES % 64)) - 1;
    free
}

/// Returns the chunk of an entry.
fn chunk_of(entry: NonNull<PvEntry>) -> *mut Chunk {
    // Frames are aligned to their size.
    entry.as_ptr().map_addr(|address| address & !(PAGE - 1)).cast()
}

/// Adds an entry to a frame's list. The caller holds the lock of the frame's bucket.
fn push<M: Machine>(frames: &Frames<'_, M, PerPage>, of: Mapping<'_, PerPage>, frame: Frame) {
    let (entry, head) = (of.space.take(), &frames.record(frame).of.0);
    // SAFETY: the caller owns the entry, and holds the lock that guards the list.
    unsafe {
        let next = head.get();
        entry.write(PvEntry { page: of.page, next, previous: ptr::null_mut() });
        if let Some(next) = next.as_mut() {
            next.previous = entry.as_ptr();
        }
    }
    head.set(entry.as_ptr());
}

impl Backing<PerPage> for () {
    fn is_same(&self, (): &()) -> bool {
        true
    }

    fn extend(&self, _: Pages) -> bool {
        true
    }

    fn fork(&self, _: &Arc<Pmap<PerPage>>) {}

    fn end(self, _: &Guard<'_, impl Platform>) {}
}

impl ReverseState for PerPage {
    const ONE_LOCK: bool = true;
    type OfFrame = Head;
    type OfSpace = Chunks;
}

impl Reverse for PerPage {
    type Backing = ();

    fn back(_: &Arc<Pmap<PerPage>>, _: Pages) {}

    #[inline]
    fn reserve<'m, M: Machine>(
        frames: &Frames<'m, M, PerPage>,
        cpu: &Cpu<'m, M>,
        pmap: &Pmap<PerPage>,
        space: &mut Chunks,
    ) -> Result<(), OutOfMemory> {
        if space.has_room() {
            return Ok(());
        }
        let frame = frames.pools.zeroed(cpu)?;
        let chunk = cpu.machine().address(frame).cast::<Chunk>();
        let (next, previous) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: this thread allocated the frame, which is large enough.
        unsafe {
            chunk.write(Chunk { pmap, next, previous, free: all_free(), frame });
            space.push_first(chunk.as_ptr());
        }
        Ok(())
    }

    fn insert<M: Machine>(
        frames: &Frames<'_, M, PerPage>,
        of: Mapping<'_, PerPage>,
        frame: Frame,
        (): &(),
    ) {
        let record = frames.record(frame);
        let _bucket = frames.lock_bucket(frame);
        record.was_shared.store(false, Relaxed);
        record.count.store(1, Relaxed);
        push(frames, of, frame);
    }

    fn share<M: Machine>(frames: &Frames<'_, M, PerPage>, of: Mapping<'_, PerPage>, frame: Frame) {
        let record = frames.record(frame);
        let _bucket = frames.lock_bucket(frame);
        record.was_shared.store(true, Relaxed);
        record.count.fetch_add(1, Relaxed);
        push(frames, of, frame);
    }

    fn remove<M: Machine>(
        frames: &Frames<'_, M, PerPage>,
        of: Mapping<'_, PerPage>,
        frame: Frame,
        mark: impl FnOnce(&Stamp),
        mut free: impl FnMut(Frame),
    ) -> bool {
        let record = frames.record(frame);
        let bucket = frames.lock_bucket(frame);
        mark(&frames.bucket(frame).stamp);
        let mut next = record.of.0.get();
        // SAFETY: entries in the list are valid while the bucket is locked.
        let entry = unsafe {
            loop {
                let entry = NonNull::new(next).expect("the frame is mapped there");
                let is_it =
                    entry.as_ref().page == of.page && ptr::eq((*chunk_of(entry)).pmap, of.pmap);
                if is_it {
                    break entry;
                }
                next = entry.as_ref().next;
            }
        };
        // SAFETY: as above.
        unsafe {
            let PvEntry { next, previous, .. } = entry.read();
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => record.of.0.set(next),
            }
        }
        // Relaxed: the bucket's lock orders all changes to the frame's count.
        let is_last = record.count.fetch_sub(1, Relaxed) == 1;
        drop(bucket);
        // SAFETY: the entry was removed from the frame's list, and its page belongs to this space.
        if let Some(chunk) = unsafe { of.space.give(entry) } {
            free(chunk);
        }
        is_last
    }

    fn for_mappings<M: Machine>(
        frames: &Frames<'_, M, PerPage>,
        _: &Cpu<'_, M>,
        frame: Frame,
        mut with: impl FnMut(u64, Page),
    ) {
        let _bucket = frames.lock_bucket(frame);
        let mut next = frames.record(frame).of.0.get();
        while let Some(entry) = NonNull::new(next) {
            // SAFETY: the entries in the list, and the spaces of these entries, are valid while the bucket is
            // locked.
            unsafe {
                with((*(*chunk_of(entry)).pmap).number, entry.as_ref().page);
                next = entry.as_ref().next;
            }
        }
    }
}

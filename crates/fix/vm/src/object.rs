//! Objects: files and shared memory, which several spaces can map.

use alloc::boxed::Box;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use knee_sync::shim::is_mutant;

use crate::allocate::try_box;
use crate::backing::Backing;
use crate::backing::attachments::{Attachments, Visit};
use crate::backing::index::{Index, State};
use crate::backing::object_core::{Device, ObjectCore, ObjectId, PinnedObject};
use crate::backing::pager::{Pager, PagerError};
use crate::cpu::Cpu;
use crate::error::{Fault, MapError, OutOfMemory, ResizeError};
use crate::machine::Machine;
use crate::machine::format::{Format, MemoryType};
use crate::page::{Frame, PAGE, Page, Protection};
use crate::transaction::gather::TlbGather;
use crate::tree::Tree;

/// A file or shared memory: pages, numbered from 0, that spaces [map](crate::Space::map_object).
///
/// The pages live until the `Object` is dropped and its last mapping is gone.
///
/// ```
/// use knee_vm::hosted::Hosted;
/// use knee_vm::{Object, Page, Pages, Protection, Sharing, Space};
///
/// let machine = Hosted::new(1024, 2);
/// let cpu = machine.cpu(0);
/// let object = Object::new(&cpu, 16)?;
/// let (one, other) = (Space::new(&cpu)?, Space::new(&cpu)?);
/// let write = Protection::READ_WRITE;
/// one.map_object(&cpu, Pages::new(Page(100), 16), &object, 0, write, Sharing::Shared)?;
/// other.map_object(&cpu, Pages::new(Page(200), 4), &object, 8, write, Sharing::Private)?;
///
/// cpu.store(&one, Page(108).address(), 42).unwrap();
/// assert_eq!(cpu.load(&other, Page(200).address()), Ok(42));
/// cpu.store(&other, Page(200).address(), 43).unwrap(); // Breaks copy-on-write.
/// assert_eq!(cpu.load(&one, Page(108).address()), Ok(42));
/// # Ok::<(), knee_vm::MapError>(())
/// ```
pub struct Object<'m, M: Machine> {
    machine: &'m M,
    core: NonNull<ObjectCore>,
}

// SAFETY: the core is accessed only under locks or through atomics.
unsafe impl<M: Machine> Sync for Object<'_, M> {}
// SAFETY: as for `Sync`; nothing is bound to a thread.
unsafe impl<M: Machine> Send for Object<'_, M> {}

impl<'m, M: Machine> PinnedObject<'m, M> {
    /// Makes the pager read a page into a new frame. Must be called with no locks held and outside of
    /// read-side critical sections.
    pub(crate) fn page_in(&self, cpu: &Cpu<'m, M>, index: u64) -> Result<(), Fault> {
        let core = self.core();
        let Some(pager) = &core.pager else { return Ok(()) };
        let slot = loop {
            match cpu.with_pool(|pool| {
                pool.frames.has_page()?;
                Ok(core::ptr::from_ref(core.index.make(index, &mut pool.blocks)?))
            }) {
                // SAFETY: slots live as long as the object, which `self` keeps alive.
                Ok(slot) => break unsafe { &*slot },
                Err(needed) => cpu.refill(needed)?,
            }
        };
        if !slot.replace(State::Absent, State::Coming) {
            return Ok(());
        }
        let frame = cpu.with_pool(|pool| pool.frames.page());
        let frame = frame.expect("this CPU's pool has a reserved page");
        // SAFETY: this CPU owns the frame until the slot becomes `Present`.
        let page = unsafe { self.machine().address(frame).cast::<[u8; PAGE]>().as_mut() };
        let result = pager.page_in(index, page);
        if result.is_ok() && core.is_within(index) {
            self.machine().frame_meta(frame).set_object(true);
            slot.set(State::Present(frame));
            return Ok(());
        }
        slot.set(State::Absent);
        // SAFETY: the frame was never mapped.
        unsafe { cpu.free(frame) };
        match result {
            Ok(()) => Err(Fault::BeyondEnd),
            Err(PagerError::Retry) => Err(Fault::Retry),
            Err(PagerError::Failed) => Err(Fault::PagerFailed),
        }
    }

    /// Waits until the object no longer throttles forks. Must be called with no locks held and outside of
    /// read-side critical sections.
    pub(crate) fn wait_while_throttled(&self, cpu: &Cpu<'m, M>) {
        let forks_throttled = || self.core().attachments.forks_throttled();
        // SAFETY: a `Cpu` never leaves its CPU, which holds no locks, as this function requires.
        unsafe { self.machine().wait_while(cpu.number(), forks_throttled) };
    }
}

/// The exclusive right to evict, discard or write back pages of an object.
struct Busy<'a>(&'a ObjectCore);

impl<'a> Busy<'a> {
    fn new<M: Machine>(core: &'a ObjectCore, cpu: &Cpu<'_, M>) -> Busy<'a> {
        // SAFETY: a `Cpu` never leaves its CPU, which holds no locks here.
        unsafe { cpu.machine().wait_while(cpu.number(), || !core.try_begin_eviction()) };
        Busy(core)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.end_eviction();
    }
}

/// What an operation does with pages of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictMode {
    /// Write dirty pages to the pager, and remove all pages.
    Evict,
    /// Write dirty pages to the pager, and keep all pages.
    WriteBack,
    /// Remove all pages, without writing any.
    Discard,
    /// Remove all pages beyond the end of the object, without writing any. This also removes pinned pages: an
    /// operation that pins a page and then finds it beyond the end removes the pin at once.
    Truncate,
}

impl EvictMode {
    /// Whether dirty pages are written to the pager.
    fn writes(self) -> bool {
        matches!(self, EvictMode::Evict | EvictMode::WriteBack)
    }
}

impl<'m, M: Machine> Object<'m, M> {
    /// Creates shared memory: an object of `pages` pages, which initially contain zeros. It may grow to its
    /// [`capacity`](Object::capacity).
    ///
    /// # Errors
    /// If there is no memory for the object.
    pub fn new(cpu: &Cpu<'m, M>, pages: u64) -> Result<Object<'m, M>, OutOfMemory> {
        Object::new_with(cpu, pages, pages, None)
    }

    /// Creates an object of `pages` pages, whose content `pager` provides. It may grow to `capacity` pages,
    /// rounded up as [`capacity`](Object::capacity) describes.
    ///
    /// # Errors
    /// If there is no memory for the object.
    pub fn with_pager(
        cpu: &Cpu<'m, M>,
        pages: u64,
        capacity: u64,
        pager: Box<dyn Pager>,
    ) -> Result<Object<'m, M>, OutOfMemory> {
        Object::new_with(cpu, pages, capacity, Some(pager))
    }

    /// Creates an object whose pages are `pages` frames of device memory, beginning with `first`: the
    /// registers of a device, a frame buffer, or memory that the machine does not allocate. Spaces may map
    /// these pages [shared](crate::Sharing::Shared). A fault on one of these pages makes the page present,
    /// with the memory type `memory`. The object permits only the accesses in `access`; any other access is
    /// denied, whatever the mapping allows. As in a mapping, [`WRITE`](Protection::WRITE) also allows loads.
    /// Programs can never execute device memory.
    ///
    /// The frames need no metadata, and need not be mapped in the kernel: this crate neither accesses nor
    /// frees them. A store by a program is not tracked, so [`Space::usage`](crate::Space::usage) skips these
    /// pages. On these pages, [`Space::read`](crate::Space::read) and `write` return [`Fault::Device`].
    ///
    /// ```
    /// # use knee_vm::hosted::Hosted;
    /// # use knee_vm::{Frame, MemoryType, Object, Page, Pages, Protection, Sharing, Space};
    /// # let machine = Hosted::new(1024, 1);
    /// # let cpu = machine.cpu(0);
    /// # let space = Space::new(&cpu)?;
    /// let (first, access) = (Frame(0x900_0000 / 4096), Protection::READ_WRITE);
    /// // SAFETY: only programs use this serial port.
    /// let uart = unsafe { Object::of_device(&cpu, first, 1, MemoryType::Device, access)? };
    /// space.map_object(&cpu, Pages::new(Page(0x700), 1), &uart, 0, access, Sharing::Shared)?;
    /// space.fault(&cpu, Page(0x700), Protection::READ).expect("the page is mapped");
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    ///
    /// To take the device away from all programs, call [`resize`](Object::resize) with 0. From then on,
    /// accesses fail with [`Fault::BeyondEnd`]. [`discard`](Object::discard) removes the pages from all
    /// spaces, but the next access to a page makes it present again. An operation that changes mapped pages,
    /// such as `protect` or `remap`, may also remove a device page from a space. The next access to
    /// the page then makes it present again.
    ///
    /// # Errors
    /// [`MapError::OutOfMemory`], [`MapError::Empty`], and [`MapError::OutOfRange`] if the frames exceed
    /// [`Format::FRAMES`].
    ///
    /// # Safety
    /// The accesses in `access` must be harmless until the object is dropped and no space maps it. If `access`
    /// contains writes, reads must be harmless as well. So the machine must not allocate the frames, and if
    /// `access` contains writes, the frames must contain nothing that Rust code of the kernel relies on. If the
    /// kernel maps the frames as well, both mappings must have the same memory type.
    ///
    /// If the number of a frame is a multiple of 512, a fault may map this frame and the next 511 as a large
    /// page; if the machine [has](Machine::has_gigabyte_pages) pages of 1 GiB, the same holds for 2¹⁸ frames.
    /// So on x86-64, the MTRRs must give all of these frames the same memory type, if the object contains all
    /// of them (Intel, "Software Developer's Manual", volume 3, 12.11.9).
    pub unsafe fn of_device(
        cpu: &Cpu<'m, M>,
        first: Frame,
        pages: u64,
        memory: MemoryType,
        access: Protection,
    ) -> Result<Object<'m, M>, MapError> {
        if pages == 0 {
            return Err(MapError::Empty);
        }
        if first.0.checked_add(pages).is_none_or(|end| end > M::Format::FRAMES) {
            return Err(MapError::OutOfRange);
        }
        let access = (access & Protection::READ_WRITE).readable();
        let device = Device { first, pages, memory, access };
        Ok(Object::from_core(cpu, Index::new(pages)?, pages, None, Some(device))?)
    }

    fn new_with(
        cpu: &Cpu<'m, M>,
        pages: u64,
        capacity: u64,
        pager: Option<Box<dyn Pager>>,
    ) -> Result<Object<'m, M>, OutOfMemory> {
        Object::from_core(cpu, Index::new(capacity.max(pages))?, pages, pager, None)
    }

    fn from_core(
        cpu: &Cpu<'m, M>,
        index: Index,
        pages: u64,
        pager: Option<Box<dyn Pager>>,
        device: Option<Device>,
    ) -> Result<Object<'m, M>, OutOfMemory> {
        let attachments = Attachments::new(cpu.machine().cpus())?;
        let core = try_box(ObjectCore::new(index, pages, pager, device, attachments))?;
        Ok(Object { machine: cpu.machine(), core: NonNull::from(Box::leak(core)) })
    }

    pub(crate) fn core(&self) -> NonNull<ObjectCore> {
        self.core
    }

    pub(crate) fn machine(&self) -> &'m M {
        self.machine
    }

    fn get(&self) -> &ObjectCore {
        // SAFETY: the `Object` keeps its core alive.
        unsafe { self.core.as_ref() }
    }

    pub(crate) fn is_device(&self) -> bool {
        self.get().device.is_some()
    }

    /// Identifies the object in [`Space::mappings`](crate::Space::mappings).
    pub fn id(&self) -> ObjectId {
        self.get().id()
    }

    /// The number of pages.
    pub fn pages(&self) -> u64 {
        self.get().len()
    }

    /// The maximum number of pages: the requested capacity, rounded up to a power of 512, because the index
    /// of the pages is a radix tree with 512 entries per table. The result is at least 512 and at most
    /// `u64::MAX`. For [device memory](Object::of_device), this is the number of frames.
    pub fn capacity(&self) -> u64 {
        let core = self.get();
        core.device.map_or_else(|| core.index.capacity(), |device| device.pages)
    }

    /// The number of pages that have frames of the machine. The result is exact only if this number does not
    /// change during the call.
    pub fn resident(&self) -> u64 {
        let mut count = 0;
        self.get().index.for_each(0..self.pages(), |_, slot| {
            count += u64::from(matches!(slot.get(), State::Present(_) | State::Leaving(_)));
        });
        count
    }

    /// Sets the number of pages, up to the [`capacity`](Object::capacity): `ftruncate`. When `resize`
    /// returns, pages beyond the end are gone from all spaces. The private copies that spaces have made are
    /// kept.
    ///
    /// # Errors
    /// See [`ResizeError`]; the object then keeps its old size. If the call fails because another CPU has
    /// pinned a page meanwhile, accesses beyond the new end may have failed during the call.
    pub fn resize(&self, cpu: &Cpu<'m, M>, pages: u64) -> Result<(), ResizeError> {
        self.check(cpu);
        let capacity = self.capacity();
        if pages > capacity {
            return Err(ResizeError::BeyondCapacity(capacity));
        }
        let busy = Busy::new(self.get(), cpu);
        if self.has_pinned(pages..self.pages()) {
            return Err(ResizeError::Pinned);
        }
        let before = self.get().set_len(pages);
        if pages < before {
            // An operation that now pins a page beyond the new end notices this, and removes the pin at once.
            if self.has_pinned(pages..before) {
                self.get().set_len(before);
                return Err(ResizeError::Pinned);
            }
            // `Truncate` does not call the pager, so it cannot fail.
            let _ = self.take_out(cpu, &busy, pages..before, EvictMode::Truncate);
        }
        Ok(())
    }

    fn is_pinned(&self, frame: Frame) -> bool {
        self.machine.frame_meta(frame).is_pinned() && !is_mutant!("takes_pinned")
    }

    fn has_pinned(&self, pages: Range<u64>) -> bool {
        let mut found = false;
        self.get().index.for_each(pages, |_, slot| {
            if let State::Present(frame) = slot.get() {
                found |= self.is_pinned(frame);
            }
        });
        found
    }

    /// Frees the frames of these pages, wherever they are mapped: `fallocate` with `FALLOC_FL_PUNCH_HOLE`.
    /// The next access to one of these pages reads the page from the pager again, or finds zeros if the
    /// object has no pager. Skips [pinned](crate::Space::pin) pages. Returns the number of frames that were
    /// freed.
    pub fn discard(&self, cpu: &Cpu<'m, M>, pages: Range<u64>) -> u64 {
        self.check(cpu);
        self.take_out_alone(cpu, pages, EvictMode::Discard).unwrap_or_default()
    }

    /// Writes the dirty pages of the range to the pager, and frees the frames of all pages of the range
    /// except [pinned](crate::Space::pin) ones. Returns the number of freed frames. If the object has no
    /// pager, keeps all pages and returns 0.
    ///
    /// # Errors
    /// The pager's error. Pages that the pager did not accept stay in the object.
    pub fn evict(&self, cpu: &Cpu<'m, M>, pages: Range<u64>) -> Result<u64, PagerError> {
        self.check(cpu);
        match self.get().has_pager() {
            true => self.take_out_alone(cpu, pages, EvictMode::Evict),
            false => Ok(0),
        }
    }

    /// Writes the dirty pages of the range to the pager: `msync`. Skips [pinned](crate::Space::pin) pages,
    /// which stay dirty. Returns the number of pages written.
    ///
    /// # Errors
    /// The pager's error.
    pub fn write_back(&self, cpu: &Cpu<'m, M>, pages: Range<u64>) -> Result<u64, PagerError> {
        self.check(cpu);
        match self.get().has_pager() {
            true => self.take_out_alone(cpu, pages, EvictMode::WriteBack),
            false => Ok(0),
        }
    }

    /// The reverse mapping: calls `with` for each present mapping of page `index` of the object. The
    /// arguments are the number of the space, and the page at which that space maps page `index`. Private
    /// copies that spaces have made are left out. `with` may call operations, and may drop spaces.
    pub fn mappings(&self, cpu: &Cpu<'m, M>, index: u64, mut with: impl FnMut(u64, Page)) {
        self.check(cpu);
        if index >= self.pages() {
            return;
        }
        let core = self.get();
        core.attachments.visit_once(self.machine, &(index..index + 1), |visit| {
            let pages = visit.pages(&(index..index + 1));
            let found = visit.tree().locked(cpu, pages, |locked, _| {
                let backing = locked.attributes(pages.start).and_then(|found| found.backing);
                // The visited mapping may be gone by now, and another mapping of the object may have
                // replaced it.
                let is_this = backing.is_some_and(|backing| visit.is(Backing::attachment(backing)));
                let frame = || locked.frame::<M>(pages.start);
                let is_present = || match core.device {
                    Some(_) => locked.has_device::<M>(pages.start),
                    None => frame().is_some_and(|frame| core.has(index, frame)),
                };
                Ok(is_this && is_present())
            });
            if found == Ok(true) {
                with(visit.tree().number(), pages.start);
            }
        });
    }

    /// The frame of page `index`, for tests.
    #[cfg(feature = "std")]
    #[doc(hidden)]
    pub fn frame(&self, index: u64) -> Option<Frame> {
        match self.get().index.find(index)?.get() {
            State::Present(frame) | State::Leaving(frame) => Some(frame),
            _ => None,
        }
    }

    fn check(&self, cpu: &Cpu<'m, M>) {
        cpu.check(self.machine);
    }

    fn take_out_alone(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Range<u64>,
        mode: EvictMode,
    ) -> Result<u64, PagerError> {
        match pages.is_empty() {
            true => Ok(0),
            false => self.take_out(cpu, &Busy::new(self.get(), cpu), pages, mode),
        }
    }

    fn take_out(
        &self,
        cpu: &Cpu<'m, M>,
        _busy: &Busy<'_>,
        pages: Range<u64>,
        mode: EvictMode,
    ) -> Result<u64, PagerError> {
        let core = self.get();
        // From here on, faults on these pages must wait and must not add PTEs. A fault that locks its leaf
        // after the visit below sees the new states. A fault that locks its leaf before the visit may still
        // add a PTE, which the visit then finds.
        core.index.for_each(pages.clone(), |_, slot| {
            if !mode.writes() {
                // SAFETY: a `Cpu` never leaves its CPU, which holds no lock except `Busy`.
                unsafe { self.machine.wait_while(cpu.number(), || slot.get() == State::Coming) };
            }
            if let State::Present(frame) = slot.get()
                && (mode == EvictMode::Truncate || !self.is_pinned(frame))
            {
                slot.replace(State::Present(frame), State::Leaving(frame));
            }
        });
        core.attachments.visit_all(self.machine, &pages, |visit| {
            self.take_from(cpu, &visit, &pages, mode);
        });
        let mut result = Ok(0);
        core.index.for_each(pages, |index, slot| {
            let State::Leaving(frame) = slot.get() else { return };
            // A pin is added under the lock of the leaf, and the visit above locked each leaf that maps the
            // page. So a pin that was added before the visit is visible here, and a later `pin` fails,
            // because the page is `Leaving`.
            let meta = self.machine.frame_meta(frame);
            if mode == EvictMode::Truncate {
                // SAFETY: a `Cpu` never leaves its CPU, which holds no lock except `Busy`.
                unsafe { self.machine.wait_while(cpu.number(), || self.is_pinned(frame)) };
            } else if self.is_pinned(frame) {
                slot.set(State::Present(frame));
                return;
            }
            let gone = match self.finish_page(cpu, index, frame, mode) {
                Ok(is_counted) => {
                    result = result.map(|count| count + u64::from(is_counted));
                    mode != EvictMode::WriteBack
                }
                Err(error) => {
                    result = Err(error);
                    false
                }
            };
            if gone {
                meta.set_object(false);
                slot.set(State::Absent);
                // SAFETY: no space has a PTE for the frame, and all CPUs have flushed their translations of
                // it.
                unsafe { cpu.free(frame) };
            } else {
                slot.set(State::Present(frame));
            }
        });
        result
    }

    /// Removes a space's PTEs for the `Leaving` pages in `indexes`, or, for a write-back, only the write
    /// permission of these PTEs. Flushes the changed PTEs. All pages of device memory count as `Leaving`.
    fn take_from(
        &self,
        cpu: &Cpu<'m, M>,
        visit: &Visit<'m, M>,
        indexes: &Range<u64>,
        mode: EvictMode,
    ) {
        let pages = visit.pages(indexes);
        let is_leaving = |page: Page, frame: Frame| {
            let (core, index) = (self.get(), visit.index(page));
            match core.device {
                Some(device) => device.frame(index) == frame,
                None => {
                    let slot = core.index.find(index);
                    slot.is_some_and(|slot| slot.get() == State::Leaving(frame))
                }
            }
        };
        let tree: &Tree = visit.tree();
        let mut gather = TlbGather::new();
        let done = tree.locked(cpu, pages, |locked, _| {
            locked.has_small_pages(tree, pages)?;
            locked.for_each_leaf(|leaf| match mode {
                EvictMode::WriteBack => {
                    gather.protect(self.machine, leaf, pages, |page, frame, old| {
                        let is_wanted = is_leaving(page, frame);
                        if is_wanted { old.difference(Protection::WRITE) } else { old }
                    })
                }
                _ => gather.take_if(self.machine, leaf, pages, is_leaving),
            });
            Ok(())
        });
        debug_assert!(done.is_ok(), "the step needs no memory");
        // SAFETY: the gathered frames are in no table of this space.
        unsafe { gather.finish(tree, cpu) };
    }

    /// Writes a page to the pager if the page is dirty and `mode` writes dirty pages. The caller must ensure
    /// that no CPU can write to the page. Returns true if the page was written or if `mode` removes pages;
    /// the caller counts these pages.
    fn finish_page(
        &self,
        cpu: &Cpu<'m, M>,
        index: u64,
        frame: Frame,
        mode: EvictMode,
    ) -> Result<bool, PagerError> {
        let meta = cpu.machine().frame_meta(frame);
        if mode.writes() && meta.is_dirty() {
            let pager =
                self.get().pager.as_ref().expect("`evict` and `write_back` check for a pager");
            // SAFETY: no CPU writes to the frame until its slot is `Present` again.
            let page = unsafe { cpu.machine().address(frame).cast::<[u8; PAGE]>().as_ref() };
            pager.page_out(index, page)?;
            meta.set_object(true);
            return Ok(true);
        }
        Ok(mode != EvictMode::WriteBack)
    }
}

impl<M: Machine> Drop for Object<'_, M> {
    fn drop(&mut self) {
        // SAFETY: the `Object` keeps its core alive until it calls `close`. If `close` returns true, it
        // dropped the last reference, so the core has no other user.
        unsafe {
            if self.core.as_ref().attachments.close(self.machine.epoch().platform()) {
                ObjectCore::free(self.core, self.machine);
            }
        }
    }
}

impl<M: Machine> fmt::Debug for Object<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("pages", &self.pages()).finish_non_exhaustive()
    }
}

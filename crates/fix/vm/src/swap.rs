//! Swap areas: slots of a swap device, for the content of private pages that are not in memory.

use alloc::boxed::Box;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use knee_sync::shim::is_mutant;

use crate::backing::pager::{Pager, PagerError};
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::page::{Frame, PAGE};
use crate::per_cpu::for_each;

/// A swap area: slots of one page each on a swap device, which is a [`Pager`]. Spaces that were created
/// [with](crate::Space::with_swap) the area, and their forks, swap private pages out to it.
///
/// The [reclaim](crate::Space::reclaim) of a space moves pages that the program has not used for a while to
/// the device, and frees their frames. The next access brings the page back.
///
/// A slot belongs to one page of a space and of the space's forks, and is free again when none of these
/// spaces refers to it. Until then, the slot's content does not change. If [`page_out`](Pager::page_out)
/// returns an error, even [`PagerError::Retry`], the page goes back to its space, and the next reclaim may
/// choose another slot. Whatever `page_out` returns, the frame may then be reused or written to. So a device
/// that writes asynchronously must copy the page before `page_out` returns.
///
/// A slot may be used again, by another space, without notice to the device. So a `page_out` cancels all
/// unfinished transfers of its slot: after it has returned `Ok`, `page_in` must return the new content, even
/// if a read of the slot began earlier. After `page_out` has returned an error, the device must not write the
/// slot later. After `page_in` has returned an error, the device must not write to the page.
///
/// If a method of the device panics, the pages stay where they are, in memory or in their slots, and the
/// panic passes through the operation that called the method.
///
/// On x86-64 CPUs that are vulnerable to L1TF (L1 Terminal Fault), an area must not be too large:
/// [`X86_64`](crate::X86_64) describes the limit.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use knee_vm::hosted::Hosted;
/// use knee_vm::{PAGE, Page, Pager, PagerError, Pages, Protection, Space, Swap};
///
/// /// A swap device in memory.
/// struct Disk(Mutex<Vec<[u8; PAGE]>>);
///
/// impl Pager for Disk {
///     fn page_in(&self, slot: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
///         *page = self.0.lock().unwrap()[slot as usize];
///         Ok(())
///     }
///
///     fn page_out(&self, slot: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
///         self.0.lock().unwrap()[slot as usize] = *page;
///         Ok(())
///     }
/// }
///
/// let machine = Hosted::new(1024, 1);
/// let cpu = machine.cpu(0);
/// let disk = Disk(Mutex::new(vec![[0; PAGE]; 64]));
/// let swap = Arc::new(Swap::new(64, Box::new(disk))?);
/// let space = Space::with_swap(&cpu, None, Arc::clone(&swap))?;
/// space.map(&cpu, Pages::new(Page(100), 8), Protection::READ_WRITE)?;
/// cpu.store(&space, Page(100).address(), 42).unwrap();
/// cpu.store(&space, Page(101).address(), 43).unwrap();
///
/// // Under memory pressure: free two frames.
/// assert_eq!(space.reclaim(&cpu, 2), Ok(2));
/// assert_eq!((space.resident(), swap.used()), (0, 2));
///
/// assert_eq!(cpu.load(&space, Page(101).address()), Ok(43)); // The page is back.
/// assert_eq!((space.resident(), swap.used()), (1, 1));
/// # Ok::<(), knee_vm::MapError>(())
/// ```
pub struct Swap {
    slots: Box<[Slot]>,
    pager: Box<dyn Pager>,
    /// Where the search for a free slot begins.
    next: AtomicU64,
    used: AtomicU64,
}

/// What the area records about a slot. The content of a slot is written once, before the first space can read
/// it, and does not change until the slot is free again.
#[derive(Debug, Default)]
struct Slot {
    /// A [`State`].
    state: AtomicU64,
    /// The number of page-table entries that refer to the slot, plus the number of CPUs that are transferring
    /// its content.
    users: AtomicU64,
}

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// The device has the content.
    Stored,
    /// A CPU is transferring the content.
    Busy,
    /// The device did not accept the content, which is still in this frame. The slot owns the frame.
    Kept(Frame),
}

impl State {
    fn word(self) -> u64 {
        match self {
            State::Free => 0,
            State::Stored => 1,
            State::Busy => 2,
            State::Kept(frame) => frame.0 << 2 | 3,
        }
    }

    fn of(word: u64) -> State {
        match word % 4 {
            0 => State::Free,
            1 => State::Stored,
            2 => State::Busy,
            _ => State::Kept(Frame(word >> 2)),
        }
    }
}

/// The exclusive right to transfer the content of a slot. The transfer must be [ended](Swap::end).
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) slot: u64,
    /// The state before the transfer.
    pub(crate) before: State,
}

impl Swap {
    /// Creates a swap area of `slots` pages on the device of `pager`. Slot `n` is the page with number `n` of
    /// the pager. This call allocates 16 bytes per slot; nothing is allocated later.
    ///
    /// The area neither reads nor discards what the device contains. It never reads a slot before it has
    /// written the slot.
    ///
    /// # Errors
    /// If there is no memory for the slots.
    pub fn new(slots: u64, pager: Box<dyn Pager>) -> Result<Swap, OutOfMemory> {
        let slots = for_each(usize::try_from(slots).map_err(|_| OutOfMemory)?)?;
        Ok(Swap { slots, pager, next: AtomicU64::new(0), used: AtomicU64::new(0) })
    }

    /// The number of slots.
    pub fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The number of slots in use. If slots are taken or freed during the call, the result may be inexact.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    fn slot(&self, slot: u64) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Takes a free slot for a transfer to the device. The caller becomes the only user of the slot. Returns
    /// `None` if all slots are in use. Consecutive calls get ascending slots if possible, so the device can
    /// write them in one operation. The search is linear in the number of slots if nearly all are in use, so
    /// the caller should hold no lock.
    pub(crate) fn reserve(&self) -> Option<u64> {
        let (capacity, start) = (self.capacity(), self.next.load(Relaxed));
        if self.used() == capacity {
            return None;
        }
        let slot = (start..capacity).chain(0..start).find(|&slot| {
            let state = &self.slot(slot).state;
            // Acquire: pairs with the Release of the slot's last user. So the last user's reads of the old
            // content happen before the new content is written.
            state.load(Relaxed) == State::Free.word()
                && state
                    .compare_exchange(State::Free.word(), State::Busy.word(), Acquire, Relaxed)
                    .is_ok()
        })?;
        self.slot(slot).users.store(1, Relaxed);
        self.used.fetch_add(1, Relaxed);
        self.next.store((slot + 1) % capacity, Relaxed);
        Some(slot)
    }

    /// Gives back a reserved slot that was not used. The next reservation gets this slot again if possible,
    /// so that slots stay consecutive.
    pub(crate) fn cancel<M: Machine>(&self, machine: &M, slot: u64) {
        self.release(machine, slot, 1);
        self.next.store(slot, Relaxed);
    }

    /// Counts one more user. The caller must hold the lock of an entry that refers to the slot, or be a
    /// user.
    pub(crate) fn share(&self, slot: u64) {
        self.slot(slot).users.fetch_add(1, Relaxed);
    }

    /// Whether the slot has users other than the caller and one page-table entry. Suppose the caller is a
    /// user and holds the lock of an entry that refers to the slot. If the result is then false, nobody else
    /// can become a user before the caller unlocks this entry.
    pub(crate) fn is_shared(&self, slot: u64) -> bool {
        self.slot(slot).users.load(Acquire) > 2
    }

    /// Begins to read the content, and makes the caller a user. Returns `None` if another CPU is transferring
    /// the content. The caller must hold the lock of an entry that refers to the slot.
    pub(crate) fn begin(&self, slot: u64) -> Option<Transfer> {
        let state = &self.slot(slot).state;
        let word = state.load(Relaxed);
        let before = State::of(word);
        // Acquire: pairs with the Release in `end`, so that the caller sees what the last transfer wrote.
        if before == State::Busy
            || state.compare_exchange(word, State::Busy.word(), Acquire, Relaxed).is_err()
        {
            return None;
        }
        if !is_mutant!("swap_in_uncounted") {
            self.share(slot);
        }
        Some(Transfer { slot, before })
    }

    /// Ends the caller's transfer. The caller is still a user of the slot.
    pub(crate) fn end(&self, slot: u64, state: State) {
        self.slot(slot).state.store(state.word(), Release);
    }

    /// Subtracts `users` from the number of users. If no user is left, frees the slot, and the frame if the
    /// slot owns one.
    pub(crate) fn release<M: Machine>(&self, machine: &M, slot: u64, users: u64) {
        let of_slot = self.slot(slot);
        // Release and Acquire: the last user frees the slot after all transfers of the others.
        if of_slot.users.fetch_sub(users, AcqRel) != users {
            return;
        }
        if let State::Kept(frame) = State::of(of_slot.state.load(Relaxed)) {
            // SAFETY: the slot owns the frame, which is in no table, and nobody else uses the slot.
            unsafe { machine.free(&[frame]) };
        }
        self.used.fetch_sub(1, Relaxed);
        of_slot.state.store(State::Free.word(), Release);
    }

    /// Writes a frame to the device.
    ///
    /// # Safety
    /// The caller must own the frame exclusively. No CPU and no device may write to it.
    pub(crate) unsafe fn write<M: Machine>(
        &self,
        machine: &M,
        slot: u64,
        frame: Frame,
    ) -> Result<(), PagerError> {
        // SAFETY: nobody writes to the frame, as the caller guarantees.
        let page = unsafe { machine.address(frame).cast::<[u8; PAGE]>().as_ref() };
        self.pager.page_out(slot, page)
    }

    /// Reads the content of a slot into a zeroed frame.
    ///
    /// # Safety
    /// The caller must own `frame` exclusively.
    pub(crate) unsafe fn read<M: Machine>(
        &self,
        machine: &M,
        transfer: &Transfer,
        frame: Frame,
    ) -> Result<(), PagerError> {
        let to: NonNull<[u8; PAGE]> = machine.address(frame).cast();
        match transfer.before {
            State::Kept(kept) => {
                // SAFETY: the caller owns `frame`. The slot owns `kept`, and nobody writes to `kept`.
                unsafe { machine.address(kept).cast().copy_to_nonoverlapping(to, 1) };
                Ok(())
            }
            // SAFETY: the caller owns `frame`.
            _ => self.pager.page_in(transfer.slot, unsafe { &mut *to.as_ptr() }),
        }
    }
}

impl fmt::Debug for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swap")
            .field("capacity", &self.capacity())
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

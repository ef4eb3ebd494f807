//! Access to the memory of a space by the kernel: `copy_from_user`, `copy_to_user`, `process_vm_readv`,
//! `ptrace`.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::AtomicU64;

use super::Space;
use crate::cpu::Cpu;
use crate::error::{Fault, PartialCopy};
use crate::machine::Machine;
use crate::machine::format::Entry;
use crate::page::{PAGE, Page, Protection, VirtAddr};

/// Bytes in a word, the unit in which memory is read and written.
const WORD: usize = 8;

impl<'m, M: Machine> Space<'m, M> {
    /// Copies memory of the space into `bytes`, as if the program read it at `from`. The space need not be
    /// loaded on any CPU. Makes the pages present, as page faults would. No aligned 8-byte word is torn.
    ///
    /// # Errors
    /// See [`PartialCopy`]. The fault at the first byte beyond the space is [`Fault::Unmapped`].
    pub fn read(
        &self,
        cpu: &Cpu<'m, M>,
        from: VirtAddr,
        bytes: &mut [u8],
    ) -> Result<(), PartialCopy> {
        self.copy(cpu, from, bytes.len(), Protection::READ, |frame, offset, range| {
            // SAFETY: `copy` passes a frame of the space, which other CPUs access with atomics.
            unsafe { read_words(frame, offset, &mut bytes[range]) };
        })
    }

    /// Copies `bytes` into the memory of the space, as if the program wrote them at `to`. The space need not
    /// be loaded on any CPU. Makes the pages present, and breaks copy-on-write sharing, as page faults would.
    /// A concurrent store to other bytes of the same 8-byte word is not lost.
    ///
    /// # Errors
    /// See [`PartialCopy`]. The fault at the first byte beyond the space is [`Fault::Unmapped`].
    pub fn write(&self, cpu: &Cpu<'m, M>, to: VirtAddr, bytes: &[u8]) -> Result<(), PartialCopy> {
        self.copy(cpu, to, bytes.len(), Protection::WRITE, |frame, offset, range| {
            // SAFETY: `copy` passes a frame of the space, which other CPUs access with atomics.
            unsafe { write_words(frame, offset, &bytes[range]) };
        })
    }

    /// Calls `with` for each page that contains some of the `count` bytes that begin at `start`. `with` gets
    /// the address of the page's frame, the offset of the first of these bytes in the page, and the indexes
    /// (within `0..count`) of the bytes that are in this page.
    fn copy(
        &self,
        cpu: &Cpu<'m, M>,
        start: VirtAddr,
        count: usize,
        access: Protection,
        mut with: impl FnMut(NonNull<u8>, usize, Range<usize>),
    ) -> Result<(), PartialCopy> {
        self.check_cpu(cpu);
        let mut copied = 0;
        while copied < count {
            let failed = |fault| PartialCopy { copied, fault };
            let at = start.0.checked_add(copied as u64).ok_or(failed(Fault::Unmapped))?;
            let at = VirtAddr(at);
            let end = copied + (count - copied).min(PAGE - at.offset());
            self.with_page(cpu, at.page(), access, |frame| with(frame, at.offset(), copied..end))
                .map_err(failed)?;
            copied = end;
        }
        Ok(())
    }

    /// Makes `page` present for `access`, and passes the address of the page's frame to `with` while the page
    /// is locked: until `with` returns, the page stays in this frame, and this access stays allowed. Programs
    /// and other CPUs may access the frame at the same time, so `with` must use atomics.
    ///
    /// `with` must be short, because other CPUs may wait for the page. `with` must not call an operation of a
    /// space or an object, because the operation may panic or wait forever. To access a page for longer,
    /// [`pin`](Space::pin) it.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn with_page<R>(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        access: Protection,
        with: impl FnOnce(NonNull<u8>) -> R,
    ) -> Result<R, Fault> {
        let mut with = Some(with);
        loop {
            self.make_present(cpu, page, access)?;
            if self.is_in_gigabyte(cpu, page) {
                return Err(Fault::Device);
            }
            // Another CPU may have unmapped or protected the page since.
            let result = self.with_entry(cpu, page, |_, entry| match entry {
                Entry::Page { frame, protection, .. } if protection.contains(access) => {
                    let with = with.take().expect("it is called once");
                    Some(Ok(cpu.callback(|| with(self.machine().address(frame)))))
                }
                Entry::Device { .. } => Some(Err(Fault::Device)),
                _ => None,
            });
            if let Some(result) = result.flatten() {
                return result;
            }
        }
    }
}

/// The words of a frame that contain the `count` bytes that begin at `offset`. Each item is a word and the
/// positions of the requested bytes in this word, because the first and the last word may contain other bytes
/// as well.
///
/// # Safety
/// The frame must stay valid memory for the lifetime of the result, and concurrent accesses to it must be
/// atomic.
unsafe fn words<'a>(
    frame: NonNull<u8>,
    offset: usize,
    count: usize,
) -> impl Iterator<Item = (&'a AtomicU64, Range<usize>)> {
    let (first, end) = (offset / WORD, (offset + count).div_ceil(WORD));
    (first..end).map(move |index| {
        // SAFETY: the word is within the frame and aligned, and the caller guarantees that the frame is
        // valid memory.
        let word = unsafe { frame.cast::<AtomicU64>().add(index).as_ref() };
        let start = index * WORD;
        let of_word = offset.saturating_sub(start)..(offset + count - start).min(WORD);
        (word, of_word)
    })
}

/// # Safety
/// See [`words`].
unsafe fn read_words(frame: NonNull<u8>, offset: usize, mut bytes: &mut [u8]) {
    // SAFETY: the caller meets the contract of `words`.
    for (word, range) in unsafe { words(frame, offset, bytes.len()) } {
        let (part, rest) = bytes.split_at_mut(range.len());
        part.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[range]);
        bytes = rest;
    }
}

/// # Safety
/// See [`words`].
unsafe fn write_words(frame: NonNull<u8>, offset: usize, mut bytes: &[u8]) {
    // SAFETY: the caller meets the contract of `words`.
    for (word, range) in unsafe { words(frame, offset, bytes.len()) } {
        let (part, rest) = bytes.split_at(range.len());
        if range.len() == WORD {
            word.store(u64::from_ne_bytes(part.try_into().expect("8 bytes")), Relaxed);
        } else {
            let replaced = |old: u64| {
                let mut new = old.to_ne_bytes();
                new[range.clone()].copy_from_slice(part);
                Some(u64::from_ne_bytes(new))
            };
            word.fetch_update(Relaxed, Relaxed, replaced).expect("the closure returns a word");
        }
        bytes = rest;
    }
}

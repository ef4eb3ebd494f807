//! Access to the memory of a space by the kernel: `copy_from_user`, `copy_to_user`, `process_vm_readv`,
//! `ptrace`.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::AtomicU64;

use super::Space;
use crate::cpu::Cpu;
use crate::error::Fault;
use crate::machine::Machine;
use crate::machine::format::{Entry, Format};
use crate::page::{PAGE, Page, Pages, Protection, VirtAddr};
use crate::tree::node::{NodeRef, first_leaf};

/// Bytes in a word, in which memory is read and written.
const WORD: usize = 8;

impl<'m, M: Machine> Space<'m, M> {
    /// Copies memory of the space into `bytes`, as if the program read it at `from`. The space need not be
    /// loaded. Pages are made present as by faults. No word of 8 aligned bytes is torn.
    ///
    /// # Errors
    /// The fault at the first byte that cannot be read. The bytes before that byte are copied. The fault
    /// at the first byte beyond the space is [`Fault::Unmapped`].
    pub fn read(&self, cpu: &Cpu<'m, M>, from: VirtAddr, bytes: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        while let Some((at, count)) = part(from, done, bytes.len())? {
            let part = &mut bytes[done..done + count];
            self.with_page(cpu, at.page(), Protection::READ, |frame| {
                // SAFETY: `with_page` passes a frame of the space, which other CPUs access with atomics.
                unsafe { read_words(frame, at.offset(), part) };
            })?;
            done += count;
        }
        Ok(())
    }

    /// Copies `bytes` into the memory of the space, as if the program wrote them at `to`. The space need not
    /// be loaded. Pages are made present, and copied if they are shared, as by faults. A concurrent store to
    /// other bytes of the same 8-byte word is not lost.
    ///
    /// # Errors
    /// The fault at the first byte that cannot be written. The bytes before that byte are copied. The fault
    /// at the first byte beyond the space is [`Fault::Unmapped`].
    pub fn write(&self, cpu: &Cpu<'m, M>, to: VirtAddr, bytes: &[u8]) -> Result<(), Fault> {
        let mut done = 0;
        while let Some((at, count)) = part(to, done, bytes.len())? {
            let part = &bytes[done..done + count];
            self.with_page(cpu, at.page(), Protection::WRITE, |frame| {
                // SAFETY: `with_page` passes a frame of the space, which other CPUs access with atomics.
                unsafe { write_words(frame, at.offset(), part) };
            })?;
            done += count;
        }
        Ok(())
    }

    /// Makes `page` present for `access`, and calls `with` with the address of the page's frame while the
    /// page is locked: the page stays in this frame, and this access stays allowed. Programs and other CPUs
    /// may access the frame meanwhile.
    ///
    /// `with` must be short. It must not panic, nor call an operation of this machine.
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
            let _guard = cpu.pin();
            let pages = Pages::new(page, 1);
            let Some(leaf) = first_leaf(NodeRef::Branch(self.tree().root()), pages) else {
                continue;
            };
            leaf.lock(self.machine().epoch().platform());
            // Another CPU may have unmapped or protected the page since.
            let entry = leaf
                .table()
                .filter(|_| !leaf.is_detached())
                .map(|entries| M::Format::read(entries[leaf.slot(page)].load(Relaxed), 0));
            let result = match entry {
                Some(Entry::Page { frame, protection, .. }) if protection.contains(access) => {
                    let with = with.take().expect("it is called once");
                    Some(Ok(with(self.machine().address(frame))))
                }
                Some(Entry::Device { .. }) => Some(Err(Fault::Device)),
                _ => None,
            };
            leaf.unlock();
            if let Some(result) = result {
                return result;
            }
        }
    }
}

/// The part of a range that begins after `done` bytes, and ends at the next page boundary or at the end of
/// the range. `None` if no bytes are left.
fn part(start: VirtAddr, done: usize, bytes: usize) -> Result<Option<(VirtAddr, usize)>, Fault> {
    if done == bytes {
        return Ok(None);
    }
    let at = VirtAddr(start.0.checked_add(done as u64).ok_or(Fault::Unmapped)?);
    Ok(Some((at, (bytes - done).min(PAGE - at.offset()))))
}

/// The words of a frame that contain `count` bytes from `offset` on. Each word comes with the range of these
/// bytes within the word.
///
/// # Safety
/// The frame must stay valid memory for the lifetime of the result, and concurrent accesses to it must be
/// atomic.
unsafe fn words<'a>(
    frame: NonNull<u8>,
    offset: usize,
    count: usize,
) -> impl Iterator<Item = (&'a AtomicU64, core::ops::Range<usize>)> {
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

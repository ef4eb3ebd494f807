//! A CPU, as the thread knows it that is one.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::Hosted;
use super::mailbox::Mailbox;
use super::tlb::Known;
use crate::address_space::AddressSpace;
use crate::cpu::{Cpu, table_at};
use crate::error::Fault;
use crate::format::{Entry, Format};
use crate::machine::{Flush, Machine};
use crate::page::{BITS, ENTRIES, PAGE, Protection};

/// A CPU of a [`Hosted`] machine, which its thread is.
pub struct Processor<'m> {
    machine: &'m Hosted,
    cpu: Cpu<'m, Hosted>,
}

impl<'m> Processor<'m> {
    pub(super) fn new(machine: &'m Hosted, number: usize) -> Processor<'m> {
        let mailbox = machine.mailboxes.get(number);
        let mailbox = mailbox.unwrap_or_else(|| panic!("the machine has no CPU {number}"));
        assert!(mailbox.come(), "CPU {number} is there already");
        machine.ticks.come(number);
        super::frames::set_cpu(number);
        // SAFETY: it was not there, and a CPU is whatever thread has it.
        let cpu = unsafe { Cpu::new(machine, number) };
        Processor { machine, cpu }
    }

    fn mailbox(&self) -> &'m Mailbox {
        &self.machine.mailboxes[self.cpu.number()]
    }

    /// The word at this address. Where the page is on its way ([`Fault::Later`]) it tries again until it is there, as
    /// a program does.
    ///
    /// # Errors
    /// See [`Fault`].
    ///
    /// # Panics
    /// If the address is not a multiple of eight.
    #[inline]
    pub fn load(
        &self,
        space: &(impl AddressSpace<'m, Hosted> + ?Sized),
        address: u64,
    ) -> Result<u64, Fault> {
        self.access(space, address, Protection::READ, |word| word.load(Relaxed))
    }

    /// Writes the word at this address; waits as [`load`](Processor::load) does.
    ///
    /// # Errors
    /// See [`Fault`].
    ///
    /// # Panics
    /// If the address is not a multiple of eight.
    #[inline]
    pub fn store(
        &self,
        space: &(impl AddressSpace<'m, Hosted> + ?Sized),
        address: u64,
        value: u64,
    ) -> Result<(), Fault> {
        self.access(space, address, Protection::WRITE, |word| word.store(value, Relaxed))
    }

    #[inline]
    fn access<R>(
        &self,
        space: &(impl AddressSpace<'m, Hosted> + ?Sized),
        address: u64,
        access: Protection,
        with: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R, Fault> {
        assert!(address.is_multiple_of(8), "words are at multiples of eight");
        let page = address / PAGE as u64;
        loop {
            self.answer();
            // SAFETY: this is the CPU's thread, as a `Cpu` stays on its own.
            let known = unsafe { self.mailbox().tlb() }.find(space.number(), page);
            let known = known.filter(|known| known.protection.allows(access));
            if let Some(known) = known.or_else(|| self.walk(space, page, access)) {
                let result = with(self.machine.word(known.frame, address as usize % PAGE / 8));
                // Nobody frees the frame before we answer, which we do not do in between.
                let is_stale = self.machine.generation(known.frame) != known.generation;
                assert!(!is_stale, "CPU {} has kept page {page:#x} too long", self.cpu.number());
                return Ok(result);
            }
            // What the tables have is more than what we know, or less than what we want.
            // SAFETY: as above.
            unsafe {
                self.mailbox().forget(space.number(), Flush::Some(crate::Pages::new(page, 1)))
            };
            match space.fault(&self.cpu, page, access) {
                Err(Fault::Later) => std::thread::yield_now(),
                result => result?,
            }
        }
    }

    /// Finds a page in the tables, as the hardware does, and remembers it.
    #[cold]
    fn walk(
        &self,
        space: &(impl AddressSpace<'m, Hosted> + ?Sized),
        page: u64,
        access: Protection,
    ) -> Option<Known> {
        type Tables = <Hosted as Machine>::Format;
        space.activate(&self.cpu);
        if !space.pages().contains(page) {
            return None;
        }
        let mut frame = space.table();
        for level in (0..Tables::LEVELS).rev() {
            // SAFETY: tables are freed when all CPUs have answered, which we do not do in between.
            let table = unsafe { table_at(self.machine, frame).as_ref() };
            let slot = (page >> (BITS * u32::from(level))) as usize % ENTRIES;
            match Tables::read(table[slot].load(Acquire), level) {
                Entry::Table(next) => frame = next,
                Entry::Page { frame, protection, .. } if protection.allows(access) => {
                    let generation = self.machine.generation(frame);
                    // The entry may have gone since: then whoever took it out waits for our answer.
                    // SAFETY: this is the CPU's thread.
                    let tlb = unsafe { self.mailbox().tlb() };
                    tlb.learn(space.number(), page, frame, protection, generation);
                    return tlb.find(space.number(), page);
                }
                _ => return None,
            }
        }
        None
    }

    /// The CPU goes to another space: it forgets this one, and nobody who changes that waits for it until it is
    /// there again.
    pub fn leave(&self, space: &(impl AddressSpace<'m, Hosted> + ?Sized)) {
        // SAFETY: this is the CPU's thread, which knows nothing of the space then.
        unsafe { self.mailbox().leave(space.number(), || space.deactivate(&self.cpu)) };
    }

    /// Answers others that wait for this CPU.
    #[inline]
    pub fn answer(&self) {
        // SAFETY: this is the CPU's thread.
        unsafe { self.mailbox().answer() };
    }

    /// The timer has interrupted the CPU, which forgets all that it knows: what spaces that are
    /// [lazy](crate::Space::set_lazy) wait for.
    pub fn tick(&self) {
        self.answer();
        // SAFETY: this is the CPU's thread.
        self.machine.ticks.tick(self.cpu.number(), || unsafe { self.mailbox().forget_all() });
    }

    fn go(&self) {
        // SAFETY: this is the CPU's thread.
        unsafe { self.mailbox().go() };
        self.machine.ticks.go(self.cpu.number());
    }

    /// Calls `with` while the CPU is not there: nobody waits for it, and afterwards it knows nothing. So a thread that
    /// is a CPU waits for others by `cpu.rest(|| thread.join())`.
    pub fn rest<R>(&mut self, with: impl FnOnce() -> R) -> R {
        struct Back<'a, 'm>(&'a Processor<'m>);
        impl Drop for Back<'_, '_> {
            fn drop(&mut self) {
                self.0.mailbox().come();
                self.0.machine.ticks.come(self.0.cpu.number());
            }
        }
        self.go();
        let _back = Back(self);
        with()
    }
}

/// What the operations of an address space want. Each time it is asked for the CPU answers others first: so one that
/// only maps answers as well.
impl<'m> Deref for Processor<'m> {
    type Target = Cpu<'m, Hosted>;

    #[inline]
    fn deref(&self) -> &Cpu<'m, Hosted> {
        self.answer();
        &self.cpu
    }
}

impl Drop for Processor<'_> {
    fn drop(&mut self) {
        self.go();
    }
}

impl fmt::Debug for Processor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor").field("number", &self.cpu.number()).finish_non_exhaustive()
    }
}

//! The interface between the hosted MMU and an address space.

use crate::cpu::Cpu;
use crate::error::Fault;
use crate::machine::Machine;
use crate::page::{Frame, Page, Pages, Protection};
use crate::space::Space;

/// What an MMU needs from an address space: its tables, its set of active CPUs, and its page-fault handler.
///
/// [`Space`] implements this trait. Other designs of address spaces may implement the trait to run on
/// a [`Hosted`](super::Hosted) machine.
pub trait MmuContext<'m, M: Machine> {
    /// See [`Space::number`].
    fn number(&self) -> u64;

    /// See [`Space::table`].
    fn table(&self) -> Frame;

    /// See [`Space::pages`].
    fn pages(&self) -> Pages;

    /// See [`Space::activate`].
    fn activate(&self, cpu: &Cpu<'m, M>);

    /// See [`Space::deactivate`].
    ///
    /// # Safety
    /// See [`Space::deactivate`].
    unsafe fn deactivate(&self, cpu: &Cpu<'m, M>);

    /// See [`Space::fault`].
    ///
    /// # Errors
    /// See [`Fault`].
    fn fault(&self, cpu: &Cpu<'m, M>, page: Page, access: Protection) -> Result<(), Fault>;
}

impl<'m, M: Machine> MmuContext<'m, M> for Space<'m, M> {
    #[inline]
    fn number(&self) -> u64 {
        self.number()
    }

    fn table(&self) -> Frame {
        self.table()
    }

    fn pages(&self) -> Pages {
        self.pages()
    }

    fn activate(&self, cpu: &Cpu<'m, M>) {
        self.activate(cpu);
    }

    unsafe fn deactivate(&self, cpu: &Cpu<'m, M>) {
        // SAFETY: the caller meets the contract of `Space::deactivate`.
        unsafe { self.deactivate(cpu) };
    }

    fn fault(&self, cpu: &Cpu<'m, M>, page: Page, access: Protection) -> Result<(), Fault> {
        self.fault(cpu, page, access)
    }
}

//! The trait through which the reference model uses spaces of knee-vm.

use knee_vm::hosted::MmuContext;
use knee_vm::{Cpu, Fault, Machine, MapError, Page, Pages, Protection, Space};

/// The operations that the reference model compares. knee-baselines has a larger trait, for other designs.
pub(crate) trait AddressSpace<'m, M: Machine>: MmuContext<'m, M> {
    fn map(&self, cpu: &Cpu<'m, M>, pages: Pages, protection: Protection) -> Result<(), MapError>;
    fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError>;
    fn protect(&self, cpu: &Cpu<'m, M>, pages: Pages, to: Protection) -> Result<(), MapError>;
    fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError>;
    fn populate(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), Fault>;
    fn query(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Protection>;
}

impl<'m, M: Machine> AddressSpace<'m, M> for Space<'m, M> {
    fn map(&self, cpu: &Cpu<'m, M>, pages: Pages, protection: Protection) -> Result<(), MapError> {
        self.map(cpu, pages, protection)
    }

    fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.unmap(cpu, pages)
    }

    fn protect(&self, cpu: &Cpu<'m, M>, pages: Pages, to: Protection) -> Result<(), MapError> {
        self.protect(cpu, pages, to)
    }

    fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.discard(cpu, pages)
    }

    fn populate(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), Fault> {
        self.populate(cpu, pages)
    }

    fn query(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Protection> {
        self.query(cpu, page)
    }
}

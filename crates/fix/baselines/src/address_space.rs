//! The operations that every design of address spaces provides.

use knee_vm::hosted::MmuContext;
use knee_vm::{Cpu, Fault, Machine, MapError, Page, Pages, Protection, Space};

/// An address space of any design: [`Space`], or one of the [older designs](crate::classic::Space).
///
/// Tests, benchmarks and workloads are written once, for this trait. A program that chooses a design at run
/// time uses `dyn AddressSpace`. Any CPU may call any operation at any time. Each operation behaves and fails
/// like the [`Space`] operation of the same name, except that the older designs have no guard pages.
///
/// ```
/// use knee_baselines::AddressSpace;
/// use knee_vm::hosted::Hosted;
/// use knee_vm::{Cpu, Machine, MapError, Protection, Space};
///
/// /// Maps, touches and unmaps.
/// fn work<'m, M: Machine>(space: &impl AddressSpace<'m, M>, cpu: &Cpu<'m, M>) -> Result<(), MapError> {
///     let pages = space.map_anywhere(cpu, 4, Protection::READ_WRITE)?;
///     space.populate(cpu, pages).expect("there are frames");
///     space.unmap(cpu, pages)
/// }
///
/// let machine = Hosted::new(1024, 1);
/// let cpu = machine.cpu(0);
/// work(&Space::new(&cpu)?, &cpu)?;
/// # Ok::<(), MapError>(())
/// ```
///
/// # Panics
/// All operations panic if the CPU belongs to another machine.
pub trait AddressSpace<'m, M: Machine>: MmuContext<'m, M> + Send + Sync {
    /// Returns the number of present pages. The number is exact only if there are no concurrent changes.
    fn resident(&self) -> u64;

    /// Maps private memory at `pages`, which must be unmapped.
    ///
    /// # Errors
    /// See [`MapError`].
    fn map(&self, cpu: &Cpu<'m, M>, pages: Pages, protection: Protection) -> Result<(), MapError>;

    /// Maps `count` pages in an unmapped range, and returns the range.
    ///
    /// # Errors
    /// See [`MapError`].
    fn map_anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        protection: Protection,
    ) -> Result<Pages, MapError>;

    /// Unmaps `pages`; some or all of them may be unmapped already. After the call, no CPU can access these
    /// pages, unless the space is [lazy](Space::set_lazy).
    ///
    /// # Errors
    /// See [`MapError`].
    fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError>;

    /// Changes the protection of `pages`, which must all be mapped.
    ///
    /// # Errors
    /// See [`MapError`].
    fn protect(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError>;

    /// Frees the frames of `pages`. The next access finds zeros.
    ///
    /// # Errors
    /// See [`MapError`].
    fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError>;

    /// Makes `pages` present, one after the other, as if each page were read. All of these pages must be
    /// mapped.
    ///
    /// # Errors
    /// The fault of the first page that cannot be read. All pages before it have been made present.
    fn populate(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), Fault> {
        pages.iter().try_for_each(|page| self.fault(cpu, page, Protection::READ))
    }

    /// Returns the protection of a page, or `None` if it is unmapped.
    fn query(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Protection>;

    /// Returns a copy of the space as it was at one moment during the call. Pages are copied on write.
    ///
    /// # Errors
    /// See [`MapError`].
    fn fork(&self, cpu: &Cpu<'m, M>) -> Result<Self, MapError>
    where
        Self: Sized;
}

impl<'m, M: Machine> AddressSpace<'m, M> for Space<'m, M> {
    fn resident(&self) -> u64 {
        self.resident()
    }

    fn map(&self, cpu: &Cpu<'m, M>, pages: Pages, protection: Protection) -> Result<(), MapError> {
        self.map(cpu, pages, protection)
    }

    fn map_anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        protection: Protection,
    ) -> Result<Pages, MapError> {
        self.map_anywhere(cpu, count, protection)
    }

    fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.unmap(cpu, pages)
    }

    fn protect(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.protect(cpu, pages, protection)
    }

    fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.discard(cpu, pages)
    }

    fn query(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Protection> {
        self.query(cpu, page)
    }

    fn fork(&self, cpu: &Cpu<'m, M>) -> Result<Self, MapError> {
        self.fork(cpu)
    }
}

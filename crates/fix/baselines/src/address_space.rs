//! What an address space does, whatever its design.

use knee_vm::hosted::MmuContext;
use knee_vm::{Cpu, Fault, Machine, MapError, Page, Pages, Protection, Space};

/// An address space of a machine, of any design: [`Space`], or one of the [older](crate::classic::Space).
///
/// Tests, benchmarks and workloads are written once for this. A program that chooses a design when it runs
/// has a `dyn AddressSpace`. All operations may be called by any CPU at any time; what each does and its
/// errors are those of [`Space`]'s of the same name. Older designs have no guards.
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
/// All operations, if the CPU is one of another machine.
pub trait AddressSpace<'m, M: Machine>: MmuContext<'m, M> + Send + Sync {
    /// How many pages are present. Exact if nobody changes that meanwhile.
    fn resident(&self) -> u64;

    /// Maps memory of the space's own at these pages, where nothing is mapped.
    ///
    /// # Errors
    /// See [`MapError`].
    fn map(&self, cpu: &Cpu<'m, M>, pages: Pages, protection: Protection) -> Result<(), MapError>;

    /// Maps so many pages where nothing is mapped, and says where.
    ///
    /// # Errors
    /// See [`MapError`].
    fn map_anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        protection: Protection,
    ) -> Result<Pages, MapError>;

    /// Unmaps these pages, of which some or all may not be mapped. When it returns no CPU can go there.
    ///
    /// # Errors
    /// See [`MapError`].
    fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError>;

    /// Changes what may be done with these pages, all of which are mapped.
    ///
    /// # Errors
    /// See [`MapError`].
    fn protect(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError>;

    /// Frees the frames of these pages, which are zero when somebody goes there again.
    ///
    /// # Errors
    /// See [`MapError`].
    fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError>;

    /// Makes these pages present, all of which are mapped, as if somebody had read each from the first on.
    ///
    /// # Errors
    /// Those of the first page that cannot be read: pages before it are present.
    fn populate(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), Fault> {
        pages.iter().try_for_each(|page| self.fault(cpu, page, Protection::READ))
    }

    /// What may be done with a page; none if it is not mapped.
    fn query(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Protection>;

    /// A copy of the space as it is at one moment during the call, whose pages are copied when somebody
    /// writes to them.
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

//! Reports which pages were accessed, and which were written.

use super::Space;
use crate::cpu::Cpu;
use crate::error::MapError;
use crate::machine::Machine;
use crate::page::{Page, Pages, Usage};
use crate::transaction::gather::TlbGather;

impl<'m, M: Machine> Space<'m, M> {
    /// Calls `with` for each page among `pages` that is present or [swapped out](Space::reclaim), in
    /// ascending order, and tells `with` how the page was used since its usage was last cleared. Then clears
    /// the flags in `clear` for this page. Use this for `mincore`, for a clock algorithm that looks for pages
    /// to reclaim, and for the dirty log of a live migration.
    ///
    /// The usage of a swapped page is [`Usage::SWAPPED`], and also [`Usage::DIRTY`] if the page may have been
    /// written since this flag was last cleared.
    ///
    /// The usage is conservative. A new page counts as accessed and as dirty, and so does a swapped page that
    /// comes back. Operations such as `fork` and `protect` may count as
    /// accesses, and a remap as a store. After this returns, the next access or store by any CPU sets the
    /// corresponding flag again, because the TLBs are flushed. Where the hardware does not set the flag, the
    /// access causes a page fault, and [`fault`](Space::fault) sets it.
    ///
    /// Once a call has cleared [`Usage::DIRTY`] for a page, the page's content cannot change before the page
    /// is dirty again. This holds in every space that shares the page. For pages of objects, the usage is
    /// that of this mapping alone, and a page is dirty while it is mapped writable.
    /// [`Object::write_back`](crate::Object::write_back) takes into account the stores through all mappings
    /// of the object.
    ///
    /// `with` must not call an operation of this machine, and must not panic.
    ///
    /// # Errors
    /// [`MapError::Empty`] and [`MapError::OutOfRange`].
    pub fn usage(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        clear: Usage,
        mut with: impl FnMut(Page, Usage),
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let mut gather = TlbGather::new();
        self.tree().locked(cpu, pages, |locked, _| {
            locked.for_each_leaf(|leaf| {
                cpu.callback(|| gather.take_usage(self.machine(), leaf, pages, clear, &mut with));
            });
            Ok(())
        })?;
        // SAFETY: no frame was removed from a table.
        unsafe { gather.finish(self.tree(), cpu) };
        Ok(())
    }
}

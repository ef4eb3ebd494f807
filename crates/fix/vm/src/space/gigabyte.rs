//! Faults in [pages of 1 GiB](crate::tree::gigabyte).

use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use super::Space;
use super::fault::Step;
use super::large::device_of;
use crate::backing::Backing;
use crate::cpu::Cpu;
use crate::error::Fault;
use crate::machine::format::Format;
use crate::machine::{Flush, Machine};
use crate::page::{Page, Protection};
use crate::tree::branch_link::BranchLink;
use crate::tree::gigabyte::GIGABYTE;
use crate::tree::node::Branch;

impl<'m, M: Machine> Space<'m, M> {
    /// Handles a fault in a locked branch just above the leaves, if the branch is a page of 1 GiB or can
    /// become one. Otherwise returns `None`. The branch must have no child for the page.
    #[cold]
    pub(super) fn in_gigabyte<'a>(
        &self,
        branch: &'a Branch,
        page: Page,
        access: Protection,
    ) -> Option<Step<'a, 'm, M>> {
        let is_page = match branch.link() {
            BranchLink::Flushing => return Some(Step::WaitFlush(branch)),
            BranchLink::Page => true,
            BranchLink::Table if self.machine.has_gigabyte_pages() && !branch.has_children() => {
                false
            }
            BranchLink::Table => return None,
        };
        let attributes = branch.uniform()?;
        // SAFETY: the branch is locked, so the pages stay mapped by their backing.
        let backing = unsafe { Backing::of(attributes) }?;
        let Some((device, first)) = device_of(backing, branch.span().start, GIGABYTE) else {
            // If the branch is a page, the object has become shorter, and its `resize` will remove the page.
            if backing.index(page) >= backing.object().len() {
                return Some(Step::Done(Err(Fault::BeyondEnd)));
            }
            return is_page.then_some(Step::Spurious);
        };
        if !device.access.contains(access) {
            return Some(Step::Done(Err(Fault::AccessDenied)));
        }
        if is_page {
            return Some(Step::Spurious);
        }
        let protection = attributes.protection & device.access;
        if !protection.contains(Protection::READ) {
            return None;
        }
        if self.tree().delays_large_pages() {
            return Some(Step::WaitLarge);
        }
        self.tree().set_has_gigabytes();
        branch.begin_flush();
        let page = M::Format::device(first, protection, device.memory);
        Some(Step::MakeGigabyte(branch, M::Format::large(page)))
    }

    /// Makes the branch a page of 1 GiB with this entry, after `in_gigabyte` has begun a flush of the branch.
    #[cold]
    pub(super) fn make_gigabyte(&self, cpu: &Cpu<'m, M>, branch: &Branch, entry: u64) {
        if !is_mutant!("gigabyte_keeps_table") {
            // CPUs may have cached the pointer to the table.
            self.tree().shoot_down(cpu, Flush::Tables(branch.span()));
        }
        // Relaxed: this crate has not written the content of device memory.
        branch.end_flush(cpu.platform(), BranchLink::Page, entry, Relaxed);
    }

    /// Whether `page` is part of a page of 1 GiB at this moment, and is therefore device memory.
    #[inline]
    pub(super) fn is_in_gigabyte(&self, cpu: &Cpu<'m, M>, page: Page) -> bool {
        self.tree().has_gigabytes() && {
            let _guard = cpu.pin();
            self.tree().is_in_gigabyte(page)
        }
    }
}

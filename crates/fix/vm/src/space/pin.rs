//! Pinning pages for devices: `pin_user_pages`.

use core::fmt;
use core::ptr::NonNull;

use super::Space;
use crate::backing::object_core::PinnedObject;
use crate::backing::{Backing, Sharing};
use crate::cpu::Cpu;
use crate::error::Fault;
use crate::machine::Machine;
use crate::machine::format::Entry;
use crate::page::{Frame, Page, Protection};
use crate::tree::Tree;
use crate::tree::node::Leaf;

/// A pinned page, made by [`Space::pin`]. A device or the kernel may access the frame until this value is
/// dropped. Any CPU may drop it.
pub struct PinnedPage<'m, M: Machine> {
    machine: &'m M,
    frame: Frame,
    owner: Owner<'m, M>,
}

/// The owner of a pinned frame.
enum Owner<'m, M: Machine> {
    /// A space. The space's tree counts the pin, and exists while the count is not 0.
    Space(NonNull<Tree>),
    /// An object. The reference keeps the object alive.
    #[expect(dead_code, reason = "keeps the object alive")]
    Object(PinnedObject<'m, M>),
}

// SAFETY: the machine is `Sync`. The tree and the object are accessed only through atomics.
unsafe impl<M: Machine> Send for PinnedPage<'_, M> {}
// SAFETY: a shared reference gives out only the frame and its address.
unsafe impl<M: Machine> Sync for PinnedPage<'_, M> {}

/// The outcome of an attempt to pin a page.
enum Attempt<'m, M: Machine> {
    Pinned(PinnedPage<'m, M>),
    /// The page has changed since it was made present.
    Retry,
    /// The page is shared copy-on-write, and the mapping allows writes: break the sharing first.
    NeedsWrite,
    /// The page is shared copy-on-write, and the mapping does not allow writes: copy the page first.
    NeedsCopy,
    Failed(Fault),
}

impl<'m, M: Machine> Space<'m, M> {
    /// Makes `page` present for an `access` by a device, and pins it: the page stays in its frame until the
    /// result is dropped. So a device may read or write the frame until then (DMA). A page may be pinned more
    /// than once.
    ///
    /// While a private page is pinned (anonymous memory, or a private copy of a page of an object):
    /// * `unmap`, `discard` and `replace` of the page fail with
    ///   [`MapError::Pinned`](crate::MapError::Pinned).
    /// * `fork` gives the copy a frame of its own at once. So the program of this space and the device keep
    ///   using the same frame.
    /// * Dropping the space panics.
    ///
    /// While a page of an object is pinned, the object keeps it, even if all spaces unmap it:
    /// [`evict`](crate::Object::evict), [`write_back`](crate::Object::write_back) and
    /// [`discard`](crate::Object::discard) skip the page, and [`resize`](crate::Object::resize) does not
    /// remove it.
    ///
    /// `remap` may move a pinned page, and `protect` may revoke the program's permissions. The page counts as
    /// [dirty](crate::Usage::DIRTY), because a device may write to it at any time.
    ///
    /// If the mapping is private and allows writes, `pin` first breaks copy-on-write sharing of the page with
    /// another space or with the object, even if `access` is a read. So a device that reads the frame sees
    /// stores that the program makes later.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{MapError, Page, Pages, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 1);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// let pages = Pages::new(Page(0x400), 1);
    /// space.map(&cpu, pages, Protection::READ_WRITE)?;
    ///
    /// let buffer = space.pin(&cpu, Page(0x400), Protection::WRITE).expect("the page is mapped");
    /// let _address = buffer.frame().0 * 4096; // For the device.
    /// assert_eq!(space.unmap(&cpu, pages), Err(MapError::Pinned));
    /// drop(buffer); // The device is done.
    /// space.unmap(&cpu, pages)?;
    /// # Ok::<(), MapError>(())
    /// ```
    ///
    /// # Errors
    /// See [`Fault`]. Also [`Fault::Retry`] if the object is evicting the page.
    pub fn pin(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        access: Protection,
    ) -> Result<PinnedPage<'m, M>, Fault> {
        let mut access = access | Protection::READ;
        loop {
            self.make_present(cpu, page, access)?;
            if self.is_in_gigabyte(cpu, page) {
                return Err(Fault::Device);
            }
            let attempt =
                self.with_entry(cpu, page, |leaf, entry| self.pin_in(leaf, page, entry, access));
            match attempt.unwrap_or(Attempt::Retry) {
                Attempt::Pinned(pinned) => return Ok(pinned),
                Attempt::Retry => (),
                Attempt::NeedsWrite => access |= Protection::WRITE,
                Attempt::NeedsCopy => _ = self.collapse(cpu, page, true)?,
                Attempt::Failed(fault) => return Err(fault),
            }
        }
    }

    /// An attempt to pin a page, in a locked leaf.
    fn pin_in(&self, leaf: &Leaf, page: Page, entry: Entry, access: Protection) -> Attempt<'m, M> {
        let frame = match entry {
            Entry::Page { frame, protection, .. } if protection.contains(access) => frame,
            Entry::Device { .. } => return Attempt::Failed(Fault::Device),
            _ => return Attempt::Retry,
        };
        let meta = self.machine.frame_meta(frame);
        let attributes = leaf.attributes(page).expect("a present page is mapped");
        let is_writable = attributes.protection.contains(Protection::WRITE);
        let owner = if meta.is_object() {
            // SAFETY: the leaf is locked, so the page stays mapped by its backing.
            let backing = unsafe { Backing::of(attributes) }.expect("an object owns the frame");
            if backing.sharing == Sharing::Private && is_writable {
                return Attempt::NeedsWrite;
            }
            let (object, index) = (backing.object(), backing.index(page));
            meta.pins.add();
            // Either an operation that removes the page from the object sees this pin, or the check below
            // sees that operation.
            if !object.has(index, frame) || !object.is_within(index) {
                meta.pins.remove();
                return Attempt::Failed(Fault::Retry);
            }
            Owner::Object(PinnedObject::new(object, self.machine))
        } else if meta.is_shared() {
            return if is_writable { Attempt::NeedsWrite } else { Attempt::NeedsCopy };
        } else {
            meta.pins.add();
            self.tree().pins.0.add();
            Owner::Space(self.tree_pointer())
        };
        Attempt::Pinned(PinnedPage { machine: self.machine, frame, owner })
    }
}

impl<M: Machine> PinnedPage<'_, M> {
    /// The page's frame.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// The address of the frame in the kernel's mapping: [`Machine::address`]. Programs and devices may
    /// access the frame at the same time, so Rust code must use atomics.
    pub fn address(&self) -> NonNull<u8> {
        self.machine.address(self.frame)
    }
}

impl<M: Machine> Drop for PinnedPage<'_, M> {
    fn drop(&mut self) {
        self.machine.frame_meta(self.frame).pins.remove();
        if let Owner::Space(tree) = self.owner {
            // SAFETY: the tree exists, because it still counts this pin.
            unsafe { tree.as_ref().pins.0.remove() };
        }
    }
}

impl<M: Machine> fmt::Debug for PinnedPage<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedPage").field("frame", &self.frame).finish_non_exhaustive()
    }
}

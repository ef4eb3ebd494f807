//! Which spaces may have a page that one has for itself.
//!
//! A space that is copied shares its pages with the copy until one of them writes. Each of its pages has an
//! *origin*, the space in which it came to be, and a page number there, which is the same in copies. To an
//! origin all spaces are attached that may have any of its pages, once each and not once for each mapping or
//! page: so who has a page is found by a look into the tables of these spaces (DragonFly 2019,
//! `vm_map_backing`; a space as a whole is one backing here).
//!
//! A copy of a copy of a copy has pages of all of them. So that such chains have an end, a space that has
//! reached it makes what it has of others its own before it is copied again: it copies what others have, too,
//! and says of the rest that it came to be here (`vm_fault_collapse`).

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use knee_sync::Platform;

use crate::backing::attachments::{Attachment, Attachments};
use crate::cpu::{Cpu, try_box};
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::page::Pages;
use crate::tree::Tree;

/// Origins that the pages of a space can have, its own included: DragonFly's `vm.map_backing_limit`.
const MOST: usize = 5;

/// A space as its pages know it. It is there as long as a space is attached.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) attachments: Attachments,
}

/// That a space may have pages of an origin.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Link {
    attachment: Attachment,
    origin: NonNull<Origin>,
}

/// The origins of a space's pages.
#[derive(Debug)]
pub(crate) struct Lineage {
    own: NonNull<Origin>,
    /// The first is that to its own. Under the lock of the root.
    links: UnsafeCell<[Option<NonNull<Link>>; MOST]>,
}

/// Memory for those of a copy.
pub(crate) struct Links([Option<Box<Link>>; MOST]);

impl Links {
    pub(crate) fn new() -> Result<Links, OutOfMemory> {
        let mut links = [const { None }; MOST];
        for link in &mut links {
            *link = Some(Link::new()?);
        }
        Ok(Links(links))
    }
}

impl Link {
    /// One that is to begin.
    pub(crate) fn new() -> Result<Box<Link>, OutOfMemory> {
        let attachment = Attachment::new(Pages::new(0, 0), 0, NonNull::dangling());
        try_box(Link { attachment, origin: NonNull::dangling() })
    }

    /// Attaches a space to an origin.
    ///
    /// # Safety
    /// The origin has a holder, or a space attached that stays meanwhile; the tree has a user until the link is
    /// [ended](Link::end).
    unsafe fn begin<M: Machine>(
        mut self: Box<Link>,
        origin: NonNull<Origin>,
        tree: NonNull<Tree>,
        cpu: &Cpu<'_, M>,
    ) -> NonNull<Link> {
        // SAFETY: said by the caller.
        unsafe {
            let attachment = Attachment::new(tree.as_ref().pages(), 0, tree);
            *self = Link { attachment, origin };
            let link = NonNull::from(Box::leak(self));
            origin.as_ref().attachments.attach(cpu, link.cast(), true);
            link
        }
    }

    /// # Safety
    /// It has [begun](Link::begin), and the space has no pages of the origin any more, or will not tell.
    unsafe fn end(link: NonNull<Link>, platform: &impl Platform) {
        // SAFETY: said by the caller.
        unsafe {
            let origin = link.as_ref().origin;
            let is_last = origin.as_ref().attachments.detach(link.cast(), platform);
            drop(Box::from_raw(link.as_ptr()));
            if is_last {
                drop(Box::from_raw(origin.as_ptr()));
            }
        }
    }
}

impl Lineage {
    /// That of a space that is to [begin](Lineage::begin).
    pub(crate) const fn new() -> Lineage {
        Lineage { own: NonNull::dangling(), links: UnsafeCell::new([None; MOST]) }
    }

    /// The space begins, and its pages with it.
    ///
    /// # Safety
    /// Once, while nobody else knows the tree, which has a user until the [end](Lineage::end).
    pub(crate) unsafe fn begin<M: Machine>(
        mut tree: NonNull<Tree>,
        origin: Box<Origin>,
        link: Box<Link>,
        cpu: &Cpu<'_, M>,
    ) {
        let own = NonNull::from(Box::leak(origin));
        // SAFETY: said by the caller; we hold the origin.
        unsafe {
            tree.as_mut().lineage.own = own;
            let link = link.begin(own, tree, cpu);
            tree.as_mut().lineage.links.get_mut()[0] = Some(link);
            let is_last = own.as_ref().attachments.close(cpu.machine().epoch().platform());
            debug_assert!(!is_last, "the space is attached");
        }
    }

    /// The space's own origin.
    pub(crate) fn own(&self) -> NonNull<Origin> {
        self.own
    }

    /// Whether a copy would have too many origins.
    ///
    /// # Safety
    /// Under the lock of the root.
    pub(crate) unsafe fn is_full(&self) -> bool {
        // SAFETY: said by the caller.
        unsafe { &*self.links.get() }.iter().all(Option::is_some)
    }

    /// A copy's pages may be of all origins that these are of. It is not [full](Lineage::is_full).
    ///
    /// # Safety
    /// Under the locks of the roots of both. The other has just begun, and nobody knows it but those that
    /// come by what is attached here, and wait for the lock.
    pub(crate) unsafe fn inherit<M: Machine>(
        &self,
        copy: NonNull<Tree>,
        mut links: Links,
        cpu: &Cpu<'_, M>,
    ) {
        // SAFETY: said by the caller.
        let all = unsafe { &*self.links.get() };
        for (place, link) in all.iter().flatten().enumerate() {
            let new = links.0[place].take().expect("links are there");
            // SAFETY: this one's space is attached to the origin, and the copy's root is locked.
            unsafe {
                let new = new.begin(link.as_ref().origin, copy, cpu);
                (*copy.as_ref().lineage.links.get())[place + 1] = Some(new);
            }
        }
    }

    /// All pages of the space are of its own origin.
    ///
    /// # Safety
    /// They are, and the root is locked.
    pub(crate) unsafe fn forget_others(&self, platform: &impl Platform) {
        // SAFETY: said by the caller.
        unsafe { self.end_from(1, platform) };
    }

    /// The space ends.
    ///
    /// # Safety
    /// Nobody else has its pages.
    pub(crate) unsafe fn end(&self, platform: &impl Platform) {
        // SAFETY: said by the caller.
        unsafe { self.end_from(0, platform) };
    }

    /// # Safety
    /// Under the lock of the root, or by who has the space alone; the space has no pages of these origins, or
    /// will not tell.
    unsafe fn end_from(&self, first: usize, platform: &impl Platform) {
        // SAFETY: said by the caller.
        for link in unsafe { &mut *self.links.get() }[first..].iter_mut().filter_map(Option::take) {
            // SAFETY: as above.
            unsafe { Link::end(link, platform) };
        }
    }
}

impl Origin {
    /// One that the caller holds.
    pub(crate) fn new() -> Result<Box<Origin>, OutOfMemory> {
        try_box(Origin { attachments: Attachments::new(1)? })
    }
}

/// An origin that is held for a while.
pub(crate) struct Held(NonNull<Origin>);

impl Held {
    /// # Safety
    /// A space is attached to it meanwhile.
    pub(crate) unsafe fn new(origin: NonNull<Origin>) -> Held {
        // SAFETY: said by the caller.
        unsafe { origin.as_ref() }.attachments.hold();
        Held(origin)
    }

    pub(crate) fn attachments(&self) -> &Attachments {
        // SAFETY: we hold it.
        unsafe { &self.0.as_ref().attachments }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.attachments().let_go(1) {
            // SAFETY: it came from a box, and nobody holds it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

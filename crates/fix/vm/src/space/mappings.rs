//! Listing the mappings of a space, like `/proc/PID/maps`.

use super::Space;
use crate::backing::object_core::ObjectId;
use crate::backing::{Backing, Sharing};
use crate::cpu::Cpu;
use crate::machine::Machine;
use crate::page::{Pages, Protection};
use crate::tree::attributes::Attributes;
use crate::tree::node::NodeRef;
use crate::tree::query::{first_mapped, run_at};

/// A maximal run of mapped pages with the same protection. The pages are either all anonymous or
/// consecutive pages of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mapping {
    /// The pages.
    pub pages: Pages,
    /// The accesses that are allowed.
    pub protection: Protection,
    /// The object whose pages are mapped; `None` for anonymous memory.
    pub object: Option<MappedObject>,
}

/// The object of a [`Mapping`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MappedObject {
    /// Which object: [`Object::id`](crate::Object::id).
    pub id: ObjectId,
    /// The object's page at the start of the mapping.
    pub first: u64,
    /// Whether writes go to the object.
    pub sharing: Sharing,
}

impl Mapping {
    /// # Safety
    /// The pages must be mapped with these attributes, and their node must be locked.
    unsafe fn new(pages: Pages, attributes: Attributes) -> Mapping {
        // SAFETY: the caller guarantees that the backing maps at least one page throughout the call.
        let object = unsafe { Backing::of(attributes) }.map(|backing| MappedObject {
            id: backing.object().id(),
            first: backing.index(pages.start),
            sharing: backing.sharing,
        });
        Mapping { pages, protection: attributes.protection, object }
    }

    /// Whether `next` begins where this mapping ends and has the same protection, and either both are
    /// anonymous or `next` maps the next page of the same object.
    fn is_continued_by(&self, next: &Mapping) -> bool {
        let first = |object: MappedObject| object.first.wrapping_add(self.pages.count());
        let object = self.object.map(|object| MappedObject { first: first(object), ..object });
        (self.pages.end, self.protection, object)
            == (next.pages.start, next.protection, next.object)
    }
}

impl<'m, M: Machine> Space<'m, M> {
    /// Iterates over the mappings, in ascending order, like `/proc/PID/maps`. [Guards](Protection::GUARD) are
    /// included. If one run continues the run before it, both are listed as one mapping, even if different
    /// calls mapped them.
    ///
    /// The iterator holds no lock between its steps, so the caller and other CPUs may change the space during
    /// the iteration. If nobody changes a mapping, it is listed exactly. If a mapping changes during the
    /// iteration, each page is listed as it was mapped at some moment of the iteration, and this moment may
    /// differ from page to page. No page is listed twice. Iterate over a [fork](Space::fork) for a snapshot.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{Object, Page, Pages, Protection, Sharing, Space};
    ///
    /// let machine = Hosted::new(1024, 1);
    /// let cpu = machine.cpu(0);
    /// let (space, file) = (Space::new(&cpu)?, Object::new(&cpu, 16)?);
    /// space.map(&cpu, Pages::new(Page(0x400), 4), Protection::READ_WRITE)?;
    /// space.map_object(&cpu, Pages::new(Page(0x7f0), 2), &file, 3, Protection::READ, Sharing::Private)?;
    ///
    /// let lines = space.mappings(&cpu).map(|mapping| {
    ///     let (start, end) = (mapping.pages.start.address(), mapping.pages.end.address());
    ///     let line = format!("{start:x}-{end:x} {:?}", mapping.protection);
    ///     match mapping.object {
    ///         Some(object) if object.id == file.id() => format!("{line} file, page {}", object.first),
    ///         _ => line,
    ///     }
    /// });
    /// assert!(lines.eq(["400000-404000 rw-", "7f0000-7f2000 r-- file, page 3"]));
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    pub fn mappings(&self, cpu: &Cpu<'m, M>) -> impl Iterator<Item = Mapping> {
        self.check_cpu(cpu);
        let mut rest = self.pages();
        let mut runs = core::iter::from_fn(move || self.next_run(cpu, &mut rest)).peekable();
        core::iter::from_fn(move || {
            let mut mapping = runs.next()?;
            while let Some(next) = runs.next_if(|next| mapping.is_continued_by(next)) {
                mapping.pages.end = next.pages.end;
            }
            Some(mapping)
        })
        .fuse()
    }

    /// The first run of mapped pages in `rest`, limited to what a single node stores. Advances `rest` past
    /// the run.
    fn next_run(&self, cpu: &Cpu<'m, M>, rest: &mut Pages) -> Option<Mapping> {
        loop {
            let _guard = cpu.pin();
            let root = NodeRef::Branch(self.tree().root());
            rest.start = first_mapped(root, *rest, cpu.platform())?.start;
            // The search did not hold the locks that keep a backing alive, so look the page up again under
            // the locks.
            let locked = self.tree().lock_pages(self.machine, Pages::new(rest.start, 1));
            if let Some((pages, attributes)) = run_at(locked.top, *rest) {
                rest.start = pages.end;
                // SAFETY: the run is mapped, and the node that stores it is locked.
                return Some(unsafe { Mapping::new(pages, attributes) });
            }
        }
    }
}

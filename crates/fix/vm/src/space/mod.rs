//! An address space: what is mapped where.

mod anywhere;
mod arena;
#[cfg(feature = "std")]
pub(crate) mod audit;
mod fault;
mod fork;
mod lazy;
pub(crate) mod lineage;
mod map;
mod prune;
mod remap;
mod unmap;

use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use crate::allocate::try_box;
use crate::backing::{Backing, Marked};
use crate::cpu::Cpu;
use crate::error::{MapError, OutOfMemory};
use crate::machine::Machine;
use crate::machine::cpu_set::CpuSet;
use crate::machine::format::{ABSENT, Format};
use crate::machine::table_at;
use crate::needed::Nodes;
use crate::page::{Frame, Pages, Protection};
use crate::quota::{Account, Quota};
use crate::space::arena::Arenas;
use crate::space::lineage::{Lineage, Origin, OriginLink, PinnedOrigin};
use crate::tree::Tree;
use crate::tree::node::{MOST_ABOVE, NodeRef};
use crate::tree::query::mapped;
use alloc::boxed::Box;

/// An address space of a machine.
///
/// All operations may be called by any CPU at any time. Those on pages that are apart share nothing.
///
/// # Panics
/// All operations, if the CPU is one of another machine.
pub struct Space<'m, M: Machine> {
    machine: &'m M,
    tree: NonNull<Tree>,
    lineage: Lineage,
    pub(crate) arenas: Arenas,
}

// SAFETY: the tree is used under its locks and the machine's epoch.
unsafe impl<M: Machine> Sync for Space<'_, M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Send for Space<'_, M> {}

impl<'m, M: Machine> Space<'m, M> {
    /// A space where nothing is mapped.
    ///
    /// # Errors
    /// There is no memory for its root.
    pub fn new(cpu: &Cpu<'m, M>) -> Result<Space<'m, M>, OutOfMemory> {
        Space::new_within(cpu, None)
    }

    /// A space where nothing is mapped, and whose pages count in this quota.
    ///
    /// # Errors
    /// There is no memory for its root.
    ///
    /// # Panics
    /// If the quota is one for fewer CPUs.
    pub fn with_quota(cpu: &Cpu<'m, M>, quota: Arc<Quota>) -> Result<Space<'m, M>, OutOfMemory> {
        let (shares, cpus) = (quota.cpus(), cpu.machine().cpus());
        assert!(
            shares >= cpus,
            "the quota has shares for {shares} CPUs, and the machine has {cpus}"
        );
        Space::new_within(cpu, Some(quota))
    }

    pub(crate) fn new_within(
        cpu: &Cpu<'m, M>,
        quota: Option<Arc<Quota>>,
    ) -> Result<Space<'m, M>, OutOfMemory> {
        const { assert!(M::Format::LEVELS as usize <= MOST_ABOVE + 1, "five levels at most") };
        let machine = cpu.machine();
        let active = CpuSet::new(machine.cpus())?;
        let account = Account::new(machine.cpus(), quota)?;
        let tree = try_box(Tree::new(M::Format::LEVELS - 1, active, account))?;
        let arenas = Arenas::new(machine.cpus(), M::Format::pages())?;
        let (origin, link) = (Origin::new()?, OriginLink::new()?);
        cpu.refill(Nodes::TABLE)?;
        let frame = cpu.with_pool(|pool| pool.tree.table()).map_err(|_| OutOfMemory)?;
        machine.begin_root(frame);
        // SAFETY: nobody else knows the tree, whose root has no table; the frame is zeroed and ours.
        unsafe { tree.root().set_table(frame, table_at(machine, frame)) };
        let tree = NonNull::from(Box::leak(tree));
        // SAFETY: the space is a user of the tree until it ends the lineage.
        let lineage = unsafe { Lineage::new(tree, origin, link, cpu) };
        Ok(Space { machine, tree, lineage, arenas })
    }

    /// Its number, which no other space has: what caches of the machine may know it by.
    pub fn number(&self) -> u64 {
        self.tree().number()
    }

    pub(crate) fn machine(&self) -> &'m M {
        self.machine
    }

    /// The frame of its uppermost table, for CPUs to load. They have to have left it when the space is
    /// dropped.
    pub fn table(&self) -> Frame {
        self.tree().root().table_frame()
    }

    /// All pages that may be mapped: those that the format has for programs.
    pub fn pages(&self) -> Pages {
        M::Format::pages()
    }

    /// How many pages are present. Exact if nobody changes that meanwhile.
    pub fn resident(&self) -> u64 {
        self.tree().account.resident()
    }

    /// The CPU goes to pages of the space from now on: others see to it that it learns of changes.
    pub fn activate(&self, cpu: &Cpu<'m, M>) {
        self.check_cpu(cpu);
        self.tree().activate(cpu.number());
    }

    /// The CPU goes to no page of the space until it is [activated](Space::activate) again, and who changes the
    /// space from now on does not have it interrupted. Who has begun before may, and wants its answer.
    ///
    /// # Safety
    /// The CPU has loaded another table, and has forgotten all that it knew of this one: it has no entries of a
    /// PCID or ASID left that it would use when it comes back.
    pub unsafe fn deactivate(&self, cpu: &Cpu<'m, M>) {
        self.check_cpu(cpu);
        self.tree().deactivate(cpu.number());
    }

    /// # Panics
    /// If the CPU is another machine's, whose epoch says nothing of our nodes.
    #[inline]
    pub(crate) fn check_cpu(&self, cpu: &Cpu<'m, M>) {
        assert!(core::ptr::eq(self.machine, cpu.machine()), "the CPU is of another machine");
    }

    /// For what finds it later.
    pub(crate) fn tree_pointer(&self) -> NonNull<Tree> {
        self.tree
    }

    pub(crate) fn tree(&self) -> &Tree {
        // SAFETY: it is there as long as the space.
        unsafe { self.tree.as_ref() }
    }

    #[inline]
    fn check(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check_cpu(cpu);
        if pages.is_empty() {
            return Err(MapError::Empty);
        }
        if self.pages().covers(pages) { Ok(()) } else { Err(MapError::OutOfRange) }
    }

    /// What may be done with a page; none if it is not mapped.
    pub fn query(&self, cpu: &Cpu<'m, M>, page: u64) -> Option<Protection> {
        self.check_cpu(cpu);
        if !self.pages().contains(page) {
            return None;
        }
        let pages = Pages::new(page, 1);
        let _guard = cpu.pin();
        let locked = self.tree().lock_pages(self.machine, pages);
        let found = locked.attributes(page);
        found.map(|attributes| attributes.protection)
    }

    /// Calls `with` for each space that has the frame of this page, with the number of the space and of the page
    /// there: this one and its relatives, as long as nobody has written. Nothing is called for pages of
    /// [objects](crate::Object::mappings).
    pub fn sharers(&self, cpu: &Cpu<'m, M>, page: u64, mut with: impl FnMut(u64, u64)) {
        self.check_cpu(cpu);
        if !self.pages().contains(page) {
            return;
        }
        let found = self.tree().locked(cpu, Pages::new(page, 1), |locked, _| {
            let frame = locked
                .frame::<M>(page)
                .filter(|&frame| !self.machine.frame_meta(frame).is_object());
            Ok(frame.map(|frame| {
                let (origin, index) = self.machine.frame_meta(frame).origin();
                // SAFETY: this space is attached to the origins of its pages, and locked.
                (frame, unsafe { PinnedOrigin::new(origin) }, index)
            }))
        });
        let Ok(Some((frame, origin, index))) = found else { return };
        origin.attachments().visit_once(self.machine, &(index..index + 1), |visit| {
            let found = visit.tree().locked(cpu, Pages::new(index, 1), |locked, _| {
                Ok(locked.frame::<M>(index) == Some(frame))
            });
            if found == Ok(true) {
                with(visit.tree().number(), index);
            }
        });
    }

    /// Calls `with` with the root while all nodes are locked.
    #[cfg(feature = "std")]
    pub(crate) fn with_root_locked<R>(
        &self,
        cpu: &Cpu<'m, M>,
        with: impl FnOnce(&crate::tree::node::Branch) -> R,
    ) -> R {
        self.check_cpu(cpu);
        let _guard = cpu.pin();
        let _locked = self.tree().lock_pages(self.machine, self.pages());
        with(self.tree().root())
    }
}

/// What is exact only if nobody changes it meanwhile; not what belongs to CPUs, which only they may look at.
impl<M: Machine> fmt::Debug for Space<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("number", &self.number())
            .field("pages", &self.pages())
            .field("resident", &self.resident())
            .finish_non_exhaustive()
    }
}

/// Adds the backings of what is mapped in a node and below.
///
/// # Safety
/// Nobody changes what is mapped.
unsafe fn mark(node: NodeRef<'_>, marked: &mut Marked) {
    // SAFETY: said by the caller.
    unsafe {
        match node {
            NodeRef::Leaf(leaf) => leaf.with_states(|states| {
                states.used_states().iter().for_each(|&kind| marked.add(kind));
            }),
            NodeRef::Branch(branch) => {
                branch.extents().iter().for_each(|extent| marked.add(extent.attributes));
                branch.children(branch.span()).for_each(|child| mark(child, marked));
            }
        }
    }
}

impl<M: Machine> Drop for Space<'_, M> {
    fn drop(&mut self) {
        let tree = self.tree();
        // Others may look at pages that objects have here.
        let locked = tree.lock_pages(self.machine, tree.pages());
        if let Some(quota) = tree.account.quota() {
            // Nobody uses the space any more, as if all of it was locked.
            let count = mapped(NodeRef::Branch(tree.root()), tree.pages());
            quota.give_back_to_rest(count, self.machine.epoch().platform());
        }
        let mut marked = Marked::default();
        // SAFETY: nobody changes what is mapped any more.
        unsafe { mark(NodeRef::Branch(tree.root()), &mut marked) };
        // Who takes pages out of an object does not look here afterwards.
        if marked.count() > 0 {
            locked.for_each_leaf(|leaf| {
                for (_, entry, frame) in leaf.present_in::<M::Format>(leaf.span()) {
                    if self.machine.frame_meta(frame).is_object() {
                        entry.store(ABSENT, Relaxed);
                        leaf.present().set(leaf.present().get() - 1);
                    }
                }
            });
        }
        drop(locked);
        let mut backings = marked.into_backings();
        while let Some(backing) = backings.pop() {
            // SAFETY: the space and what is mapped by it is nobody's any more, and CPUs have left it.
            unsafe { Backing::detach(backing, self.machine) };
        }
        // SAFETY: nobody else has its pages.
        unsafe { self.lineage.end(self.machine.epoch().platform()) };
        // SAFETY: it came from a box, and CPUs have left it.
        unsafe { Tree::put_ref(self.tree, self.machine) };
    }
}

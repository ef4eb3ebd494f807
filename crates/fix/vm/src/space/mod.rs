//! Address spaces.

mod anywhere;
mod arena;
#[cfg(feature = "std")]
pub(crate) mod audit;
mod bytes;
mod fault;
mod fork;
mod gigabyte;
mod large;
mod lazy;
pub(crate) mod lineage;
mod map;
pub(crate) mod mappings;
pub(crate) mod pin;
mod prune;
mod remap;
mod replace;
mod swap;
mod unmap;
mod usage;

use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use crate::allocate::try_box;
use crate::backing::{Backing, Marked};
use crate::cpu::Cpu;
use crate::error::{MapError, OutOfMemory};
use crate::machine::Machine;
use crate::machine::cpu_set::CpuSet;
use crate::machine::format::{ABSENT, Entry, Format};
use crate::machine::table_at;
use crate::needed::Nodes;
use crate::page::{Frame, Page, Pages, Protection};
use crate::quota::{Account, Quota};
use crate::space::arena::Arenas;
use crate::space::lineage::{Lineage, Origin, OriginLink, PinnedOrigin};
use crate::swap::Swap;
use crate::tree::Tree;
use crate::tree::lock::LockedLeaf;
use crate::tree::node::{Leaf, Link, MOST_ABOVE, NodeRef, Present, first_leaf};
use crate::tree::query::mapped;
use alloc::boxed::Box;

/// An address space of a machine.
///
/// Any CPU may call any operation at any time. Operations on pages that are far enough apart do not write to
/// the same cache lines.
///
/// # Panics
/// All operations panic if the CPU belongs to another machine. Dropping a space panics, and frees nothing, if
/// a private page is [pinned](Space::pin) or a CPU is [active](Space::active_cpus) in the space. Some
/// machines [allow](Machine::MAY_DROP_ACTIVE) a space to be dropped while CPUs are active in it. If the
/// thread is already panicking, the space is leaked without a second panic (only with the feature `std`).
pub struct Space<'m, M: Machine> {
    machine: &'m M,
    tree: NonNull<Tree>,
    lineage: Lineage,
    pub(crate) arenas: Arenas,
}

// SAFETY: the tree is accessed only under its locks or within the machine's epoch.
unsafe impl<M: Machine> Sync for Space<'_, M> {}
// SAFETY: as for `Sync`; nothing is bound to a thread.
unsafe impl<M: Machine> Send for Space<'_, M> {}

impl<'m, M: Machine> Space<'m, M> {
    /// Creates an address space in which nothing is mapped.
    ///
    /// # Errors
    /// If there is no memory for its root.
    pub fn new(cpu: &Cpu<'m, M>) -> Result<Space<'m, M>, OutOfMemory> {
        Space::new_within(cpu, None, None)
    }

    /// Creates an address space in which nothing is mapped. Its pages will be charged to `quota`.
    ///
    /// # Errors
    /// If there is no memory for its root.
    ///
    /// # Panics
    /// If `quota` was made for fewer CPUs than the machine has.
    pub fn with_quota(cpu: &Cpu<'m, M>, quota: Arc<Quota>) -> Result<Space<'m, M>, OutOfMemory> {
        Space::new_within(cpu, Some(quota), None)
    }

    pub(crate) fn new_within(
        cpu: &Cpu<'m, M>,
        quota: Option<Arc<Quota>>,
        swap: Option<Arc<Swap>>,
    ) -> Result<Space<'m, M>, OutOfMemory> {
        const { assert!(M::Format::LEVELS as usize <= MOST_ABOVE + 1, "five levels at most") };
        let machine = cpu.machine();
        if let Some(quota) = &quota {
            let (shares, cpus) = (quota.cpus(), machine.cpus());
            assert!(
                shares >= cpus,
                "the quota has shares for {shares} CPUs, and the machine has {cpus}"
            );
        }
        let active = CpuSet::new(machine.cpus())?;
        let account = Account::new(machine.cpus(), quota)?;
        let tree = try_box(Tree::new(M::Format::LEVELS - 1, active, account, swap))?;
        let arenas = Arenas::new(machine.cpus(), M::Format::pages())?;
        let (origin, link) = (Origin::new()?, OriginLink::new()?);
        cpu.refill(Nodes::TABLE)?;
        let frame = cpu.with_pool(|pool| pool.tree.table()).map_err(|_| OutOfMemory)?;
        machine.begin_root(frame);
        // SAFETY: the tree is not published, its root has no table yet, and the frame is zeroed and ours.
        unsafe { tree.root().set_table(frame, table_at(machine, frame)) };
        let tree = NonNull::from(Box::leak(tree));
        // SAFETY: the space has a reference to the tree, and `drop` ends the lineage before it drops that
        // reference.
        let lineage = unsafe { Lineage::new(tree, origin, link, cpu) };
        Ok(Space { machine, tree, lineage, arenas })
    }

    /// The space's number, which no other space has. The machine may use this number to identify cached
    /// translations.
    pub fn number(&self) -> u64 {
        self.tree().number()
    }

    pub(crate) fn machine(&self) -> &'m M {
        self.machine
    }

    /// The frame of the root page table, which [active](Space::activate) CPUs load.
    pub fn table(&self) -> Frame {
        self.tree().root().table_frame()
    }

    /// The pages that may be mapped: those that the format reserves for programs.
    pub fn pages(&self) -> Pages {
        M::Format::pages()
    }

    /// The number of present pages. The result is exact only if this number does not change during the call.
    pub fn resident(&self) -> u64 {
        self.tree().account.resident()
    }

    /// Adds the CPU to the shootdown set. The CPU may access pages of the space from now on, because
    /// operations of other CPUs will flush its TLB.
    pub fn activate(&self, cpu: &Cpu<'m, M>) {
        self.check_cpu(cpu);
        debug_assert!(
            self.tree().ticks().is_none_or(|ticks| ticks.is_online(cpu.number())),
            "a CPU activates a lazy space before it calls `cpu_online`"
        );
        self.tree().activate(cpu.number());
    }

    /// Removes the CPU from the shootdown set, until it is [activated](Space::activate) again. Operations
    /// that start later do not interrupt the CPU. An operation that is already in progress may still
    /// interrupt the CPU, which must acknowledge the shootdown.
    ///
    /// # Safety
    /// The CPU must have loaded another table and flushed everything that it has cached of this space's
    /// tables. No entries may be left under a PCID or ASID that the CPU will use for this space after its
    /// next activation.
    pub unsafe fn deactivate(&self, cpu: &Cpu<'m, M>) {
        self.check_cpu(cpu);
        self.tree().deactivate(cpu.number());
    }

    /// The active CPUs, in ascending order. The list is exact only if no CPU is activated or deactivated
    /// during the iteration.
    pub fn active_cpus(&self) -> impl Iterator<Item = usize> {
        self.tree().active().iter()
    }

    #[inline]
    pub(crate) fn check_cpu(&self, cpu: &Cpu<'m, M>) {
        cpu.check(self.machine);
    }

    /// The tree's address, for reverse mappings.
    pub(crate) fn tree_pointer(&self) -> NonNull<Tree> {
        self.tree
    }

    pub(crate) fn tree(&self) -> &Tree {
        // SAFETY: the space has a reference to the tree, so the tree outlives the space.
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

    /// Locks the leaf of a page while `with` runs, and passes the leaf and the page's entry to `with`.
    /// Returns `None` if there is no entry yet, or if another CPU has just removed the leaf. Waits while the
    /// leaf is being flushed: otherwise, programs that still access the page's previous frame would not see
    /// what the caller writes to the new frame.
    fn with_entry<R>(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        with: impl FnOnce(&Leaf, Entry) -> R,
    ) -> Option<R> {
        let _guard = cpu.pin();
        loop {
            let leaf = first_leaf(NodeRef::Branch(self.tree().root()), Pages::new(page, 1))?;
            let locked = LockedLeaf::new(leaf, cpu.platform());
            if leaf.is_flushing() && !is_mutant!("enters_while_flushing") {
                drop(locked);
                // SAFETY: a `Cpu` never leaves its CPU, and this CPU holds no locks here.
                unsafe { self.machine.wait_while(cpu.number(), || leaf.is_flushing()) };
                continue;
            }
            leaf.table().filter(|_| !leaf.is_detached())?;
            return Some(with(leaf, leaf.entry::<M::Format>(page)));
        }
    }

    /// The protection of `page`, or `None` if it is not mapped.
    pub fn query(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Protection> {
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

    /// Calls `with` for each space that maps the frame of `page`. The arguments are the number of the space,
    /// and the page at which that space maps the frame. The spaces are this space and all spaces that still
    /// share the page with this space after a fork. Does nothing for pages of
    /// [objects](crate::Object::mappings) or for pages that are [swapped out](Space::reclaim). `with` may
    /// call operations, and may drop spaces.
    pub fn sharers(&self, cpu: &Cpu<'m, M>, page: Page, mut with: impl FnMut(u64, Page)) {
        self.check_cpu(cpu);
        if !self.pages().contains(page) {
            return;
        }
        let found = self.tree().locked(cpu, Pages::new(page, 1), |locked, _| {
            locked.for_each_leaf(|leaf| leaf.fill(self.machine));
            let frame = locked
                .frame::<M>(page)
                .filter(|&frame| !self.machine.frame_meta(frame).is_object());
            Ok(frame.map(|frame| {
                let (origin, page) = self.machine.frame_meta(frame).origin();
                // SAFETY: the page is locked, and this space is attached to the origins of its pages.
                (frame, unsafe { PinnedOrigin::new(origin) }, page)
            }))
        });
        let Ok(Some((frame, origin, page))) = found else { return };
        // From here on, `page` is the page's number in the origin: attachments are looked up by that number.
        origin.attachments().visit_once(self.machine, &(page.0..page.0 + 1), |visit| {
            let found = visit.tree().locked(cpu, Pages::new(page, 1), |locked, _| {
                Ok(locked.frame::<M>(page) == Some(frame))
            });
            if found == Ok(true) {
                with(visit.tree().number(), page);
            }
        });
    }

    /// Passes the root to `with` while all nodes are locked.
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

/// The values are exact only if no CPU changes them concurrently. Per-CPU state is left out, because only the
/// CPU that owns it may read it.
impl<M: Machine> fmt::Debug for Space<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("number", &self.number())
            .field("pages", &self.pages())
            .field("resident", &self.resident())
            .finish_non_exhaustive()
    }
}

/// Adds to `marked` the backings of everything that is mapped in a node and below it.
///
/// # Safety
/// Mappings in the node and below it must not change during the call.
unsafe fn mark(node: NodeRef<'_>, marked: &mut Marked) {
    // SAFETY: the caller guarantees that the mappings do not change.
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
        let active = self.active_cpus().next().filter(|_| !M::MAY_DROP_ACTIVE);
        let pins = tree.pins.0.count();
        if active.is_some() || pins > 0 {
            // Nothing is freed: an active CPU may have the tables loaded, and a device may use the frames. If
            // the thread is already panicking, a second panic would abort the process, and the message of a
            // failed test could be lost.
            #[cfg(feature = "std")]
            if std::thread::panicking() {
                return;
            }
            match active {
                Some(cpu) => panic!("CPU {cpu} is active in a space that is dropped"),
                None => panic!("a space is dropped, and {pins} of its pages are pinned"),
            }
        }
        // Operations on objects may still visit this tree.
        let locked = tree.lock_pages(self.machine, tree.pages());
        if let Some(quota) = tree.account.quota() {
            // The count is exact, because all nodes are locked.
            let count = mapped(NodeRef::Branch(tree.root()), tree.pages());
            quota.give_back_to_rest(count, self.machine.epoch().platform());
        }
        let mut marked = Marked::default();
        // SAFETY: `drop` has exclusive access to the space, so its mappings do not change.
        unsafe { mark(NodeRef::Branch(tree.root()), &mut marked) };
        // Remove the PTEs of object pages first: once the backings are detached, operations that take
        // pages out of an object no longer visit this tree.
        if marked.count() > 0 {
            locked.for_each_leaf(|leaf| {
                if leaf.link() == Link::Large {
                    return;
                }
                for Present { entry, frame, .. } in leaf.present_in::<M::Format>(leaf.span()) {
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
            // SAFETY: nobody uses the space or its mappings any more. Either no CPU is active in the space,
            // or the CPUs of this machine never use dropped spaces.
            unsafe { Backing::detach(backing, self.machine) };
        }
        // SAFETY: `drop` has exclusive access to the space.
        unsafe { self.lineage.end(self.machine.epoch().platform()) };
        // SAFETY: the tree came from a box, and no CPU uses its tables, as above.
        unsafe { Tree::put_ref(self.tree, self.machine) };
    }
}

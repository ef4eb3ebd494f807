//! Fork: copies of a space that share its pages copy-on-write.

use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use crate::backing::object_core::PinnedObject;
use crate::backing::{Backing, Marked, copied};
use crate::cpu::Cpu;
use crate::error::MapError;
use crate::machine::Machine;
use crate::machine::frame_meta::OriginId;
use crate::needed::Nodes;
use crate::page::Protection;
use crate::space::Space;
use crate::space::fault::copy_words;
use crate::space::lineage::OriginLinks;
use crate::transaction::gather::TlbGather;
use crate::tree::extents::Extent;
use crate::tree::latch::BLOCK;
use crate::tree::lock::Locked;
use crate::tree::node::{Branch, Leaf, NodeRef, Present};
use crate::tree::pool::TreePool;
use crate::tree::query::mapped;
use crate::tree::update::{add_child, add_table};

/// Memory that a copy of a tree requires.
#[derive(Debug, Default)]
struct Size {
    nodes: Nodes,
    /// Entry `n` is the number of branches whose extents require a capacity of 2ⁿ.
    copies: [usize; usize::BITS as usize / 2],
    /// The largest number of distinct attributes in any leaf.
    kinds: usize,
    backings: Marked,
}

impl Size {
    /// Adds the extents of a locked branch, and everything below the branch.
    fn count(&mut self, branch: &Branch) {
        let extents = branch.extents();
        if !extents.is_empty() {
            self.copies[extents.len().max(BLOCK).next_power_of_two().ilog2() as usize] += 1;
            // SAFETY: the extents are mapped, and the branch is locked.
            extents.iter().for_each(|extent| unsafe { self.backings.add(extent.attributes) });
        }
        for child in branch.children(branch.span()) {
            match child {
                NodeRef::Branch(child) => {
                    self.nodes.branches += 1;
                    self.nodes.tables += 1;
                    self.count(child);
                }
                NodeRef::Leaf(leaf) => {
                    self.nodes.leaves += 1;
                    self.nodes.tables += usize::from(has_copied_entries(leaf));
                    // SAFETY: the leaf is locked, and `used_states` returns only attributes of mapped pages.
                    unsafe {
                        leaf.with_states(|states| {
                            let kinds = states.used_states();
                            self.kinds = self.kinds.max(kinds.len());
                            kinds.iter().for_each(|&kind| self.backings.add(kind));
                        });
                    }
                }
            }
        }
    }
}

/// Whether a copy of this leaf needs a table, because the leaf has pages other than device memory.
fn has_copied_entries(leaf: &Leaf) -> bool {
    leaf.present().get() > leaf.devices().get() || leaf.swapped().get() > 0
}

/// Outcome of one attempt to fork.
enum Forked<'m, M: Machine> {
    Copy(Space<'m, M>),
    /// The space's pages have too many origins.
    Full,
    /// Another operation is visiting all mappings of this object, and the fork must wait until the visit
    /// ends.
    Throttled(PinnedObject<'m, M>),
}

impl<'m, M: Machine> Space<'m, M> {
    /// Copies the space as it is at one moment during the call. Both spaces share their pages copy-on-write;
    /// shared mappings of objects stay shared. Device memory stays present in this space, and a fault makes
    /// it present in the copy. [Pinned](Space::pin) private pages are copied at once, and a store to such a
    /// page during the call may or may not be in the copy. The copy belongs to the same quota, and its pages
    /// are charged as well.
    ///
    /// # Errors
    /// See [`MapError`]: there is no memory for the copy's tree, or the quota does not allow its pages. In
    /// either case, the space is unchanged.
    pub fn fork(&self, cpu: &Cpu<'m, M>) -> Result<Space<'m, M>, MapError> {
        self.check_cpu(cpu);
        let mut is_own = false;
        loop {
            match self.fork_once(cpu, is_own)? {
                Forked::Copy(copy) => return Ok(copy),
                Forked::Full => {
                    self.collapse_to_self(cpu, self.pages(), false)?;
                    is_own = true;
                }
                Forked::Throttled(object) => object.wait_while_throttled(cpu),
            }
        }
    }

    /// Copies the space unless its pages have too many origins. If `is_own` is true, the caller has made this
    /// space the origin of all its pages.
    fn fork_once(&self, cpu: &Cpu<'m, M>, is_own: bool) -> Result<Forked<'m, M>, MapError> {
        let copy = Space::new_within(
            cpu,
            self.tree().account.quota().cloned(),
            self.tree().swap().cloned(),
        )?;
        // SAFETY: these are the ticks of the machine to which both spaces belong.
        unsafe { copy.tree().set_ticks(self.tree().ticks()) };
        copy.set_large_pages(self.has_large_pages());
        let platform = self.machine().epoch().platform();
        let mut gather = TlbGather::new();
        let mut links = Some(OriginLinks::new()?);
        let (failed, alone) = self.tree().locked_exclusive(cpu, |locked, pool| {
            let NodeRef::Branch(root) = locked.top else { unreachable!("the root has all pages") };
            // SAFETY: the root is locked, as all nodes are. If `is_own`, this space is the origin of all its
            // pages: the caller has changed the origin of all pages that already existed. Every page that was
            // added later has had this origin from the start.
            unsafe {
                if is_own {
                    self.lineage.forget_others(platform);
                } else if self.lineage.is_full() {
                    self.lineage.forget_unused(|with| self.for_each_origin(locked, with), platform);
                }
                if self.lineage.is_full() {
                    return Ok(Some(Ok(Forked::Full)));
                }
            }
            let mut size = Size::default();
            size.count(root);
            // The copy gets a frame of its own for each pinned page.
            size.nodes.tables += locked.pinned(self.tree(), self.machine());
            if let Some(object) = size.backings.throttled(self.machine()) {
                return Ok(Some(Ok(Forked::Throttled(object))));
            }
            pool.tree.has_nodes(size.nodes)?;
            let mut copies = 0;
            // `has_extents` counts all latches whose capacity is at least the requested capacity, including
            // those that larger copies need. So go from the largest capacity to the smallest, and add up the
            // counts.
            for (log, count) in
                size.copies.iter().enumerate().rev().filter(|(_, count)| **count > 0)
            {
                copies += count;
                pool.tree.has_extents(copies, 1 << log)?;
            }
            pool.tree.has_palettes(size.nodes.leaves, size.kinds)?;
            pool.backings.has(size.backings.count())?;
            let count = mapped(locked.top, self.pages());
            let charge = match copy.tree().account.charge(cpu.number(), count, platform) {
                Ok(charge) => charge,
                Err(error) => return Ok(Some(Err(error))),
            };
            // Once a backing is attached, other CPUs can find the copy. So lock the copy until it is
            // complete.
            if !is_mutant!("copy_not_locked") {
                copy.tree().root().lock(platform);
            }
            // SAFETY: both roots are locked, and the copy is new.
            unsafe {
                let links = links.take().expect("this point is reached once");
                self.lineage.inherit(&copy.lineage, copy.tree_pointer(), links, cpu);
            }
            size.backings.copy(|backing| {
                let new = pool.backings.take(backing.copied(copy.tree_pointer()));
                let new = new.expect("enough were reserved");
                // SAFETY: the original backing is attached, which keeps the object alive. The new backing
                // stays attached as long as the copy has a mapping that uses this backing.
                unsafe { Backing::attach(new, cpu.number(), platform, true) };
                new
            });
            copy.copy_branch(cpu, root, copy.tree().root(), &mut pool.tree, &mut gather);
            if !is_mutant!("copy_not_locked") {
                copy.tree().root().unlock();
            }
            charge.keep();
            Ok(None)
        })?;
        // SAFETY: no frame was removed from a table.
        unsafe { gather.finish(self.tree(), cpu) };
        drop(alone);
        failed.unwrap_or(Ok(Forked::Copy(copy)))
    }

    /// Passes the origin of each private page of the locked nodes to `with`.
    fn for_each_origin(&self, locked: &Locked<'_>, with: &mut dyn FnMut(OriginId)) {
        locked.for_each_leaf(|leaf| {
            leaf.fill(self.machine());
            for Present { frame, .. } in leaf.present_in::<M::Format>(leaf.span()) {
                let meta = self.machine().frame_meta(frame);
                if !meta.is_object() {
                    with(meta.origin().0);
                }
            }
        });
    }

    /// Copies everything below the locked branch `from` to the branch `to` of this space, which no other
    /// CPU uses yet. All memory must have been reserved.
    fn copy_branch(
        &self,
        cpu: &Cpu<'m, M>,
        from: &Branch,
        to: &Branch,
        pool: &mut TreePool,
        gather: &mut TlbGather<'_>,
    ) {
        const COUNTED: &str = "enough was reserved";
        let extents = from.extents();
        if !extents.is_empty() {
            // SAFETY: `fork_once` has marked and copied all backings.
            let copied = |extent: Extent| unsafe {
                Extent { attributes: copied(extent.attributes), ..extent }
            };
            let copies = pool.latch(extents.len()).expect(COUNTED);
            // SAFETY: the new latch is not published yet, and the branch is locked.
            unsafe {
                copies.write(extents.iter().map(copied));
                to.latched().replace(copies);
            }
        }
        for child in from.children(from.span()) {
            let first = child.node().span().start;
            add_child(self.machine(), to, first, pool).expect(COUNTED);
            match (child, to.child(to.slot(first))) {
                (NodeRef::Branch(from), Some(NodeRef::Branch(to))) => {
                    self.copy_branch(cpu, from, to, pool, gather);
                    to.unlock();
                }
                (NodeRef::Leaf(from), Some(NodeRef::Leaf(to))) => {
                    self.copy_leaf(cpu, from, to, pool, gather);
                    to.unlock();
                }
                _ => unreachable!("children of one level are of one kind"),
            }
        }
    }

    fn copy_leaf(
        &self,
        cpu: &Cpu<'m, M>,
        from: &Leaf,
        to: &Leaf,
        pool: &mut TreePool,
        gather: &mut TlbGather<'_>,
    ) {
        const COUNTED: &str = "enough was reserved";
        // SAFETY: both leaves are locked, every entry of the palette belongs to a mapped page, and
        // `fork_once` has marked and copied all backings.
        unsafe {
            let kinds = from.with_states(|states| states.palette_len());
            let kinds = pool.palette(kinds).expect(COUNTED);
            let states = from.with_states(|states| states.copy(kinds, |kind| copied(kind)));
            to.with_states(|own| *own = states);
        }
        if has_copied_entries(from) {
            let entries = add_table(self.machine(), to, pool).expect(COUNTED);
            let duplicate = |page, frame, protection: Protection| {
                let own = pool.table().expect(COUNTED);
                // SAFETY: the new frame is ours, and the other frame is pinned. All writes to a pinned frame
                // either use atomics, or are made by devices or machine code, which are outside of Rust's
                // memory model.
                unsafe { copy_words(self.machine(), frame, own) };
                self.init_private(own, page, protection);
                own
            };
            gather.share(self.machine(), from, duplicate, |slot, entry| {
                entries[slot].store(entry, Relaxed);
                to.present().set(to.present().get() + 1);
            });
            self.copy_swapped(from, to);
            self.tree().account.add_resident(cpu.number(), to.present().get().into());
        }
    }
}

//! A copy of a space, whose pages are copied when somebody writes to them.

use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use crate::backing::object_core::PinnedObject;
use crate::backing::{Backing, Marked, copied};
use crate::cpu::Cpu;
use crate::error::MapError;
use crate::machine::Machine;
use crate::needed::Nodes;
use crate::space::Space;
use crate::space::lineage::OriginLinks;
use crate::transaction::gather::TlbGather;
use crate::tree::extents::Extent;
use crate::tree::latch::BLOCK;
use crate::tree::node::{Branch, Leaf, NodeRef};
use crate::tree::pool::TreePool;
use crate::tree::query::mapped;
use crate::tree::update::{add_child, add_table};

/// What a copy of a tree needs.
#[derive(Debug, Default)]
struct Size {
    nodes: Nodes,
    /// Branches with extents, by the logarithm of the room that these take.
    copies: [usize; usize::BITS as usize / 2],
    /// The most kinds of a leaf.
    kinds: usize,
    backings: Marked,
}

impl Size {
    /// Adds what is below a branch that is locked.
    fn count(&mut self, branch: &Branch) {
        let extents = branch.extents();
        if !extents.is_empty() {
            self.copies[extents.len().max(BLOCK).next_power_of_two().ilog2() as usize] += 1;
            // SAFETY: they are mapped, and locked.
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
                    self.nodes.tables += usize::from(leaf.table().is_some());
                    // SAFETY: the leaf is locked, and each kind has a page.
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

/// What an attempt to copy comes to.
enum Forked<'m, M: Machine> {
    Copy(Space<'m, M>),
    /// Pages are of too many origins.
    Full,
    /// This object takes no copies for a while.
    Throttled(PinnedObject<'m, M>),
}

impl<'m, M: Machine> Space<'m, M> {
    /// A copy of the space as it is at one moment during the call. Its pages are those of this one, until
    /// somebody writes to them in either: then they are copied. It belongs to the same quota, where its pages
    /// count as well.
    ///
    /// # Errors
    /// There is no memory for its tree, or the quota does not allow so many pages more. Nothing has changed.
    pub fn fork(&self, cpu: &Cpu<'m, M>) -> Result<Space<'m, M>, MapError> {
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

    /// A copy, if pages are not of too many origins, or the caller has seen to it that all are of the space's own.
    fn fork_once(&self, cpu: &Cpu<'m, M>, is_own: bool) -> Result<Forked<'m, M>, MapError> {
        let copy = Space::new_within(cpu, self.tree().account.quota().cloned())?;
        copy.tree().set_lazy(self.tree().is_lazy());
        let platform = self.machine().epoch().platform();
        let mut gather = TlbGather::new();
        let mut links = Some(OriginLinks::new()?);
        let (failed, alone) = self.tree().locked_exclusive(cpu, |locked, pool| {
            let NodeRef::Branch(root) = locked.top else { unreachable!("the root has all pages") };
            // SAFETY: the root is locked, as all is; and new pages are of the space's own origin.
            unsafe {
                if is_own {
                    self.lineage.forget_others(platform);
                } else if self.lineage.is_full() {
                    return Ok(Some(Ok(Forked::Full)));
                }
            }
            let mut size = Size::default();
            size.count(root);
            if let Some(object) = size.backings.throttled(self.machine()) {
                return Ok(Some(Ok(Forked::Throttled(object))));
            }
            pool.tree.has_nodes(size.nodes)?;
            let mut copies = 0;
            // Those with the most first, as who needs less takes what is left of these.
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
            // Others find the copy as soon as anything is attached, and wait for the end of it.
            if !is_mutant!("copy_not_locked") {
                copy.tree().root().lock(platform);
            }
            // SAFETY: both roots are locked.
            unsafe {
                let links = links.take().expect("this is done once");
                self.lineage.inherit(&copy.lineage, copy.tree_pointer(), links, cpu);
            }
            size.backings.copy(|backing| {
                let new = pool.backings.take(backing.copied(copy.tree_pointer()));
                let new = new.expect("they were counted");
                // SAFETY: the other one is attached; the new one is until nothing of the copy is mapped by it.
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
        // SAFETY: nothing was removed.
        unsafe { gather.finish(self.tree(), cpu) };
        drop(alone);
        failed.unwrap_or(Ok(Forked::Copy(copy)))
    }

    /// Copies what is below a branch that is locked to one of this space, which nobody else knows. All that
    /// is needed is there.
    fn copy_branch(
        &self,
        cpu: &Cpu<'m, M>,
        from: &Branch,
        to: &Branch,
        pool: &mut TreePool,
        gather: &mut TlbGather,
    ) {
        const COUNTED: &str = "it was counted";
        let extents = from.extents();
        if !extents.is_empty() {
            // SAFETY: backings were marked and copied.
            let copied = |extent: Extent| unsafe {
                Extent { attributes: copied(extent.attributes), ..extent }
            };
            let copies = pool.latch(extents.len()).expect(COUNTED);
            // SAFETY: nobody else knows them, and the branch is locked.
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
        gather: &mut TlbGather,
    ) {
        const COUNTED: &str = "it was counted";
        // SAFETY: both are locked; kinds have pages, and backings were marked and copied.
        unsafe {
            let kinds = from.with_states(|states| states.palette_len());
            let kinds = pool.palette(kinds).expect(COUNTED);
            let states = from.with_states(|states| states.copy(kinds, |kind| copied(kind)));
            to.with_states(|own| *own = states);
        }
        if from.table().is_some() {
            let entries = add_table(self.machine(), to, to.span().start, pool).expect(COUNTED);
            gather.share(self.machine(), from, |slot, entry| {
                entries[slot].store(entry, Relaxed);
                to.present().set(to.present().get() + 1);
            });
            self.tree().account.add_resident(cpu.number(), to.present().get().into());
        }
    }
}

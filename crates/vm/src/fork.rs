//! A copy of a space, whose pages are copied when somebody writes to them.

use core::sync::atomic::Ordering::Relaxed;

use crate::cpu::{Cpu, Nodes, Spare};
use crate::error::MapError;
use crate::machine::Machine;
use crate::node::{Any, Branch, Leaf};
use crate::removal::Removal;
use crate::space::{Space, mapped};

/// What a copy of a tree needs.
#[derive(Debug, Default)]
struct Size {
    nodes: Nodes,
    /// Lists of extents, and the longest.
    extents: usize,
    room: usize,
    /// The most kinds of a leaf.
    kinds: usize,
}

impl Size {
    /// Adds what is below a branch that is locked.
    fn count(&mut self, branch: &Branch) {
        if let Some(extents) = branch.extents() {
            self.extents += 1;
            self.room = self.room.max(extents.len());
        }
        for child in branch.children(branch.span()) {
            match child {
                Any::Branch(child) => {
                    self.nodes.branches += 1;
                    self.nodes.tables += 1;
                    self.count(child);
                }
                Any::Leaf(leaf) => {
                    self.nodes.leaves += 1;
                    self.nodes.tables += usize::from(leaf.table().is_some());
                    // SAFETY: the leaf is locked.
                    let kinds = unsafe { leaf.with_codes(|codes| codes.kinds()) };
                    self.kinds = self.kinds.max(kinds);
                }
            }
        }
    }
}

impl<'m, M: Machine> Space<'m, M> {
    /// A copy of the space as it is at one moment during the call. Its pages are those of this one, until
    /// somebody writes to them in either: then they are copied. It belongs to the same quota, where its pages
    /// count as well.
    ///
    /// # Errors
    /// There is no memory for its tree, or the quota does not allow so many pages more. Nothing has changed.
    pub fn fork(&self, cpu: &Cpu<'m, M>) -> Result<Space<'m, M>, MapError> {
        let copy = Space::new_within(cpu, self.account.quota().cloned())?;
        let platform = self.machine().epoch().platform();
        let mut removal = Removal::new();
        let charged = self.locked(cpu, self.pages(), |locked, spare| {
            let Any::Branch(root) = locked.top else { unreachable!("the root has all pages") };
            let mut size = Size::default();
            size.count(root);
            spare.has_nodes(size.nodes)?;
            spare.has(size.extents, size.room)?;
            spare.has_kinds(size.nodes.leaves, size.kinds)?;
            let count = mapped(locked.top, self.pages());
            let charge = match copy.account.charge(cpu.number(), count, platform) {
                Ok(charge) => charge,
                Err(error) => return Ok(Err(error)),
            };
            self.set_forking(true);
            copy.copy_branch(root, copy.root(), spare, &mut removal);
            charge.keep();
            Ok(Ok(()))
        })?;
        // SAFETY: nothing was removed.
        unsafe { removal.finish(self, cpu) };
        if charged.is_ok() {
            self.set_forking(false);
        }
        charged.map(|()| copy)
    }

    /// Copies what is below a branch that is locked to one of this space, which nobody else knows. All that
    /// is needed is there.
    fn copy_branch(&self, from: &Branch, to: &Branch, spare: &mut Spare, removal: &mut Removal) {
        const COUNTED: &str = "it was counted";
        if let Some(extents) = from.extents() {
            let mut list = spare.extents(extents.len()).expect(COUNTED);
            list.copy(extents);
            // SAFETY: nobody else knows the branch. It had none.
            unsafe { to.publish(Some(list)) };
        }
        for child in from.children(from.span()) {
            let first = child.node().span().start;
            self.add_child(to, first, spare).expect(COUNTED);
            match (child, to.child(to.slot(first))) {
                (Any::Branch(from), Some(Any::Branch(to))) => {
                    self.copy_branch(from, to, spare, removal);
                    to.unlock();
                }
                (Any::Leaf(from), Some(Any::Leaf(to))) => {
                    self.copy_leaf(from, to, spare, removal);
                    to.unlock();
                }
                _ => unreachable!("children of one level are of one kind"),
            }
        }
    }

    fn copy_leaf(&self, from: &Leaf, to: &Leaf, spare: &mut Spare, removal: &mut Removal) {
        const COUNTED: &str = "it was counted";
        // SAFETY: both are locked.
        unsafe {
            let kinds = from.with_codes(|codes| codes.kinds());
            let kinds = spare.kinds(kinds).expect(COUNTED);
            let codes = from.with_codes(|codes| codes.copy(kinds));
            to.with_codes(|own| *own = codes);
        }
        if from.table().is_some() {
            let entries = self.add_table(to, to.span().start, spare).expect(COUNTED);
            removal.share(self.machine(), from, |slot, entry| {
                entries[slot].store(entry, Relaxed);
                to.present().set(to.present().get() + 1);
            });
            // Nobody knows the copy yet, so it is on whichever CPU.
            self.account.came(0, to.present().get().into());
        }
    }
}

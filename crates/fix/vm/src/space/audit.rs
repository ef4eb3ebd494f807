//! Consistency checks of a space, for tests.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use crate::cpu::Cpu;
use crate::machine::Machine;
use crate::machine::format::{ABSENT, Entry, Format};
use crate::page::{ENTRIES, Frame, Page, Pages};
use crate::space::Space;
use crate::tree::branch_link::BranchLink;
use crate::tree::extents::Extent;
use crate::tree::gigabyte::GIGABYTE;
use crate::tree::lock::Locked;
use crate::tree::node::{Branch, Leaf, Link, NodeRef, entry_span};

/// Page and table counts of a space.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// Mapped pages; guard pages do not count.
    pub mapped: u64,
    /// Pages with a frame in their PTE, including those whose flush is pending.
    pub present: u64,
    /// Page tables.
    pub tables: u64,
    /// Large pages of 2 MiB.
    pub large: u64,
    /// Large pages whose tables are filled.
    pub filled: u64,
    /// Pages of 1 GiB.
    pub gigabytes: u64,
}

impl AddAssign for Audit {
    fn add_assign(&mut self, other: Audit) {
        self.mapped += other.mapped;
        self.present += other.present;
        self.tables += other.tables;
        self.large += other.large;
        self.filled += other.filled;
        self.gigabytes += other.gigabytes;
    }
}

/// All representable pages.
const EVERYWHERE: Pages = Pages::new(Page(0), u64::MAX);

impl<'m, M: Machine> Space<'m, M> {
    /// The frame of `page`, or `None` if it is not present.
    #[doc(hidden)]
    pub fn frame(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Frame> {
        let frame = |locked: &Locked<'_>| locked.frame::<M>(page);
        self.tree().locked(cpu, Pages::new(page, 1), |locked, _| Ok(frame(locked))).ok().flatten()
    }

    /// Counts pages and tables and checks their consistency, with all nodes locked.
    ///
    /// # Panics
    /// If a page is mapped twice or is present but not mapped, if a PTE allows more than the page's mapping,
    /// if a node's table is not linked where it belongs, or if a frame is used twice.
    #[doc(hidden)]
    pub fn audit(&self, cpu: &Cpu<'m, M>) -> Audit {
        self.with_root_locked(cpu, |root| {
            let mut frames = Frames { machine: cpu.machine(), own: HashSet::new(), foreign: 0 };
            let tree = branch(root, &mut Vec::new(), &mut frames);
            let all = frames.own.len() as u64 + frames.foreign;
            assert_eq!(all, tree.present + tree.tables, "a frame is used twice");
            tree
        })
    }
}

/// Frames found so far.
struct Frames<'m, M: Machine> {
    machine: &'m M,
    /// Frames of the space's own pages and tables.
    own: HashSet<Frame>,
    /// How many page-table entries map device memory or a frame of an object.
    foreign: u64,
}

impl<M: Machine> Frames<'_, M> {
    fn insert(&mut self, frame: Frame) {
        match self.machine.frame_meta(frame).is_object() {
            true => self.foreign += 1,
            false => _ = self.own.insert(frame),
        }
    }
}

/// Checks a branch and everything below it. `above` holds the extents of the branch's ancestors.
fn branch<M: Machine>(
    branch: &Branch,
    above: &mut Vec<Extent>,
    frames: &mut Frames<'_, M>,
) -> Audit {
    let (level, span) = (branch.level(), branch.span());
    let entries = branch.table().expect("a branch has a table");
    frames.insert(branch.table_frame());
    let mut found = Audit { tables: 1, ..Audit::default() };

    let own: Vec<Extent> = branch.extents().iter().collect();
    assert_eq!(branch.extents().overlapping(EVERYWHERE).len(), own.len());
    for extent in &own {
        let pages = extent.pages;
        assert!(!pages.is_empty() && span.covers(pages), "{pages:?} is not in {span:?}");
        let twice = above.iter().find(|other| other.pages.overlaps(pages));
        assert!(twice.is_none(), "{extent:?} of level {level} overlaps {twice:?}");
        found.mapped += if extent.attributes.is_guard() { 0 } else { pages.count() };
    }
    for pair in own.windows(2) {
        assert!(pair[0].pages.end <= pair[1].pages.start, "{pair:?} overlap");
    }

    let outer = above.len();
    above.extend_from_slice(&own);
    let mut listed = branch.children(span);
    for (slot, entry) in entries.iter().enumerate() {
        let first = span.start + slot as u64 * entry_span(level);
        if !M::Format::pages().contains(first) {
            assert!(
                branch.child(slot).is_none(),
                "slot {slot} of {span:?} has a child out of bounds"
            );
            continue;
        }
        let Some(child) = branch.child(slot) else {
            assert_eq!(
                entry.load(Relaxed),
                ABSENT,
                "slot {slot} of {span:?} has an entry but no child"
            );
            continue;
        };
        let node = child.node();
        let same = listed.next().is_some_and(|listed| ptr::eq(listed.node(), node));
        assert!(same, "slot {slot} of {span:?} is not marked as used");
        assert!(node.above().is_some_and(|parent| ptr::eq(parent, branch)) && !node.is_detached());
        let pages = Pages::new(first, entry_span(level));
        assert_eq!((node.span(), node.level()), (pages, level - 1), "slot {slot} of {span:?}");
        match child {
            NodeRef::Leaf(leaf) if leaf.is_large() => large::<M>(leaf, entry.load(Relaxed)),
            NodeRef::Leaf(leaf) if leaf.link() == Link::Absent => {
                assert_eq!(entry.load(Relaxed), ABSENT, "slot {slot} of {span:?}");
            }
            NodeRef::Branch(child) if child.is_flushing() => {
                assert_eq!(entry.load(Relaxed), ABSENT, "slot {slot} of {span:?}");
            }
            NodeRef::Branch(child) if child.link() == BranchLink::Page => {
                let read = M::Format::read(entry.load(Relaxed), level);
                assert!(
                    matches!(read, Entry::Device { .. }),
                    "{read:?} in slot {slot} of {span:?}"
                );
                assert!(
                    !child.has_children(),
                    "the page of 1 GiB in slot {slot} of {span:?} has a child"
                );
                frames.foreign += GIGABYTE;
                found += Audit { present: GIGABYTE, gigabytes: 1, ..Audit::default() };
            }
            _ => {
                let table = M::Format::table(node.table_frame());
                assert_eq!(entry.load(Relaxed), table, "slot {slot} of {span:?}");
            }
        }
        found += match child {
            NodeRef::Branch(child) => self::branch(child, above, frames),
            NodeRef::Leaf(child) => leaf(child, above, frames),
        };
    }
    assert!(listed.next().is_none(), "an empty slot of {span:?} is marked as used");
    above.truncate(outer);
    found
}

/// Checks that the table of a large page is empty, or that it maps the same frames as the large page, with
/// the same protection and with the accessed bits set.
fn large<M: Machine>(leaf: &Leaf, entry: u64) {
    let entries = leaf.table().expect("a large page has a table");
    if leaf.link() == Link::Large {
        assert!(entries.iter().all(|entry| entry.load(Relaxed) == ABSENT), "{:?}", leaf.span());
        return;
    }
    let (large, span) = (M::Format::read(entry, 1), leaf.span());
    for (index, entry) in entries.iter().enumerate() {
        let mut part = large;
        match &mut part {
            Entry::Page { frame, accessed, .. } => {
                frame.0 += index as u64;
                *accessed = true;
            }
            Entry::Device { frame, .. } => frame.0 += index as u64,
            other => panic!("the large page of {span:?} is {other:?}"),
        }
        assert_eq!(M::Format::read(entry.load(Relaxed), 0), part, "page {index} of {span:?}");
    }
    assert_eq!(leaf.flush_pending().get(), 0, "a large page of {span:?} leaves");
}

fn leaf<M: Machine>(leaf: &Leaf, above: &[Extent], frames: &mut Frames<'_, M>) -> Audit {
    let is_filled = leaf.link() == Link::Filled;
    let mut found =
        Audit { large: leaf.is_large().into(), filled: is_filled.into(), ..Audit::default() };
    if leaf.table().is_some() {
        frames.insert(leaf.table_frame());
        found.tables = 1;
    }
    let (mut leaving, mut devices, mut swapped) = (0, 0, 0);
    for slot in 0..ENTRIES {
        let page = leaf.span().start + slot as u64;
        // SAFETY: the leaf is locked, as all nodes are.
        let own = unsafe { leaf.with_states(|states| states.get(slot)) };
        let other = above.iter().find(|extent| extent.pages.contains(page));
        assert!(own.is_none() || other.is_none(), "page {page:#x} is also in {other:?}");
        found.mapped += u64::from(own.is_some_and(|own| !own.is_guard()));
        let attributes = own.or(other.map(|extent| extent.attributes));
        let (frame, protection) = match leaf.entry::<M::Format>(page) {
            Entry::Absent => continue,
            Entry::Page { frame, protection, .. } => (Some(frame), Some(protection)),
            Entry::ProtNone(frame) => (Some(frame), None),
            Entry::Device { protection, .. } => (None, Some(protection)),
            Entry::FlushPending(frame) => {
                let is_lazy = !leaf.is_flushing();
                assert!(!is_lazy || attributes.is_none(), "page {page:#x} lingers but is mapped");
                frames.insert(frame);
                (found.present, leaving) = (found.present + 1, leaving + 1);
                continue;
            }
            Entry::Swapped { .. } => {
                assert!(attributes.is_some(), "page {page:#x} is swapped but not mapped");
                swapped += 1;
                continue;
            }
            entry @ Entry::Table(_) => panic!("page {page:#x} is {entry:?}"),
        };
        let allowed = attributes.map(|attributes| attributes.protection);
        let allowed = allowed.unwrap_or_else(|| panic!("page {page:#x} is present but not mapped"));
        let less = protection.is_none_or(|protection| allowed.contains(protection));
        assert!(less, "page {page:#x} has {protection:?} in a mapping of {allowed:?}");
        match frame {
            Some(frame) => frames.insert(frame),
            None => (devices, frames.foreign) = (devices + 1, frames.foreign + 1),
        }
        found.present += 1;
    }
    assert_eq!(leaf.swapped().get(), swapped, "swapped pages in {:?}", leaf.span());
    assert_eq!(leaf.devices().get(), devices, "device memory in {:?}", leaf.span());
    assert_eq!(leaf.flush_pending().get(), leaving, "pending flushes in {:?}", leaf.span());
    assert_eq!(
        u64::from(leaf.present().get()),
        found.present,
        "present pages in {:?}",
        leaf.span()
    );
    found
}

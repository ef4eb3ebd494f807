//! An address space: what is mapped where.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use crate::arena::Arenas;
use crate::attributes::Attributes;
use crate::codes::Codes;
use crate::cpu::{Cpu, Lack, Spare, table_at};
use crate::cpus::CpuSet;
use crate::error::{Fault, MapError, OutOfMemory};
use crate::extents::Extents;
use crate::format::{Entry, Format};
use crate::machine::{Flush, Machine};
use crate::node::{Any, Branch, Leaf, MOST_ABOVE, reach};
use crate::page::{Frame, PAGE, Pages, Protection};
use crate::quota::{Account, Quota};
use crate::removal::{Removal, release};

/// An address space of a machine.
///
/// All operations may be called by any CPU at any time. Those on pages that are apart share nothing.
///
/// # Panics
/// All operations, if the CPU is one of another machine.
#[derive(Debug)]
pub struct Space<'m, M: Machine> {
    machine: &'m M,
    number: u64,
    root: NonNull<Branch>,
    /// CPUs that may know pages of it.
    active: CpuSet,
    pub(crate) arenas: Arenas,
    pub(crate) account: Account,
    /// Somebody copies it, and CPUs may still write to pages that the copy has. Set with all nodes locked.
    forking: AtomicBool,
}

// SAFETY: the tree is used under its locks and the machine's epoch.
unsafe impl<M: Machine> Sync for Space<'_, M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Send for Space<'_, M> {}

/// What a fault comes to.
enum Step<'a> {
    Done(Result<(), Fault>),
    /// CPUs have to forget something first.
    Wait(&'a Leaf),
    /// The page is one that others have, too.
    Unshare(Shared<'a>),
}

/// A page that is on its way out of an entry, to make room for a copy.
struct Shared<'a> {
    leaf: &'a Leaf,
    frame: Frame,
    attributes: Attributes,
}

/// Nodes that are locked: the lowest that has all that is known of some pages, and those below that
/// have any of them.
pub(crate) struct Locked<'a> {
    pub(crate) top: Any<'a>,
    pages: Pages,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        unlock(self.top, self.pages);
    }
}

/// Locks a node and those below that have any of these pages, in the order of their pages: whoever locks
/// more than one node does so in this order.
fn lock<M: Machine>(node: Any<'_>, pages: Pages, platform: &M::Platform) {
    node.node().lock(platform);
    if let Any::Branch(branch) = node {
        branch.children(pages).for_each(|child| lock::<M>(child, pages, platform));
    }
}

/// Unlocks them: children first, as there may be more as soon as their parent is not locked.
fn unlock(node: Any<'_>, pages: Pages) {
    if let Any::Branch(branch) = node {
        branch.children(pages).for_each(|child| unlock(child, pages));
    }
    node.node().unlock();
}

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
        assert!(quota.cpus() >= cpu.machine().cpus(), "the quota has {} CPUs", quota.cpus());
        Space::new_within(cpu, Some(quota))
    }

    pub(crate) fn new_within(
        cpu: &Cpu<'m, M>,
        quota: Option<Arc<Quota>>,
    ) -> Result<Space<'m, M>, OutOfMemory> {
        const { assert!(M::Format::LEVELS as usize <= MOST_ABOVE + 1, "five levels at most") };
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let machine = cpu.machine();
        let active = CpuSet::new(machine.cpus())?;
        let root = Branch::root(M::Format::LEVELS - 1);
        let arenas = Arenas::new(machine.cpus(), root.span())?;
        let account = Account::new(machine.cpus(), quota)?;
        let root = cpu.root(root)?;
        let number = NUMBER.fetch_add(1, Relaxed);
        let forking = AtomicBool::new(false);
        Ok(Space { machine, number, root, active, arenas, account, forking })
    }

    /// Its number, which no other space has: what caches of the machine may know it by.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn machine(&self) -> &'m M {
        self.machine
    }

    /// The frame of its uppermost table, for CPUs to load. They have to have left it when the space is
    /// dropped.
    pub fn table(&self) -> Frame {
        self.root().table_frame()
    }

    /// All pages that there are.
    pub fn pages(&self) -> Pages {
        self.root().span()
    }

    /// How many pages are present. Exact if nobody changes that meanwhile.
    pub fn resident(&self) -> u64 {
        self.account.resident()
    }

    /// The CPU goes to pages of the space from now on: others see to it that it learns of changes.
    pub fn activate(&self, cpu: &Cpu<'m, M>) {
        self.check_cpu(cpu);
        if !self.active.contains(cpu.number()) {
            self.active.add(cpu.number());
        }
    }

    /// # Panics
    /// If the CPU is another machine's, whose epoch says nothing of our nodes.
    #[inline]
    pub(crate) fn check_cpu(&self, cpu: &Cpu<'m, M>) {
        assert!(core::ptr::eq(self.machine, cpu.machine()), "the CPU is of another machine");
    }

    /// Whether somebody copies the space, and CPUs may still write to pages that the copy has. Others
    /// wait: what they did now would not be in the copy, and what they wrote next might. Under a lock of
    /// the space it is seen if it began before. Acquire: it is over everywhere then.
    #[inline]
    fn is_forking(&self) -> bool {
        self.forking.load(Acquire)
    }

    /// All nodes are locked, or it is over.
    pub(crate) fn set_forking(&self, is: bool) {
        self.forking.store(is, Release);
    }

    pub(crate) fn root(&self) -> &Branch {
        // SAFETY: it is there as long as the space.
        unsafe { self.root.as_ref() }
    }

    #[inline]
    fn check(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check_cpu(cpu);
        match !pages.is_empty() && self.pages().covers(pages) {
            true => Ok(()),
            false => Err(MapError::OutOfRange),
        }
    }

    /// Locks what has all that is known of these pages. Under an epoch.
    #[inline]
    fn lock_pages(&self, pages: Pages) -> Locked<'_> {
        loop {
            let top = self.lowest(pages);
            lock::<M>(top, pages, self.machine.epoch().platform());
            let locked = Locked { top, pages };
            // What others have done before we had the lock.
            let node = top.node();
            let is_lowest = match top {
                Any::Leaf(_) => true,
                Any::Branch(branch) => is_end(branch, pages),
            };
            if is_lowest && !node.is_stray() && !node.overlaps_above(pages) {
                return locked;
            }
        }
    }

    /// The lowest node that has all that is known of these pages, at this moment.
    #[inline]
    fn lowest(&self, pages: Pages) -> Any<'_> {
        let mut branch = self.root();
        loop {
            if is_end(branch, pages) {
                return Any::Branch(branch);
            }
            match branch.child(branch.slot(pages.start)) {
                Some(Any::Branch(child)) => branch = child,
                Some(leaf) => return leaf,
                None => return Any::Branch(branch),
            }
        }
    }

    /// Calls `step` with the pages locked until it lacks nothing.
    #[inline]
    pub(crate) fn locked<R>(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        mut step: impl FnMut(&Locked<'_>, &mut Spare) -> Result<R, Lack>,
    ) -> Result<R, OutOfMemory> {
        loop {
            let result = {
                let _guard = cpu.pin();
                let locked = self.lock_pages(pages);
                let leaf = flushing(locked.top, pages);
                if leaf.is_some() || self.is_forking() {
                    drop(locked);
                    let waits = || leaf.is_some_and(Leaf::is_flushing) || self.is_forking();
                    // SAFETY: a `Cpu` stays on its CPU, and we have no locks.
                    unsafe { self.machine.wait_while(cpu.number(), waits) };
                    continue;
                }
                cpu.with_spare(|spare| step(&locked, spare))
            };
            cpu.defer();
            match result {
                Ok(result) => return Ok(result),
                Err(lack) => cpu.stock(lack)?,
            }
        }
    }

    /// Maps memory of the space's own at these pages, where nothing is mapped.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn map(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let platform = self.machine.epoch().platform();
        let charge = self.account.charge(cpu.number(), pages.count(), platform)?;
        let attributes = Attributes::anonymous(protection.readable());
        let is_mapped = self.locked(cpu, pages, |locked, spare| match locked.top {
            Any::Leaf(leaf) => map_leaf(leaf, pages, attributes, spare),
            Any::Branch(branch) => self.map_branch(branch, pages, attributes, spare),
        })?;
        if !is_mapped {
            return Err(MapError::Occupied);
        }
        charge.keep();
        Ok(())
    }

    fn map_branch(
        &self,
        branch: &Branch,
        pages: Pages,
        attributes: Attributes,
        spare: &mut Spare,
    ) -> Result<bool, Lack> {
        if branch.overlaps(pages) || branch.children(pages).any(|child| is_used(child, pages)) {
            return Ok(false);
        }
        if branch.is_one_slot(pages) {
            self.add_child(branch, pages.start, spare)?;
            return Err(Lack::Nothing);
        }
        change_extents(branch, 0, spare, |new| new.set(pages, Some(attributes)))?;
        Ok(true)
    }

    /// Adds the child that has this page, locked.
    pub(crate) fn add_child(
        &self,
        branch: &Branch,
        page: u64,
        spare: &mut Spare,
    ) -> Result<(), Lack> {
        let reach = reach(branch.level());
        let (first, slot) = (page / reach * reach, branch.slot(page));
        let child = match branch.level() {
            1 => spare.leaf(first, branch)?.cast(),
            _ => {
                let child = spare.branch(self.machine, first, branch)?;
                // SAFETY: we have just made it.
                let frame = unsafe { child.as_ref() }.table_frame();
                let entries = branch.table().expect("branches have tables");
                entries[slot].store(M::Format::table(frame), Release);
                child.cast()
            }
        };
        // SAFETY: `spare` made what belongs there; the caller has the lock and has found none.
        unsafe { branch.add(slot, child) };
        Ok(())
    }

    /// Unmaps these pages, of which some or all may not be mapped. When it returns no CPU can go there.
    ///
    /// # Errors
    /// See [`MapError`]: to unmap the middle of something needs memory.
    pub fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let mut removal = Removal::new();
        let count = self.locked(cpu, pages, |locked, spare| {
            self.prepare(locked, spare)?;
            let count = mapped(locked.top, pages);
            self.unmap_in(locked.top, pages, spare, &mut removal)?;
            Ok(count)
        })?;
        // SAFETY: what was removed is not in the tables any more.
        unsafe { removal.finish(self, cpu) };
        self.account.give_back(cpu.number(), count, self.machine.epoch().platform());
        self.give_range(cpu, pages, count);
        Ok(())
    }

    fn unmap_in(
        &self,
        node: Any<'_>,
        pages: Pages,
        spare: &mut Spare,
        removal: &mut Removal,
    ) -> Result<(), Lack> {
        match node {
            Any::Leaf(leaf) => {
                // SAFETY: it is locked.
                unsafe { leaf.with_codes(|codes| codes.clear(leaf.slots(pages))) };
                removal.take(self.machine, leaf, pages);
            }
            Any::Branch(branch) => {
                if branch.overlaps(pages) {
                    change_extents(branch, 0, spare, |new| new.set(pages, None))?;
                }
                for child in branch.children(pages) {
                    self.unmap_in(child, pages, spare, removal)?;
                }
            }
        }
        Ok(())
    }

    /// Frees the frames of these pages, of which some or all may not be mapped: they are zero again when
    /// somebody goes there, `MADV_DONTNEED`.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let mut removal = Removal::new();
        self.locked(cpu, pages, |locked, _| {
            take_below(self.machine, locked.top, pages, &mut removal);
            Ok(())
        })?;
        // SAFETY: what was removed is not in the tables any more.
        unsafe { removal.finish(self, cpu) };
        Ok(())
    }

    /// Makes these pages present, all of which are mapped, as if somebody had gone to each for what it
    /// allows: `MAP_POPULATE`, `MADV_POPULATE_WRITE`.
    ///
    /// # Errors
    /// See [`Fault`]: pages before the one that fails are present.
    pub fn populate(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), Fault> {
        (pages.start..pages.end).try_for_each(|page| self.fault(cpu, page, Protection::NONE))
    }

    /// Changes what may be done with these pages, all of which are mapped.
    ///
    /// # Errors
    /// See [`MapError`]; [`MapError::OutOfRange`] if some are not mapped.
    pub fn protect(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let protection = protection.readable();
        let mut removal = Removal::new();
        let is_mapped = self.locked(cpu, pages, |locked, spare| {
            if mapped(locked.top, pages) < pages.count() {
                return Ok(false);
            }
            self.prepare(locked, spare)?;
            let mut kinds = Lists::default();
            kinds.count_kinds(locked.top, pages);
            spare.has_kinds(kinds.count, kinds.room)?;
            self.protect_in(locked.top, pages, protection, spare, &mut removal)?;
            Ok(true)
        })?;
        // SAFETY: nothing was removed.
        unsafe { removal.finish(self, cpu) };
        if is_mapped { Ok(()) } else { Err(MapError::OutOfRange) }
    }

    fn protect_in(
        &self,
        node: Any<'_>,
        pages: Pages,
        protection: Protection,
        spare: &mut Spare,
        removal: &mut Removal,
    ) -> Result<(), Lack> {
        let change = |_| Attributes { protection };
        match node {
            Any::Leaf(leaf) => {
                change_leaf(leaf, spare, pages, change)?;
                removal.protect::<M>(leaf, pages, protection);
            }
            Any::Branch(branch) => {
                if branch.overlaps(pages) {
                    change_extents(branch, 0, spare, |new| change_all(new, pages, change))?;
                }
                for child in branch.children(pages) {
                    self.protect_in(child, pages, protection, spare, removal)?;
                }
            }
        }
        Ok(())
    }

    /// Sees to it that pages can be changed without a lack in the middle: hands what covers them down
    /// to the child that they are all in, and counts the lists that will be needed.
    fn prepare(&self, locked: &Locked<'_>, spare: &mut Spare) -> Result<(), Lack> {
        let pages = locked.pages;
        if let Any::Branch(branch) = locked.top
            && branch.is_one_slot(pages)
            && let Some(extents) = branch.extents()
            && extents.overlapping(pages).iter().any(|extent| !pages.covers(extent.pages))
        {
            self.hand_down(branch, extents, pages.start, spare)?;
            return Err(Lack::Nothing);
        }
        let mut extents = Lists::default();
        extents.count_extents(locked.top, pages);
        spare.has(extents.count, extents.room)
    }

    /// Moves the extents of a branch that have pages of one child to the child.
    fn hand_down(
        &self,
        branch: &Branch,
        extents: &Extents,
        page: u64,
        spare: &mut Spare,
    ) -> Result<(), Lack> {
        let Some(child) = branch.child(branch.slot(page)) else {
            return self.add_child(branch, page, spare);
        };
        let span = child.node().span();
        let moved = extents.overlapping(span);
        let room = |list: &Extents| list.len() + moved.len() + 2;
        let below = match child {
            Any::Leaf(_) => 0,
            Any::Branch(below) => below.extents().map_or(0, room),
        };
        spare.has(2, room(extents).max(below))?;
        // The child has them first: who goes down the tree without locks finds them in one place at least.
        match child {
            // SAFETY: the child is locked, as it has pages that its parent was locked for.
            Any::Leaf(leaf) => unsafe {
                leaf.with_codes(|codes| -> Result<(), Lack> {
                    make_room(codes, moved.len(), spare)?;
                    for extent in moved {
                        codes.set(leaf.slots(extent.pages), extent.attributes);
                    }
                    Ok(())
                })?;
            },
            Any::Branch(below) => change_extents(below, moved.len(), spare, |list| {
                for extent in moved {
                    list.set(extent.pages.and(span), Some(extent.attributes));
                }
            })?,
        }
        change_extents(branch, 0, spare, |list| list.set(span, None))
    }

    /// Makes a page present that a CPU has gone to for this access, or says why not: the handler of page
    /// faults.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn fault(&self, cpu: &Cpu<'m, M>, page: u64, access: Protection) -> Result<(), Fault> {
        self.check_cpu(cpu);
        if !self.pages().contains(page) {
            return Err(Fault::Unmapped);
        }
        loop {
            cpu.stock_page()?;
            let step = {
                let _guard = cpu.pin();
                cpu.with_spare(|spare| self.fault_once(page, access, spare))
            };
            match step {
                Ok(Step::Done(result)) => {
                    if cpu.lacks_page() {
                        self.account.came(cpu.number(), 1);
                    }
                    return result;
                }
                // SAFETY: a `Cpu` stays on its CPU, and we have no locks.
                Ok(Step::Wait(leaf)) => unsafe {
                    self.machine
                        .wait_while(cpu.number(), || leaf.is_flushing() || self.is_forking());
                },
                Ok(Step::Unshare(shared)) => self.unshare(cpu, page, shared),
                Err(lack) => cpu.stock(lack)?,
            }
        }
    }

    /// Gives a page of its own to an entry that had one with others, and that the caller has made leave.
    fn unshare(&self, cpu: &Cpu<'m, M>, page: u64, Shared { leaf, frame, attributes }: Shared<'_>) {
        self.shoot_down(cpu, Flush::Some(Pages::new(page, 1)));
        let own = cpu.with_spare(Spare::page);
        let (from, to) = (self.machine.address(frame), self.machine.address(own));
        // SAFETY: the new frame is ours, and of the old one the entry has a part until we release it:
        // nobody frees it or writes there.
        unsafe { from.copy_to_nonoverlapping(to, PAGE) };
        leaf.lock(self.machine.epoch().platform());
        let entries = leaf.table().expect("the entry is in it");
        // Who wants to change the leaf waits until it is flushed: all is as it was. Release: who finds the
        // frame finds the copy.
        let new = M::Format::page_or_parked(own, attributes.protection);
        entries[leaf.slot(page)].store(new, Release);
        leaf.leaving().set(leaf.leaving().get() - 1);
        leaf.unlock();
        // SAFETY: `fault_in` has begun it; the old frame is not in the entry any more, and CPUs have
        // forgotten it.
        unsafe {
            leaf.end_flush();
            release(cpu, frame);
        }
    }

    fn fault_once(
        &self,
        page: u64,
        access: Protection,
        spare: &mut Spare,
    ) -> Result<Step<'_>, Lack> {
        let platform = self.machine.epoch().platform();
        let mut branch = self.root();
        let mut above = None;
        let leaf = loop {
            above = branch.extents().and_then(|extents| extents.find(page)).or(above);
            match branch.child(branch.slot(page)) {
                Some(Any::Branch(child)) => branch = child,
                Some(Any::Leaf(leaf)) => break leaf,
                None => {
                    // What is handed down is in the child before it is gone from above.
                    let Some(attributes) = above else {
                        return Ok(Step::Done(Err(Fault::Unmapped)));
                    };
                    if !attributes.protection.allows(access) {
                        return Ok(Step::Done(Err(Fault::Forbidden)));
                    }
                    let locked = Locked { top: Any::Branch(branch), pages: Pages::new(page, 1) };
                    lock::<M>(locked.top, locked.pages, platform);
                    if !branch.is_stray() && branch.child(branch.slot(page)).is_none() {
                        self.add_child(branch, page, spare)?;
                    }
                    return Err(Lack::Nothing);
                }
            }
        };
        leaf.lock(platform);
        let result = self.fault_in(leaf, page, access, spare);
        leaf.unlock();
        result
    }

    #[inline]
    fn fault_in<'a>(
        &self,
        leaf: &'a Leaf,
        page: u64,
        access: Protection,
        spare: &mut Spare,
    ) -> Result<Step<'a>, Lack> {
        if leaf.is_stray() {
            return Err(Lack::Nothing);
        }
        if self.is_forking() {
            return Ok(Step::Wait(leaf));
        }
        // SAFETY: the leaf is locked.
        let own = unsafe { leaf.with_codes(|codes| codes.get(leaf.slot(page))) };
        let Some(attributes) = own.or_else(|| leaf.find_above(page)) else {
            return Ok(Step::Done(Err(Fault::Unmapped)));
        };
        let mut protection = attributes.protection;
        if !protection.allows(access) {
            return Ok(Step::Done(Err(Fault::Forbidden)));
        }
        let entries = match leaf.table() {
            Some(entries) => entries,
            None => self.add_table(leaf, page, spare)?,
        };
        let entry = &entries[leaf.slot(page)];
        let frame = match M::Format::read(entry.load(Relaxed), 0) {
            Entry::Leaving(_) => return Ok(Step::Wait(leaf)),
            // Somebody else was here before, or the protection has changed since.
            Entry::Page { frame, .. } | Entry::Parked(frame) => {
                if self.machine.note(frame).is_shared() {
                    if access.allows(Protection::WRITE) {
                        if leaf.is_flushing() {
                            return Ok(Step::Wait(leaf));
                        }
                        // CPUs forget the old page before any of them gets the new one: else one would
                        // see what another has written, and a third would not.
                        entry.store(M::Format::leaving(frame), Relaxed);
                        leaf.leaving().set(leaf.leaving().get() + 1);
                        // SAFETY: it is locked, and not being flushed.
                        unsafe { leaf.begin_flush(None) };
                        return Ok(Step::Unshare(Shared { leaf, frame, attributes }));
                    }
                    protection = protection.without(Protection::WRITE);
                }
                frame
            }
            _ => {
                leaf.present().set(leaf.present().get() + 1);
                spare.page()
            }
        };
        // Release: who finds the frame finds zeros.
        entry.store(M::Format::page_or_parked(frame, protection), Release);
        Ok(Step::Done(Ok(())))
    }

    /// Gives a leaf that is locked its table.
    #[cold]
    pub(crate) fn add_table<'a>(
        &self,
        leaf: &'a Leaf,
        page: u64,
        spare: &mut Spare,
    ) -> Result<&'a crate::node::Table, Lack> {
        let frame = spare.table()?;
        // SAFETY: it has none, and the frame is zeroed and ours.
        unsafe { leaf.set_table(frame, table_at(self.machine, frame)) };
        let parent = leaf.above().expect("a leaf has a parent");
        let entries = parent.table().expect("branches have tables");
        // The entry of the parent's table belongs to who has the child's lock.
        entries[parent.slot(page)].store(M::Format::table(frame), Release);
        Ok(leaf.table().expect("it has one now"))
    }

    /// What may be done with a page; none if it is not mapped.
    pub fn query(&self, cpu: &Cpu<'m, M>, page: u64) -> Option<Protection> {
        self.check_cpu(cpu);
        if !self.pages().contains(page) {
            return None;
        }
        let pages = Pages::new(page, 1);
        let _guard = cpu.pin();
        let locked = self.lock_pages(pages);
        let found = match locked.top {
            // SAFETY: it is locked.
            Any::Leaf(leaf) => unsafe { leaf.with_codes(|codes| codes.get(leaf.slot(page))) },
            Any::Branch(branch) => branch.extents().and_then(|extents| extents.find(page)),
        };
        found.map(|attributes| attributes.protection)
    }

    /// Calls `with` with the root while all nodes are locked.
    #[cfg(feature = "std")]
    pub(crate) fn with_root_locked<R>(
        &self,
        cpu: &Cpu<'m, M>,
        with: impl FnOnce(&Branch) -> R,
    ) -> R {
        self.check_cpu(cpu);
        let _guard = cpu.pin();
        let _locked = self.lock_pages(self.pages());
        with(self.root())
    }

    /// Has other CPUs forget what they know of these pages.
    pub(crate) fn shoot_down(&self, cpu: &Cpu<'m, M>, pages: Flush) {
        // SAFETY: a `Cpu` stays on its CPU; the caller has no locks.
        unsafe { self.machine.shoot_down(cpu.number(), &self.active, self.number, pages) };
    }
}

/// Whether what is known of these pages ends in this branch: some of its extents have any, or not all
/// of them are in one child.
#[inline]
fn is_end(branch: &Branch, pages: Pages) -> bool {
    !branch.is_one_slot(pages)
        || branch.overlaps(pages)
        || branch.child(branch.slot(pages.start)).is_none()
}

/// Takes what is present of these pages out of the tables of a node that is locked and of those below.
fn take_below<M: Machine>(machine: &M, node: Any<'_>, pages: Pages, removal: &mut Removal) {
    match node {
        Any::Leaf(leaf) => removal.take(machine, leaf, pages),
        Any::Branch(branch) => {
            branch.children(pages).for_each(|child| take_below(machine, child, pages, removal));
        }
    }
}

/// A leaf that is being flushed, at a node that is locked or below.
#[inline]
fn flushing(node: Any<'_>, pages: Pages) -> Option<&Leaf> {
    match node {
        Any::Leaf(leaf) => leaf.is_flushing().then_some(leaf),
        Any::Branch(branch) => branch.children(pages).find_map(|child| flushing(child, pages)),
    }
}

/// Whether anything is mapped there, in a node that is locked or below.
fn is_used(node: Any<'_>, pages: Pages) -> bool {
    match node {
        // SAFETY: it is locked.
        Any::Leaf(leaf) => unsafe { leaf.with_codes(|codes| !codes.is_free(leaf.slots(pages))) },
        Any::Branch(branch) => {
            branch.overlaps(pages) || branch.children(pages).any(|child| is_used(child, pages))
        }
    }
}

/// How many of these pages are mapped, in a node that is locked and below.
pub(crate) fn mapped(node: Any<'_>, pages: Pages) -> u64 {
    match node {
        // SAFETY: it is locked.
        Any::Leaf(leaf) => unsafe {
            leaf.with_codes(|codes| codes.mapped(leaf.slots(pages)) as u64)
        },
        Any::Branch(branch) => {
            let extents = branch.extents().map_or(&[][..], |extents| extents.overlapping(pages));
            let own: u64 = extents.iter().map(|extent| extent.pages.and(pages).count()).sum();
            let below: u64 = branch.children(pages).map(|child| mapped(child, pages)).sum();
            own + below
        }
    }
}

/// How many lists a change of some pages may need, and the largest room of them.
#[derive(Debug, Default)]
struct Lists {
    count: usize,
    room: usize,
}

impl Lists {
    fn need(&mut self, room: usize) {
        self.count += 1;
        self.room = self.room.max(room);
    }

    /// Adds those of extents, of a node that is locked and of those below.
    fn count_extents(&mut self, node: Any<'_>, pages: Pages) {
        let Any::Branch(branch) = node else { return };
        if branch.overlaps(pages) {
            self.need(branch.extents().map_or(0, Extents::len) + 2);
        }
        branch.children(pages).for_each(|child| self.count_extents(child, pages));
    }

    /// Adds those of kinds, of a node that is locked and of those below.
    fn count_kinds(&mut self, node: Any<'_>, pages: Pages) {
        match node {
            Any::Leaf(leaf) => {
                // SAFETY: it is locked.
                let room = unsafe { leaf.with_codes(|codes| codes.lacks_room(codes.kinds())) };
                room.into_iter().for_each(|room| self.need(room));
            }
            Any::Branch(branch) => {
                branch.children(pages).for_each(|child| self.count_kinds(child, pages));
            }
        }
    }
}

/// Sees to it that there is room for so many more kinds.
#[inline]
fn make_room(codes: &mut Codes, more: usize, spare: &mut Spare) -> Result<(), Lack> {
    if let Some(room) = codes.lacks_room(more) {
        codes.make_room(spare.kinds(room)?);
    }
    Ok(())
}

#[inline]
fn map_leaf(
    leaf: &Leaf,
    pages: Pages,
    attributes: Attributes,
    spare: &mut Spare,
) -> Result<bool, Lack> {
    let slots = leaf.slots(pages);
    // SAFETY: it is locked.
    unsafe {
        leaf.with_codes(|codes| {
            if !codes.is_free(slots.clone()) {
                return Ok(false);
            }
            make_room(codes, 1, spare)?;
            codes.set(slots, attributes);
            Ok(true)
        })
    }
}

/// Changes what has these pages in a leaf that is locked.
fn change_leaf(
    leaf: &Leaf,
    spare: &mut Spare,
    pages: Pages,
    change: impl Fn(Attributes) -> Attributes,
) -> Result<(), Lack> {
    // SAFETY: it is locked.
    unsafe {
        leaf.with_codes(|codes| {
            make_room(codes, codes.kinds(), spare)?;
            codes.change(leaf.slots(pages), change);
            Ok(())
        })
    }
}

/// Changes the attributes of those of these pages that are in extents.
fn change_all(extents: &mut Extents, mut pages: Pages, change: impl Fn(Attributes) -> Attributes) {
    while !pages.is_empty()
        && let Some(first) = extents.overlapping(pages).first()
    {
        let (part, new) = (first.pages.and(pages), change(first.attributes));
        extents.set(part, Some(new));
        pages.start = part.end;
    }
}

/// Replaces the extents of a branch that is locked by a copy that `change` has changed, which adds so
/// many at most, and splits one or two.
fn change_extents(
    branch: &Branch,
    more: usize,
    spare: &mut Spare,
    change: impl FnOnce(&mut Extents),
) -> Result<(), Lack> {
    let old = branch.extents();
    let room = old.map_or(0, Extents::len) + more + 2;
    spare.has(1, room)?;
    let mut new = spare.extents(room)?;
    if let Some(old) = old {
        new.copy(old);
    }
    change(&mut new);
    // SAFETY: it is locked.
    let old = unsafe {
        if new.is_empty() {
            spare.keep(new);
            branch.publish(None)
        } else {
            branch.publish(Some(new))
        }
    };
    spare.retire(old);
    Ok(())
}

impl<M: Machine> Drop for Space<'_, M> {
    fn drop(&mut self) {
        if let Some(quota) = self.account.quota() {
            // Nobody uses the space any more, as if all of it was locked.
            let count = mapped(Any::Branch(self.root()), self.pages());
            quota.give_back_to_rest(count, self.machine.epoch().platform());
        }
        // SAFETY: nobody uses the space any more. Nodes were made by `Box`.
        unsafe { free_branch(self.machine, Box::from_raw(self.root.as_ptr())) };
    }
}

/// # Safety
/// Nobody uses the node or anything below.
unsafe fn free_branch<M: Machine>(machine: &M, branch: Box<Branch>) {
    for child in branch.children(branch.span()) {
        match child {
            Any::Branch(child) => {
                // SAFETY: it was made by a box, and the caller says that nobody uses it.
                unsafe {
                    free_branch(machine, Box::from_raw(core::ptr::from_ref(child).cast_mut()))
                }
            }
            Any::Leaf(leaf) => {
                for entry in leaf.table().into_iter().flatten() {
                    if let Entry::Page { frame, .. } | Entry::Parked(frame) =
                        M::Format::read(entry.load(Relaxed), 0)
                        && machine.note(frame).release()
                    {
                        // SAFETY: the caller says that nobody uses it, and no other entry has it.
                        unsafe { machine.free(&[frame]) };
                    }
                }
                if leaf.table().is_some() {
                    // SAFETY: as above.
                    unsafe { machine.free(&[leaf.table_frame()]) };
                }
                // SAFETY: as above.
                drop(unsafe { Box::from_raw(core::ptr::from_ref(leaf).cast_mut()) });
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        machine.free(&[branch.table_frame()]);
        if let Some(extents) = branch.publish(None) {
            drop(Box::from_raw(extents.as_ptr()));
        }
    }
}

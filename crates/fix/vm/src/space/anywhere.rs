//! Mapping at an address that the space chooses.

use crate::backing::Sharing;
use crate::cpu::Cpu;
use crate::error::MapError;
use crate::machine::Machine;
use crate::object::Object;
use crate::page::{Pages, Protection};
use crate::space::Space;
use crate::space::arena::{SLICE, place};
use crate::tree::node::NodeRef;
use crate::tree::query::first_mapped;

impl<'m, M: Machine> Space<'m, M> {
    /// Maps `count` pages of anonymous memory at unused addresses, and returns their range.
    ///
    /// The range reuses addresses that this CPU has unmapped, or lies far from ranges chosen on other
    /// CPUs, so CPUs do not contend while the space has room. The first 16 pages are never chosen.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// let pages = space.map_anywhere(&cpu, 4, Protection::READ_WRITE)?;
    /// assert_eq!(pages.count(), 4);
    /// cpu.store(&space, pages.start.address(), 42).unwrap();
    ///
    /// // Unmapped addresses are reused soon.
    /// space.unmap(&cpu, pages)?;
    /// assert_eq!(space.map_anywhere(&cpu, 4, Protection::READ)?, pages);
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    ///
    /// # Errors
    /// See [`MapError`]; [`MapError::NoAddressSpace`] if no gap is large enough.
    pub fn map_anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        protection: Protection,
    ) -> Result<Pages, MapError> {
        self.anywhere(cpu, count, |pages| self.map(cpu, pages, protection))
    }

    /// Maps `count` pages of `object`, starting with page `first` of the object, at unused addresses. Returns
    /// the range of these addresses. See [`map_anywhere`](Space::map_anywhere) and
    /// [`map_object`](Space::map_object).
    ///
    /// # Errors
    /// See [`MapError`].
    ///
    /// # Panics
    /// If `object` belongs to another machine.
    pub fn map_object_anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        object: &Object<'m, M>,
        first: u64,
        protection: Protection,
        sharing: Sharing,
    ) -> Result<Pages, MapError> {
        self.anywhere(cpu, count, |pages| {
            self.map_object(cpu, pages, object, first, protection, sharing)
        })
    }

    /// Maps a stack: `count` pages of anonymous memory, with `guards` [guard pages](Protection::GUARD) below
    /// and as many above. Returns the range without the guards. Guards are unmapped like any other pages: to
    /// free the stack, unmap `guards` more pages on each side.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{Fault, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// let stack = space.map_guarded(&cpu, 16, 1, Protection::READ_WRITE)?;
    /// let below = (stack.start - 1).address();
    /// assert_eq!(cpu.store(&space, below, 1), Err(Fault::Guard));
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    ///
    /// # Errors
    /// See [`MapError`]. If memory runs out, guard pages may stay mapped; they are not charged to the
    /// quota.
    pub fn map_guarded(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        guards: u64,
        protection: Protection,
    ) -> Result<Pages, MapError> {
        if count == 0 {
            return Err(MapError::Empty);
        }
        let all = guards.checked_mul(2).and_then(|guards| guards.checked_add(count));
        let within = |pages: Pages| Pages { start: pages.start + guards, end: pages.end - guards };
        let pages = self.anywhere(cpu, all.ok_or(MapError::NoAddressSpace)?, |pages| {
            let parts = [
                (Pages { end: pages.start + guards, ..pages }, Protection::GUARD),
                (Pages { start: pages.end - guards, ..pages }, Protection::GUARD),
                (within(pages), protection),
            ];
            for (place, (part, protection)) in parts.into_iter().enumerate() {
                if !part.is_empty()
                    && let Err(error) = self.map(cpu, part, protection)
                {
                    // Best effort: if memory runs out here as well, the guard pages stay mapped. They are
                    // not charged to the quota.
                    for (part, _) in parts[..place].iter().filter(|(part, _)| !part.is_empty()) {
                        let _ = self.unmap(cpu, *part);
                    }
                    return Err(error);
                }
            }
            Ok(())
        })?;
        Ok(within(pages))
    }

    /// Finds `count` unused pages, and calls `map` to map them. Tries another range if the pages turn out to
    /// be occupied.
    pub(crate) fn anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        mut map: impl FnMut(Pages) -> Result<(), MapError>,
    ) -> Result<Pages, MapError> {
        self.check_cpu(cpu);
        if count == 0 {
            return Err(MapError::Empty);
        }
        if count > self.arenas.window().count() {
            return Err(MapError::NoAddressSpace);
        }
        loop {
            let range = self.candidate(cpu, count).or_else(|| self.first_fit(cpu, count));
            let range = range.ok_or(MapError::NoAddressSpace)?;
            if let Some(pages) = self.map_within(cpu, range, count, &mut map)? {
                return Ok(pages);
            }
        }
    }

    /// Takes a range from this CPU's arena, or takes new slices. The range is probably free.
    #[inline]
    fn candidate(&self, cpu: &Cpu<'m, M>, count: u64) -> Option<Pages> {
        // SAFETY: `anywhere` has checked that the CPU belongs to the space's machine.
        let found = unsafe { self.arenas.with(cpu, |arena| arena.take(count)) };
        // SAFETY: `anywhere` has checked the CPU.
        let joined = || unsafe { self.arenas.with(cpu, |arena| arena.take_joined(count)) };
        found.or_else(joined).or_else(|| self.arenas.slices(count))
    }

    /// Maps `count` pages in `range`, and gives the rest of `range` back to the CPU's arena. If a mapping at
    /// a fixed address occupies some of the pages, gives back only the gaps in `range`, and returns `None`.
    #[inline]
    fn map_within(
        &self,
        cpu: &Cpu<'m, M>,
        range: Pages,
        count: u64,
        map: impl FnOnce(Pages) -> Result<(), MapError>,
    ) -> Result<Option<Pages>, MapError> {
        let pages = place(range, count);
        match map(pages) {
            Ok(()) => {
                self.give(cpu, Pages { start: range.start, end: pages.start });
                self.give(cpu, Pages { start: pages.end, end: range.end });
                Ok(Some(pages))
            }
            Err(MapError::Occupied) => {
                let mut rest = range;
                while let Some(gap) = self.next_gap(cpu, &mut rest) {
                    self.give(cpu, gap);
                }
                Ok(None)
            }
            Err(error) => {
                self.give(cpu, range);
                Err(error)
            }
        }
    }

    /// Gives a range back to the CPU's arena.
    #[inline]
    fn give(&self, cpu: &Cpu<'m, M>, range: Pages) {
        if !range.is_empty() {
            // SAFETY: the callers have checked that the CPU belongs to the space's machine.
            unsafe { self.arenas.with(cpu, |arena| arena.give(range)) };
        }
    }

    /// Gives this CPU's arena the addresses that the CPU has unmapped, so that they can be reused. All CPUs
    /// must have flushed `pages`. `mapped` is the number of these pages that had been mapped. If `mapped` is
    /// 0, the arena does not get the range. So if a caller unmapped only guards, it passes 1.
    #[inline]
    pub(crate) fn give_range(&self, cpu: &Cpu<'m, M>, pages: Pages, mapped: u64) {
        let pages = self.arenas.sliced(pages);
        // Some programs unmap a large, sparse range just to make sure that nothing is mapped there. Other
        // arenas may list addresses of this range, so this arena does not list the range.
        let is_whole = mapped > 0 && (pages.count() <= SLICE || mapped >= pages.count());
        if is_whole {
            self.give(cpu, pages);
        }
    }

    /// The first gap of at least `count` pages. A gap that is longer than a slice is cut to one slice, or to
    /// `count` pages if `count` exceeds a slice. The result is only a hint: other CPUs may map there before
    /// the caller does.
    #[cold]
    fn first_fit(&self, cpu: &Cpu<'m, M>, count: u64) -> Option<Pages> {
        let mut rest = self.arenas.window();
        loop {
            let gap = self.next_gap(cpu, &mut rest)?;
            if gap.count() >= count {
                return Some(Pages::new(gap.start, gap.count().min(count.max(SLICE))));
            }
        }
    }

    /// The first gap in `rest`, or `None`. Advances `rest` past the gap and past the mapping that ends the
    /// gap.
    #[cold]
    fn next_gap(&self, cpu: &Cpu<'m, M>, rest: &mut Pages) -> Option<Pages> {
        let mut gap = Pages::new(rest.start, 0);
        while gap.is_empty() && !rest.is_empty() {
            let used = {
                let _guard = cpu.pin();
                first_mapped(NodeRef::Branch(self.tree().root()), *rest, cpu.platform())
            };
            gap = Pages { start: rest.start, end: used.map_or(rest.end, |used| used.start) };
            rest.start = used.map_or(rest.end, |used| used.end);
        }
        (!gap.is_empty()).then_some(gap)
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::hosted::Hosted;
    use crate::page::Page;

    proptest! {
        /// All mappings begin in the first three leaves. A mapping that spans several leaves is recorded in
        /// the branch above them, so the search has to combine mappings of the branch with mappings of its
        /// leaves.
        #[test]
        fn gaps_cover_exactly_the_unmapped_pages(
            changes in prop::collection::vec(((0_u64..1500).prop_map(Page), 1_u64..300, any::<bool>()), 1..30),
            start in (0_u64..1500).prop_map(Page),
            count in 1_u64..if cfg!(miri) { 100 } else { 1500 },
        ) {
            let machine = Hosted::new(64, 1);
            let cpu = machine.cpu(0);
            let space = Space::new(&cpu).unwrap();
            for (start, count, is_map) in changes {
                // If the range is occupied, `map` fails and changes nothing.
                let _ = match is_map {
                    true => space.map(&cpu, Pages::new(start, count), Protection::READ),
                    false => space.unmap(&cpu, Pages::new(start, count)),
                };
            }
            let mut rest = Pages::new(start, count);
            let mut mapped = Pages::new(start, 0);
            while let Some(gap) = space.next_gap(&cpu, &mut rest) {
                mapped.end = gap.start;
                prop_assert!(!gap.is_empty() && gap.end <= start + count);
                prop_assert!(mapped.iter().all(|page| space.query(&cpu, page).is_some()));
                prop_assert!(gap.iter().all(|page| space.query(&cpu, page).is_none()));
                mapped.start = gap.end;
            }
            mapped.end = start + count;
            prop_assert!(mapped.iter().all(|page| space.query(&cpu, page).is_some()));
        }
    }
}

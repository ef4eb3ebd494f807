//! To map where there is room.

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
    /// Maps so many pages of the space's own memory where nothing is mapped, and says where.
    ///
    /// They are where the CPU has unmapped before, or away from those that other CPUs map this way: CPUs
    /// share nothing as long as the space has room. They are not among the first 16 pages.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{PAGE, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// let pages = space.map_anywhere(&cpu, 4, Protection::READ_WRITE)?;
    /// assert_eq!(pages.count(), 4);
    /// cpu.store(&space, pages.start * PAGE as u64, 42).unwrap();
    ///
    /// // What is unmapped is mapped again soon.
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

    /// Maps so many pages of an object from page `first` on where nothing is mapped, and says where: as
    /// [`map_anywhere`](Space::map_anywhere) and [`map_object`](Space::map_object).
    ///
    /// # Errors
    /// See [`MapError`].
    ///
    /// # Panics
    /// If the object is of another machine.
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

    /// Maps so many pages of the space's own memory with as many [guards](Protection::GUARD) as said before and
    /// after, and says where, without the guards: a stack. They are unmapped as any pages are: who gives the stack
    /// back unmaps as many more on each side.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{Fault, PAGE, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// let stack = space.map_guarded(&cpu, 16, 1, Protection::READ_WRITE)?;
    /// let below = (stack.start - 1) * PAGE as u64;
    /// assert_eq!(cpu.store(&space, below, 1), Err(Fault::Guard));
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    ///
    /// # Errors
    /// See [`MapError`]. Where memory ends guards may stay mapped, for which nobody is charged.
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
                    // If there is no memory for that either, a guard stays, which costs nothing.
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

    /// Finds so many pages where nothing is mapped, for `map` to map them.
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

    /// A range that is probably free, and is in no list any more.
    #[inline]
    fn candidate(&self, cpu: &Cpu<'m, M>, count: u64) -> Option<Pages> {
        // SAFETY: the CPU was checked.
        let found = unsafe { self.arenas.with(cpu, |arena| arena.take(count)) };
        // SAFETY: as above.
        let joined = || unsafe { self.arenas.with(cpu, |arena| arena.take_joined(count)) };
        found.or_else(joined).or_else(|| self.arenas.slices(count))
    }

    /// Maps pages in a range that has room, and gives what is left to the CPU's arena. None if somebody has
    /// mapped something there, who did not ask us where: the arena has the gaps then.
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

    /// Puts a range into the CPU's lists.
    #[inline]
    fn give(&self, cpu: &Cpu<'m, M>, range: Pages) {
        if !range.is_empty() {
            // SAFETY: the CPU was checked.
            unsafe { self.arenas.with(cpu, |arena| arena.give(range)) };
        }
    }

    /// These pages have been unmapped on this CPU, and no CPU can go there any more. So many of them were
    /// mapped; of guards one will do.
    #[inline]
    pub(crate) fn give_range(&self, cpu: &Cpu<'m, M>, pages: Pages, mapped: u64) {
        let pages = self.arenas.sliced(pages);
        // Who unmaps large parts of the space to be sure that nothing is there unmaps what other arenas
        // have in their lists.
        let is_whole = mapped > 0 && (pages.count() <= SLICE || mapped >= pages.count());
        if is_whole {
            self.give(cpu, pages);
        }
    }

    /// The first gap of the space that has room for so many pages, and a slice of it at most if that is
    /// enough. Others may change it before the caller comes to use it.
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

    /// The first of these pages that are not mapped, up to the next that are; takes both and all before
    /// out of `rest`.
    #[cold]
    fn next_gap(&self, cpu: &Cpu<'m, M>, rest: &mut Pages) -> Option<Pages> {
        let mut gap = Pages { start: 0, end: 0 };
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

    proptest! {
        /// Pages of three leaves: what is mapped in two or more is in the branch above, between what is in
        /// leaves.
        #[test]
        fn gaps_are_what_is_not_mapped(
            changes in prop::collection::vec((0_u64..1500, 1_u64..300, any::<bool>()), 1..30),
            start in 0_u64..1500,
            count in 1_u64..if cfg!(miri) { 100 } else { 1500 },
        ) {
            let machine = Hosted::new(64, 1);
            let cpu = machine.cpu(0);
            let space = Space::new(&cpu).unwrap();
            for (start, count, is_map) in changes {
                // What is mapped already stays.
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
                prop_assert!((mapped.start..mapped.end).all(|page| space.query(&cpu, page).is_some()));
                prop_assert!((gap.start..gap.end).all(|page| space.query(&cpu, page).is_none()));
                mapped.start = gap.end;
            }
            mapped.end = start + count;
            prop_assert!((mapped.start..mapped.end).all(|page| space.query(&cpu, page).is_some()));
        }
    }
}

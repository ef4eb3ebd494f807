//! What is mapped in the pages of one table.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use crate::page::ENTRIES;
use crate::tree::attributes::Attributes;

/// The code of a page where nothing is mapped.
const NOTHING: u16 = 0;

/// A code for each page, in two bytes: to change a run of pages is to write them, and to look at one is
/// a load. In a table of 512 pages that is faster than any list of runs, and a quarter of the table's
/// own size.
#[derive(Debug)]
pub(crate) struct Codes {
    codes: [u16; ENTRIES],
    /// How many pages are mapped: tables stay when all of theirs are unmapped, and to look at one should
    /// cost nothing then.
    mapped: usize,
    /// Of code `n` at place `n - 1`. It is written when a kind is new: nobody counts the pages of a kind, as
    /// counts of two tables may be in one line.
    kinds: Kinds,
}

/// The attributes that codes stand for.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Vec<Attributes>);

impl Kinds {
    /// None, with room for so many.
    pub(crate) fn with_room(room: usize) -> Result<Kinds, TryReserveError> {
        let mut kinds = Vec::new();
        kinds.try_reserve_exact(room)?;
        Ok(Kinds(kinds))
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl Codes {
    pub(crate) const fn new() -> Codes {
        Codes { codes: [NOTHING; ENTRIES], mapped: 0, kinds: Kinds(Vec::new()) }
    }

    /// What is mapped.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<Attributes> {
        let code = usize::from(self.codes[slot]);
        Some(self.kinds.0[code.checked_sub(1)?])
    }

    /// The same in other memory, which has [room](Codes::kinds) for it, of what `change` makes of each kind.
    pub(crate) fn copy(
        &self,
        mut kinds: Kinds,
        change: impl FnMut(Attributes) -> Attributes,
    ) -> Codes {
        debug_assert!(kinds.0.is_empty() && kinds.capacity() >= self.kinds());
        kinds.0.extend(self.kinds.0.iter().copied().map(change));
        Codes { codes: self.codes, mapped: self.mapped, kinds }
    }

    /// How many kinds there are, some of which no page may have.
    pub(crate) fn kinds(&self) -> usize {
        self.kinds.0.len()
    }

    /// Whether nothing is mapped in any of these.
    #[inline]
    pub(crate) fn is_free(&self, slots: Range<usize>) -> bool {
        self.mapped == 0 || self.codes[slots].iter().all(|&code| code == NOTHING)
    }

    /// How many of these are mapped, and no guards.
    pub(crate) fn mapped(&self, slots: Range<usize>) -> usize {
        if self.mapped == 0 {
            return 0;
        }
        let guard = |kind: &Attributes| kind.is_guard();
        let guard = self.kinds.0.iter().position(guard).map_or(NOTHING, |place| place as u16 + 1);
        self.codes[slots].iter().filter(|&&code| code != NOTHING && code != guard).count()
    }

    /// The room of kinds that is needed before so many more can be added; none if there is enough.
    #[inline]
    pub(crate) fn lacks_room(&mut self, more: usize) -> Option<usize> {
        if self.has_room(more) { None } else { self.still_lacks_room(more) }
    }

    #[inline]
    fn has_room(&self, more: usize) -> bool {
        self.kinds.0.capacity() - self.kinds.0.len() >= more
    }

    /// Forgets kinds that no page has, and looks again.
    #[cold]
    fn still_lacks_room(&mut self, more: usize) -> Option<usize> {
        self.forget_unused();
        let kept = self.kinds();
        let room = (2 * kept).max(kept + more).max(4);
        (!self.has_room(more)).then_some(room)
    }

    /// The kinds, of each of which there is a page.
    pub(crate) fn used_kinds(&mut self) -> &[Attributes] {
        self.forget_unused();
        &self.kinds.0
    }

    /// Whether no page is of an object, or a guard.
    #[inline]
    pub(crate) fn are_plain(&self) -> bool {
        self.kinds.0.iter().all(|kind| kind.backing.is_none() && !kind.is_guard())
    }

    /// What the first of these is, and how many are the same from there on.
    pub(crate) fn run(&self, slots: Range<usize>) -> Option<(Attributes, usize)> {
        let attributes = self.get(slots.start)?;
        let code = self.codes[slots.start];
        Some((attributes, self.codes[slots].iter().take_while(|&&other| other == code).count()))
    }

    /// Calls `with` for each run of these that are mapped, with its length.
    pub(crate) fn for_each_run(
        &self,
        slots: Range<usize>,
        mut with: impl FnMut(Attributes, usize),
    ) {
        for run in self.codes[slots].chunk_by(|one, other| one == other) {
            if let Some(kind) = usize::from(run[0]).checked_sub(1) {
                with(self.kinds.0[kind], run.len());
            }
        }
    }

    fn forget_unused(&mut self) {
        let kinds = &mut self.kinds.0;
        let mut kept = 0;
        for place in 0..kinds.len() {
            let (old, new) = (place as u16 + 1, kept as u16 + 1);
            let mut is_used = false;
            for code in self.codes.iter_mut().filter(|code| **code == old) {
                *code = new;
                is_used = true;
            }
            if is_used {
                kinds.swap(kept, place);
                kept += 1;
            }
        }
        kinds.truncate(kept);
    }

    /// Uses other memory, with more room; returns the old.
    pub(crate) fn make_room(&mut self, mut kinds: Kinds) -> Kinds {
        debug_assert!(kinds.0.is_empty() && kinds.capacity() >= self.kinds.0.len());
        kinds.0.extend_from_slice(&self.kinds.0);
        let mut old = mem::replace(&mut self.kinds, kinds);
        old.0.clear();
        old
    }

    /// Maps these, where nothing is mapped. There is room for a kind.
    #[inline]
    pub(crate) fn set(&mut self, slots: Range<usize>, attributes: Attributes) {
        let code = self.code(attributes);
        self.mapped += slots.len();
        self.codes[slots].fill(code);
    }

    /// The code of these attributes.
    #[inline]
    fn code(&mut self, attributes: Attributes) -> u16 {
        let kinds = &mut self.kinds.0;
        let place = kinds.iter().position(|&kind| kind == attributes).unwrap_or_else(|| {
            debug_assert!(kinds.len() < kinds.capacity(), "there is room");
            kinds.push(attributes);
            kinds.len() - 1
        });
        place as u16 + 1
    }

    /// Unmaps these; returns how many were mapped.
    #[inline]
    pub(crate) fn clear(&mut self, slots: Range<usize>) -> usize {
        if self.mapped == 0 {
            return 0;
        }
        let codes = &mut self.codes[slots];
        let count = codes.iter().filter(|&&code| code != NOTHING).count();
        codes.fill(NOTHING);
        self.mapped -= count;
        count
    }

    /// Changes what is mapped in these; there is [room](Codes::lacks_room) for as many
    /// [kinds](Codes::kinds) more.
    pub(crate) fn change(
        &mut self,
        slots: Range<usize>,
        change: impl Fn(Attributes) -> Attributes,
    ) {
        let mut next = slots.start;
        while next < slots.end {
            let (first, code) = (next, self.codes[next]);
            let run = self.codes[first..slots.end].iter().take_while(|&&other| other == code);
            next += run.count();
            if let Some(old) = self.get(first) {
                self.clear(first..next);
                self.set(first..next, change(old));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::page::Protection;

    const KINDS: [Protection; 4] =
        [Protection::NONE, Protection::READ, Protection::WRITE, Protection::EXECUTE];

    fn room(codes: &mut Codes, lacks: Option<usize>) {
        if let Some(room) = lacks {
            codes.make_room(Kinds::with_room(room).unwrap());
        }
    }

    proptest! {
        #[test]
        fn they_are_what_an_array_of_attributes_is(
            changes in prop::collection::vec((0_usize..40, 1_usize..12, 0_usize..4, 0_u8..3), 1..80)
        ) {
            let mut codes = Codes::new();
            let mut array = [None; 64];
            for (start, count, kind, operation) in changes {
                let slots = start..start + count;
                let attributes = Attributes::anonymous(KINDS[kind]);
                prop_assert_eq!(codes.is_free(slots.clone()), array[slots.clone()] == vec![None; count]);
                match operation {
                    0 => {
                        codes.clear(slots.clone());
                        let lacks = codes.lacks_room(1);
                        room(&mut codes, lacks);
                        codes.set(slots.clone(), attributes);
                        array[slots].fill(Some(attributes));
                    }
                    1 => {
                        codes.clear(slots.clone());
                        array[slots].fill(None);
                    }
                    _ => {
                        let next = |old: Attributes| {
                            let place = KINDS.iter().position(|&kind| kind == old.protection);
                            Attributes::anonymous(KINDS[(place.unwrap() + 1) % 4])
                        };
                        let lacks = codes.lacks_room(codes.kinds());
                        room(&mut codes, lacks);
                        codes.change(slots.clone(), next);
                        array[slots].iter_mut().for_each(|old| *old = old.map(next));
                    }
                }
                for (slot, attributes) in array.iter().enumerate() {
                    prop_assert_eq!(codes.get(slot), *attributes);
                }
                prop_assert_eq!(codes.mapped(0..64), array.iter().flatten().count());
            }
        }
    }
}

//! The attributes of the pages of one leaf.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use crate::page::ENTRIES;
use crate::tree::attributes::Attributes;

/// The code of an unmapped page.
const NOTHING: u16 = 0;

/// The state of each page, as a two-byte index into a palette of attributes. Changing a run of pages fills a
/// part of the array, and querying a page is one load. For 512 pages this is faster than a list of runs, and
/// takes a quarter of the memory of the page table.
#[derive(Debug)]
pub(crate) struct PageStates {
    states: [u16; ENTRIES],
    /// Number of mapped pages. While this number is 0, queries need not scan `states`. Leaves without mapped
    /// pages are common, because a leaf often stays in the tree after its last page is unmapped.
    mapped: usize,
    /// Code `n` stands for the attributes at index `n - 1`. The palette is written only when attributes are
    /// new. Attributes have no reference counts: every change of a page would have to write to such a count,
    /// and the palettes of two leaves might share a cache line.
    palette: StatePalette,
}

/// The distinct attributes of a leaf's pages.
#[derive(Debug, Default)]
pub(crate) struct StatePalette(Vec<Attributes>);

impl StatePalette {
    /// An empty palette with room for `room` attributes.
    pub(crate) fn with_room(room: usize) -> Result<StatePalette, TryReserveError> {
        let mut states = Vec::new();
        states.try_reserve_exact(room)?;
        Ok(StatePalette(states))
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

/// Whether the pages of a leaf are alike.
pub(crate) enum Uniform {
    /// All are unmapped.
    Free,
    /// All are mapped with these attributes.
    Mapped(Attributes),
    /// They differ.
    Mixed,
}

impl PageStates {
    pub(crate) const fn new() -> PageStates {
        PageStates { states: [NOTHING; ENTRIES], mapped: 0, palette: StatePalette(Vec::new()) }
    }

    /// The attributes of the page, or `None` if it is unmapped.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<Attributes> {
        let code = usize::from(self.states[slot]);
        Some(self.palette.0[code.checked_sub(1)?])
    }

    /// Whether the pages are alike.
    pub(crate) fn uniform(&self) -> Uniform {
        match self.mapped {
            0 => Uniform::Free,
            // The common case needs no scan: the palette has one item.
            ENTRIES
                if self.palette_len() == 1
                    || self.states.iter().all(|&code| code == self.states[0]) =>
            {
                self.get(0).map_or(Uniform::Free, Uniform::Mapped)
            }
            _ => Uniform::Mixed,
        }
    }

    /// A copy in which `change` is applied to all attributes. The copy uses `palette`, whose capacity must
    /// be at least [`palette_len`](PageStates::palette_len).
    pub(crate) fn copy(
        &self,
        mut palette: StatePalette,
        change: impl FnMut(Attributes) -> Attributes,
    ) -> PageStates {
        debug_assert!(palette.0.is_empty() && palette.capacity() >= self.palette_len());
        palette.0.extend(self.palette.0.iter().copied().map(change));
        PageStates { states: self.states, mapped: self.mapped, palette }
    }

    /// Number of attributes in the palette, including unused ones.
    pub(crate) fn palette_len(&self) -> usize {
        self.palette.0.len()
    }

    /// Whether all of these pages are unmapped.
    #[inline]
    pub(crate) fn is_free(&self, slots: Range<usize>) -> bool {
        self.mapped == 0 || self.states[slots].iter().all(|&code| code == NOTHING)
    }

    /// Number of these pages that are mapped and are not guards.
    pub(crate) fn mapped(&self, slots: Range<usize>) -> usize {
        if self.mapped == 0 {
            return 0;
        }
        let guard = |kind: &Attributes| kind.is_guard();
        let guard = self.palette.0.iter().position(guard).map_or(NOTHING, |place| place as u16 + 1);
        self.states[slots].iter().filter(|&&code| code != NOTHING && code != guard).count()
    }

    /// The capacity that a new palette needs before `more` attributes can be added, or `None` if the
    /// current one has room.
    #[inline]
    pub(crate) fn room_needed(&mut self, more: usize) -> Option<usize> {
        if self.has_room(more) { None } else { self.room_needed_slowly(more) }
    }

    #[inline]
    fn has_room(&self, more: usize) -> bool {
        self.palette.0.capacity() - self.palette.0.len() >= more
    }

    /// Like `room_needed`, but removes unused attributes first.
    #[cold]
    fn room_needed_slowly(&mut self, more: usize) -> Option<usize> {
        self.forget_unused();
        let kept = self.palette_len();
        let room = (2 * kept).max(kept + more).max(4);
        (!self.has_room(more)).then_some(room)
    }

    /// The distinct attributes of all mapped pages.
    pub(crate) fn used_states(&mut self) -> &[Attributes] {
        self.forget_unused();
        &self.palette.0
    }

    /// If the result is true, no page has a backing or is a guard. If the palette contains attributes that no
    /// page uses any more, the result may be false although no page has a backing or is a guard.
    #[inline]
    pub(crate) fn are_plain(&self) -> bool {
        self.palette.0.iter().all(|kind| kind.backing.is_none() && !kind.is_guard())
    }

    /// The attributes of the first of these pages, and the length of the run of pages with these attributes
    /// that begins there.
    pub(crate) fn run(&self, slots: Range<usize>) -> Option<(Attributes, usize)> {
        let attributes = self.get(slots.start)?;
        let code = self.states[slots.start];
        Some((attributes, self.states[slots].iter().take_while(|&&other| other == code).count()))
    }

    /// Calls `with` for each run of mapped pages, with its attributes and length.
    pub(crate) fn for_each_run(
        &self,
        slots: Range<usize>,
        mut with: impl FnMut(Attributes, usize),
    ) {
        for run in self.states[slots].chunk_by(|one, other| one == other) {
            if let Some(kind) = usize::from(run[0]).checked_sub(1) {
                with(self.palette.0[kind], run.len());
            }
        }
    }

    fn forget_unused(&mut self) {
        let palette = &mut self.palette.0;
        let mut kept = 0;
        for place in 0..palette.len() {
            let (old, new) = (place as u16 + 1, kept as u16 + 1);
            let mut is_used = false;
            for code in self.states.iter_mut().filter(|code| **code == old) {
                *code = new;
                is_used = true;
            }
            if is_used {
                palette.swap(kept, place);
                kept += 1;
            }
        }
        palette.truncate(kept);
    }

    /// Moves the attributes to a palette with a larger capacity. Returns the old palette, emptied.
    pub(crate) fn make_room(&mut self, mut palette: StatePalette) -> StatePalette {
        debug_assert!(palette.0.is_empty() && palette.capacity() >= self.palette.0.len());
        palette.0.extend_from_slice(&self.palette.0);
        let mut old = mem::replace(&mut self.palette, palette);
        old.0.clear();
        old
    }

    /// Maps these pages, all of which must be unmapped. The palette must have room for these attributes.
    #[inline]
    pub(crate) fn set(&mut self, slots: Range<usize>, attributes: Attributes) {
        let code = self.code(attributes);
        self.mapped += slots.len();
        self.states[slots].fill(code);
    }

    /// The code of these attributes, which are added to the palette if they are new.
    #[inline]
    fn code(&mut self, attributes: Attributes) -> u16 {
        let palette = &mut self.palette.0;
        let place = palette.iter().position(|&kind| kind == attributes).unwrap_or_else(|| {
            debug_assert!(palette.len() < palette.capacity(), "the caller has reserved room");
            palette.push(attributes);
            palette.len() - 1
        });
        place as u16 + 1
    }

    /// Unmaps these pages, and returns how many of them were mapped.
    #[inline]
    pub(crate) fn clear(&mut self, slots: Range<usize>) -> usize {
        if self.mapped == 0 {
            return 0;
        }
        let states = &mut self.states[slots];
        let count = match states.len() {
            ENTRIES => self.mapped,
            _ => states.iter().filter(|&&code| code != NOTHING).count(),
        };
        states.fill(NOTHING);
        self.mapped -= count;
        count
    }

    /// Changes the attributes of the mapped pages among these pages. The palette must have
    /// [room](PageStates::room_needed) for [as many new attributes as it has now](PageStates::palette_len).
    pub(crate) fn change(
        &mut self,
        slots: Range<usize>,
        change: impl Fn(Attributes) -> Attributes,
    ) {
        let mut next = slots.start;
        while next < slots.end {
            let (first, code) = (next, self.states[next]);
            let run = self.states[first..slots.end].iter().take_while(|&&other| other == code);
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

    fn room(states: &mut PageStates, lacks: Option<usize>) {
        if let Some(room) = lacks {
            states.make_room(StatePalette::with_room(room).unwrap());
        }
    }

    proptest! {
        #[test]
        fn page_states_agree_with_an_array_of_attributes(
            changes in prop::collection::vec((0_usize..40, 1_usize..12, 0_usize..4, 0_u8..3), 1..80)
        ) {
            let mut states = PageStates::new();
            let mut array = [None; 64];
            for (start, count, kind, operation) in changes {
                let slots = start..start + count;
                let attributes = Attributes::anonymous(KINDS[kind]);
                prop_assert_eq!(states.is_free(slots.clone()), array[slots.clone()] == vec![None; count]);
                match operation {
                    0 => {
                        states.clear(slots.clone());
                        let lacks = states.room_needed(1);
                        room(&mut states, lacks);
                        states.set(slots.clone(), attributes);
                        array[slots].fill(Some(attributes));
                    }
                    1 => {
                        states.clear(slots.clone());
                        array[slots].fill(None);
                    }
                    _ => {
                        let next = |old: Attributes| {
                            let place = KINDS.iter().position(|&kind| kind == old.protection);
                            Attributes::anonymous(KINDS[(place.unwrap() + 1) % 4])
                        };
                        let lacks = states.room_needed(states.palette_len());
                        room(&mut states, lacks);
                        states.change(slots.clone(), next);
                        array[slots].iter_mut().for_each(|old| *old = old.map(next));
                    }
                }
                for (slot, attributes) in array.iter().enumerate() {
                    prop_assert_eq!(states.get(slot), *attributes);
                }
                prop_assert_eq!(states.mapped(0..64), array.iter().flatten().count());
            }
        }
    }
}

//! The reverse map: from a frame to its mappings.

use std::fmt::Debug;
use std::sync::Arc;

use knee_sync::Platform;
use knee_sync::epoch::Guard;
use knee_vm::{Cpu, Frame, Machine, OutOfMemory, Page, Pages};

use super::frames::Frames;
use super::pmap::Pmap;
use super::reverse_state::ReverseState;
use crate::invalidation::Stamp;

/// A reverse map: finds the page-table entries that map a frame.
pub trait Reverse: ReverseState {
    /// The state that a reverse map keeps for a map entry.
    type Backing: Backing<Self>;

    /// Creates the backing of a map entry for these pages.
    fn back(pmap: &Arc<Pmap<Self>>, pages: Pages) -> Self::Backing;

    /// Reserves the memory that the next [`insert`](Reverse::insert) or [`share`](Reverse::share) needs.
    ///
    /// # Errors
    /// If no frame is free.
    fn reserve<'m, M: Machine>(
        frames: &Frames<'m, M, Self>,
        cpu: &Cpu<'m, M>,
        pmap: &Pmap<Self>,
        space: &mut Self::OfSpace,
    ) -> Result<(), OutOfMemory>;

    /// Adds the first mapping of a frame, before the page-table entry is written. The caller has called
    /// [`reserve`](Reverse::reserve).
    fn insert<M: Machine>(
        frames: &Frames<'_, M, Self>,
        of: Mapping<'_, Self>,
        frame: Frame,
        backing: &Self::Backing,
    );

    /// Adds a mapping of a frame that already has another mapping. The caller prevents the removal of that
    /// other mapping.
    fn share<M: Machine>(frames: &Frames<'_, M, Self>, of: Mapping<'_, Self>, frame: Frame);

    /// Removes a mapping of a frame, after the page-table entry was cleared. If other threads may have to
    /// wait for the flush, calls `mark` under the lock of the frame's bucket. Calls `free` with each frame
    /// that contained only structures of the reverse map and is no longer needed. Returns whether the removed
    /// mapping was the frame's last.
    fn remove<M: Machine>(
        frames: &Frames<'_, M, Self>,
        of: Mapping<'_, Self>,
        frame: Frame,
        mark: impl FnOnce(&Stamp),
        free: impl FnMut(Frame),
    ) -> bool;

    /// Passes to `with` the space number and the page of each mapping of a frame. May miss mappings that are
    /// added concurrently, and may pass mappings that are removed concurrently.
    fn for_mappings<M: Machine>(
        frames: &Frames<'_, M, Self>,
        cpu: &Cpu<'_, M>,
        frame: Frame,
        with: impl FnMut(u64, Page),
    );
}

/// The backing of a map entry. Entries that are split from one entry share a backing.
pub trait Backing<R: Reverse>: Debug + Clone + Send + Sync {
    /// Returns whether two entries share a backing.
    fn is_same(&self, other: &Self) -> bool;

    /// Extends the backing to these pages if possible. Returns whether the backing was extended.
    fn extend(&self, pages: Pages) -> bool;

    /// Called when a fork copies a map entry: returns the backing of the copy.
    fn fork(&self, pmap: &Arc<Pmap<R>>) -> Self;

    /// Drops an entry's reference to the backing, after the frames of the entry's pages were removed.
    fn end(self, guard: &Guard<'_, impl Platform>);
}

/// A mapping: the page-table entry of one page in one space.
#[derive(Debug)]
pub struct Mapping<'a, R: Reverse> {
    pub(super) pmap: &'a Pmap<R>,
    pub(super) space: &'a mut R::OfSpace,
    pub(super) page: Page,
}

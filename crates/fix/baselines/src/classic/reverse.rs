//! From a frame to where it is mapped.

use std::fmt::Debug;
use std::sync::Arc;

use knee_vm::{Cpu, Frame, Machine, OutOfMemory, Page, Pages};

use crate::invalidation::Stamp;

use super::backing::Backing;
use super::frames::Frames;
use super::pmap::Pmap;

/// How to find the entries of tables that have a frame.
pub trait Reverse: Debug + Sized + Send + Sync + 'static {
    /// Whether one lock guards all tables of a space, or each its own.
    const ONE_LOCK: bool;
    /// What is kept for each frame.
    type OfFrame: Debug + Default + Send + Sync;
    /// What is kept for each space, under its one lock.
    type OfSpace: Debug + Default + Send;
    /// What is kept for each entry of a map.
    type Backing: Backing<Self>;

    /// What is behind pages that are mapped.
    fn back(pmap: &Arc<Pmap<Self>>, pages: Pages) -> Self::Backing;

    /// Sees to it that a mapping can be added.
    ///
    /// # Errors
    /// There is no frame.
    fn reserve<'m, M: Machine>(
        frames: &Frames<'m, M, Self>,
        cpu: &Cpu<'m, M>,
        pmap: &Pmap<Self>,
        space: &mut Self::OfSpace,
    ) -> Result<(), OutOfMemory>;

    /// An entry of a table is about to have this frame, which no other has. There is room.
    fn insert<M: Machine>(
        frames: &Frames<'_, M, Self>,
        of: Mapping<'_, Self>,
        frame: Frame,
        backing: &Self::Backing,
    );

    /// The same for a frame that others have, which the caller keeps there.
    fn share<M: Machine>(frames: &Frames<'_, M, Self>, of: Mapping<'_, Self>, frame: Frame);

    /// An entry of a table has this frame no more. `mark` is called while the frame's bucket is locked,
    /// if others may have to wait for that. `free` is called with frames that are not needed any more.
    /// Whether no other entry has the frame.
    fn remove<M: Machine>(
        frames: &Frames<'_, M, Self>,
        of: Mapping<'_, Self>,
        frame: Frame,
        mark: impl FnOnce(&Stamp),
        free: impl FnMut(Frame),
    ) -> bool;

    /// Calls `with` with the number of the space and the page for each entry of a table that has a
    /// frame: with all, if nobody changes that meanwhile.
    fn for_mappings<M: Machine>(
        frames: &Frames<'_, M, Self>,
        cpu: &Cpu<'_, M>,
        frame: Frame,
        with: impl FnMut(u64, Page),
    );
}

/// An entry of a table.
#[derive(Debug)]
pub struct Mapping<'a, R: Reverse> {
    pub(super) pmap: &'a Pmap<R>,
    pub(super) space: &'a mut R::OfSpace,
    pub(super) page: Page,
}

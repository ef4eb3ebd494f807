//! Sections that may be held while a thread blocks, and that may be sent to other threads.

use super::domain::Domain;
use super::record::Record;
use crate::platform::Platform;
use crate::registry::Node;

/// A section with a record of its own, like FreeBSD's `epoch_enter_preempt` with its tracker. A section may
/// be held while its thread blocks or across an `await`, and may be sent to another thread.
///
/// When a section begins, it takes a record of the domain. Taking a record costs as much as an uncontended
/// lock. A thread that has one section at a time usually takes the same record each time. While the section
/// is held, the domain frees no object that was unlinked after the section began; [`Domain::stalls`] reports
/// sections that are held for a long time.
///
/// A section cannot retire objects. To retire objects, take a guard, for example from [`pin`](super::pin).
#[derive(Debug)]
pub struct Section<'d, P: Platform> {
    pub(super) domain: &'d Domain<P>,
    node: &'d Node<Record>,
}

// SAFETY: no method that takes `&Section` writes to the record's cells. Of these methods, only
// `Debug::fmt` reads a cell, and that cell does not change while the section exists. If the section is sent
// to another thread, only that thread may use the cells from then on.
unsafe impl<P: Platform> Sync for Section<'_, P> {}

impl<P: Platform> Domain<P> {
    /// A section that may be held while a thread blocks, and that may be sent to other threads; see
    /// [`Section`]. This function searches all records for a free one;
    /// [`Handle::section`](super::Handle::section) first tries the record that the handle used last.
    #[cfg(feature = "alloc")]
    pub fn section(&self) -> Section<'_, P> {
        Section::new(self, self.record())
    }

    /// Like [`section`](Domain::section), but never allocates a record: if none is free, returns `None`.
    /// See [`Domain::add_node`].
    pub fn try_section(&self) -> Option<Section<'_, P>> {
        Some(Section::new(self, self.free_record()?))
    }
}

impl<'d, P: Platform> Section<'d, P> {
    pub(super) fn new(domain: &'d Domain<P>, node: &'d Node<Record>) -> Section<'d, P> {
        node.value.begin(domain.platform(), true);
        // SAFETY: `node` was taken for this section, so the section owns the record.
        unsafe { node.value.reader.enter(domain.global_epoch()) };
        Section { domain, node }
    }

    /// The domain of the section.
    pub fn domain(&self) -> &'d Domain<P> {
        self.domain
    }

    /// Ends the section and immediately begins another. Because of the exclusive borrow, references from
    /// before the call cannot be used after it.
    pub fn refresh(&mut self) {
        // SAFETY: the section owns its record, and `new` entered the section.
        unsafe { self.node.value.reader.refresh(self.domain.global_epoch()) };
    }
}

impl<P: Platform> Drop for Section<'_, P> {
    fn drop(&mut self) {
        // SAFETY: the section owns its record, and `new` entered the section.
        unsafe { self.node.value.reader.exit() };
        self.node.release();
    }
}

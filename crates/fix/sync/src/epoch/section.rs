//! Sections that may be held across anything and sent to other threads.

use super::domain::Domain;
use super::record::Record;
use crate::platform::Platform;
use crate::registry::Node;

/// A section with a record of its own, so that it may be held while its thread blocks or across an
/// `await`, and be sent to another thread: `epoch_enter_preempt` with its tracker.
///
/// Beginning a section costs as much as an uncontended lock, as it takes a record of the domain. A thread
/// that has one section at a time takes the same record again. While the section is held, no object that was
/// unlinked after it began is freed; [`Domain::stalls`] reports sections that are held for long.
#[derive(Debug)]
pub struct Section<'d, P: Platform> {
    pub(super) domain: &'d Domain<P>,
    node: &'d Node<Record>,
}

// SAFETY: a shared reference reaches none of the record's cells. Sending the section hands them over to
// another thread.
unsafe impl<P: Platform> Sync for Section<'_, P> {}

impl<P: Platform> Domain<P> {
    /// A section that may be held across anything and sent to other threads; see [`Section`]. It searches
    /// all records for a free one; [`Handle::section`](super::Handle::section) remembers the last one.
    #[cfg(feature = "alloc")]
    pub fn section(&self) -> Section<'_, P> {
        Section::new(self, self.record())
    }

    /// Like [`section`](Domain::section), but in a free record. Returns `None` if there is no free record,
    /// instead of allocating one. See [`Domain::add_node`].
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

    /// Ends the section and begins another at once. The exclusive borrow ends all references that were
    /// found before.
    pub fn refresh(&mut self) {
        // SAFETY: the section owns its record, and has entered.
        unsafe { self.node.value.reader.refresh(self.domain.global_epoch()) };
    }
}

impl<P: Platform> Drop for Section<'_, P> {
    fn drop(&mut self) {
        // SAFETY: the section owns its record, and has entered once.
        unsafe { self.node.value.reader.exit() };
        self.node.release();
    }
}

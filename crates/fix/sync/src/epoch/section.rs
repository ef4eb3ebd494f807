//! Sections that outlive a time slice.

use super::domain::Domain;
use super::record::Record;
use crate::platform::Platform;
use crate::registry::Node;

/// A section with a record of its own, so that it may be held while its thread blocks, or across an
/// `await`, and be sent to another thread: `epoch_enter_preempt` with its tracker.
///
/// To begin one costs what a lock costs that nobody fights over: it takes a record of the domain's,
/// and a thread the same one again and again, as long as it has one section at a time. Nothing that was
/// unlinked after it has begun is freed while it is held: [`Domain::stalls`] tells who holds one for
/// long.
#[derive(Debug)]
pub struct Section<'d, P: Platform> {
    pub(super) domain: &'d Domain<P>,
    node: &'d Node<Record>,
}

// SAFETY: a record's cells are used by one thread at a time; sending the section hands them over, and
// through a shared reference none of them can be reached.
unsafe impl<P: Platform> Sync for Section<'_, P> {}

impl<P: Platform> Domain<P> {
    /// A section that may be held across anything and sent to other threads; see [`Section`]. It searches
    /// all records for a free one; [`Handle::section`](super::Handle::section) remembers the last one.
    #[cfg(feature = "alloc")]
    pub fn section(&self) -> Section<'_, P> {
        Section::new(self, self.record())
    }

    /// As [`section`](Domain::section), in a free record. Returns `None` if there is no free record,
    /// instead of allocating one. See [`Domain::add_node`].
    pub fn try_section(&self) -> Option<Section<'_, P>> {
        Some(Section::new(self, self.free_record()?))
    }
}

impl<'d, P: Platform> Section<'d, P> {
    pub(super) fn new(domain: &'d Domain<P>, node: &'d Node<Record>) -> Section<'d, P> {
        node.value.begin(domain.platform(), true);
        // SAFETY: the record was taken for this section.
        unsafe { node.value.reader.enter(domain.global_epoch()) };
        Section { domain, node }
    }

    /// The domain whose section this is.
    pub fn domain(&self) -> &'d Domain<P> {
        self.domain
    }

    /// Ends the section and begins another at once. What was found before is not to be used any more.
    pub fn refresh(&mut self) {
        // SAFETY: the record is this section's, which is inside.
        unsafe { self.node.value.reader.refresh(self.domain.global_epoch()) };
    }
}

impl<P: Platform> Drop for Section<'_, P> {
    fn drop(&mut self) {
        // SAFETY: the record is this section's, which has entered once.
        unsafe { self.node.value.reader.exit() };
        self.node.release();
    }
}

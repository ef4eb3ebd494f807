//! What keeps others from freeing.

use super::domain::Domain;
use super::handle::Guard;
use super::section::Section;
use crate::platform::Platform;

/// Something during whose life nothing is freed that is found: a [`Guard`], a [`Section`] or an
/// [`Online`](super::Online) thread.
///
/// # Safety
/// While there is a reference to it, a section of the domain that [`inside`](Inside::inside) returns is
/// entered that does not end before the reference does.
pub unsafe trait Inside<P> {
    /// The domain.
    fn inside(&self) -> &Domain<P>;
}

// SAFETY: a guard's section ends when it is dropped; `refresh` borrows it exclusively.
unsafe impl<P: Platform> Inside<P> for Guard<'_, P> {
    #[inline]
    fn inside(&self) -> &Domain<P> {
        self.domain()
    }
}

// SAFETY: as of a guard.
unsafe impl<P: Platform> Inside<P> for Section<'_, P> {
    #[inline]
    fn inside(&self) -> &Domain<P> {
        self.domain()
    }
}

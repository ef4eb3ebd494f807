//! Readers that say when they hold nothing, instead of when they do.

use super::domain::Domain;
use super::handle::{Guard, Handle};
use super::protect::Protect;
use crate::platform::Platform;

/// A thread that is in a section all the time, but for its quiescent states: QSBR, as Linux did it
/// first and DPDK and liburcu do.
///
/// To read costs nothing at all. In exchange the thread has to say regularly that it holds nothing,
/// between two turns of its event loop or two packets, and that it goes to sleep. A thread that forgets
/// it holds up everybody ([`Domain::stalls`] tells which).
///
/// ```
/// use knee_sync::{System, epoch::{Domain, QsbrHandle}};
///
/// let domain = Domain::new(System::detect());
/// let mut online = QsbrHandle::new(domain.register());
/// for turn in 0..3 {
///     // … read what other threads may replace …
///     online.quiescent();
/// }
/// online.offline(|| std::thread::sleep(std::time::Duration::from_millis(1)));
/// ```
#[derive(Debug)]
pub struct QsbrHandle<'d, P: Platform> {
    handle: Handle<'d, P>,
}

impl<'d, P: Platform> QsbrHandle<'d, P> {
    /// The handle's thread goes online.
    pub fn new(handle: Handle<'d, P>) -> QsbrHandle<'d, P> {
        handle.enter();
        QsbrHandle { handle }
    }

    /// The thread holds nothing that it has found before.
    #[inline]
    pub fn quiescent(&mut self) {
        self.handle.refresh();
    }

    /// Holds nothing while it calls `with`, which may block.
    pub fn offline<R>(&mut self, with: impl FnOnce() -> R) -> R {
        /// Also when `with` panics.
        struct Return<'h, 'd, P: Platform>(&'h Handle<'d, P>);
        impl<P: Platform> Drop for Return<'_, '_, P> {
            fn drop(&mut self) {
                self.0.enter();
            }
        }
        // SAFETY: `new` or `Return` has entered.
        unsafe { self.handle.exit() };
        let _return = Return(&self.handle);
        with()
    }

    /// A guard, to defer with.
    pub fn pin(&self) -> Guard<'_, P> {
        self.handle.pin()
    }
}

// SAFETY: the section ends in methods that borrow it exclusively, and when it is dropped.
unsafe impl<P: Platform> Protect<P> for QsbrHandle<'_, P> {
    #[inline]
    fn domain(&self) -> &Domain<P> {
        self.handle.domain()
    }
}

impl<P: Platform> Drop for QsbrHandle<'_, P> {
    fn drop(&mut self) {
        // SAFETY: `new` or `Return` has entered.
        unsafe { self.handle.exit() };
    }
}

//! Quiescent-state-based reclamation: a thread does not mark the beginning and end of its reads. Instead, the
//! thread reports now and then that it holds nothing.

use super::domain::Domain;
use super::handle::{Guard, Handle};
use super::protect::Protect;
use crate::platform::Platform;

/// The handle of a thread that is in a section all the time, except at its quiescent states and while it is
/// offline: QSBR, as in Linux, DPDK and liburcu.
///
/// To retire objects, take a guard with [`pin`](QsbrHandle::pin).
///
/// Reading costs nothing at all. In exchange, the thread must report regularly that it holds nothing, for
/// example after each packet or after each iteration of its event loop, and it must go
/// [offline](QsbrHandle::offline) while it sleeps. If a thread does not report, it blocks all reclamation
/// ([`Domain::stalls`] shows the thread).
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
    /// Puts the handle's thread online: the thread is in a section from now on.
    pub fn new(handle: Handle<'d, P>) -> QsbrHandle<'d, P> {
        handle.enter();
        QsbrHandle { handle }
    }

    /// Reports a quiescent state: the thread no longer holds anything that it found before the call.
    #[inline]
    pub fn quiescent(&mut self) {
        self.handle.refresh();
    }

    /// Puts the thread offline while it calls `with`, which may block.
    pub fn offline<R>(&mut self, with: impl FnOnce() -> R) -> R {
        /// Goes online again, even if `with` panics.
        struct Return<'h, 'd, P: Platform>(&'h Handle<'d, P>);
        impl<P: Platform> Drop for Return<'_, '_, P> {
            fn drop(&mut self) {
                self.0.enter();
            }
        }
        // SAFETY: `new` or `Return` has entered the section, and no call has ended it since.
        unsafe { self.handle.exit() };
        let _return = Return(&self.handle);
        with()
    }

    /// A guard, for example to retire objects.
    pub fn pin(&self) -> Guard<'_, P> {
        self.handle.pin()
    }
}

// SAFETY: the section ends only in methods that borrow the handle exclusively, and when the handle is
// dropped.
unsafe impl<P: Platform> Protect<P> for QsbrHandle<'_, P> {
    #[inline]
    fn domain(&self) -> &Domain<P> {
        self.handle.domain()
    }
}

impl<P: Platform> Drop for QsbrHandle<'_, P> {
    fn drop(&mut self) {
        // SAFETY: `new` or `Return` has entered the section, and no call has ended it since.
        unsafe { self.handle.exit() };
    }
}

//! Per-thread state, which exists from its first use until the thread exits.

use std::cell::Cell;
use std::thread::LocalKey;

/// A thread's registration. A thread has at most one registration of each type, and other threads must not
/// use copies of the registration.
pub(crate) trait Part: Copy {
    /// Registers the calling thread.
    fn register() -> Self;

    /// Runs when the calling thread exits, before [`unregister`](Part::unregister).
    fn before_exit(self) {}

    /// Unregisters the calling thread, which is exiting. Returns false if a leaked value or a later
    /// destructor still needs the registration; in that case the thread keeps the registration forever.
    fn unregister(self) -> bool;
}

/// Where a thread keeps its registration.
pub(crate) type Slot<T> = LocalKey<Cell<Option<T>>>;

/// Passes `part` to the closure. If `part` is `None`, the thread has already unregistered, and the closure
/// gets a temporary registration, which ends with this call.
#[inline]
pub(crate) fn with<T: Part, R>(
    slot: &'static Slot<T>,
    part: Option<T>,
    with: impl FnOnce(T) -> R,
) -> R {
    match part {
        Some(part) => with(part),
        None => with_temporary(slot, with),
    }
}

#[cold]
fn with_temporary<T: Part, R>(slot: &'static Slot<T>, with: impl FnOnce(T) -> R) -> R {
    let part = T::register();
    // If `with` forks, the handler in the child finds the registration of the child's only thread in `slot`.
    slot.set(Some(part));
    let result = with(part);
    unregister(slot);
    result
}

/// Unregisters the calling thread, if the thread is registered and nothing needs its registration any more.
pub(crate) fn unregister<T: Part>(slot: &'static Slot<T>) {
    // `unregister` runs destructors, which must not find a registration that is being removed.
    if let Some(part) = slot.take()
        && !part.unregister()
    {
        slot.set(Some(part));
    }
}

/// Defines `part()` and `registered()`, which return the calling thread's `$Part`. A module can use this
/// macro only once.
macro_rules! per_thread {
    ($Part:ty $(, in_child: $forked:path)?) => {
        ::std::thread_local! {
            // `PART` has no destructor, so an access need not check whether the value is still there.
            static PART: ::core::cell::Cell<Option<$Part>> = const { ::core::cell::Cell::new(None) };
            static EXIT: Exit = const { Exit };
        }

        /// Unregisters when the thread exits.
        struct Exit;

        impl Drop for Exit {
            fn drop(&mut self) {
                // `before_exit` runs destructors, which may use the registration.
                registered().into_iter().for_each($crate::per_thread::Part::before_exit);
                $crate::per_thread::unregister(&PART);
            }
        }

        /// The thread's registration, if it has one.
        #[inline]
        fn registered() -> Option<$Part> {
            PART.get()
        }

        /// The thread's registration. `None` if the thread is exiting and has unregistered.
        #[inline]
        fn part() -> Option<$Part> {
            match registered() {
                None => register(),
                part => part,
            }
        }

        #[cold]
        fn register() -> Option<$Part> {
            EXIT.try_with(|_| ()).ok()?;
            $(
                #[cfg(all(unix, not(any(loom, miri))))]
                {
                    static IN_CHILD: $crate::fork::InChild = $crate::fork::InChild::new($forked);
                    IN_CHILD.register();
                }
            )?
            PART.set(Some($crate::per_thread::Part::register()));
            registered()
        }
    };
}
pub(crate) use per_thread;

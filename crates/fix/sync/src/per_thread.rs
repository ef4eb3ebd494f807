//! What each thread of the process has of something, from its first use to the thread's exit.

/// A thread's part. The thread has one at a time, and copies of it are not to be used by others.
pub(crate) trait Part: Copy {
    /// The calling thread takes part.
    fn register() -> Self;

    /// The calling thread is about to exit, and [leaves](Part::unregister) next.
    fn before_exit(self) {}

    /// The calling thread, which is about to exit, takes part no more. False if it has to: something
    /// that it has forgotten, or that a later destructor has, needs the part. Then it keeps it for
    /// ever.
    fn unregister(self) -> bool;
}

/// Calls `with` with the part; a thread that has none any more joins for this call.
#[inline]
pub(crate) fn with<T: Part, R>(part: Option<T>, with: impl FnOnce(T) -> R) -> R {
    match part {
        Some(part) => with(part),
        None => with_temporary(with),
    }
}

#[cold]
fn with_temporary<T: Part, R>(with: impl FnOnce(T) -> R) -> R {
    let part = T::register();
    let result = with(part);
    part.unregister();
    result
}

/// Makes `part()` and `registered()`, the calling thread's `$Part`, where it is called: once in a module.
macro_rules! per_thread {
    ($Part:ty $(, in_child: $forked:path)?) => {
        ::std::thread_local! {
            // Without a destructor, so that to find it costs no check.
            static PART: ::core::cell::Cell<Option<$Part>> = const { ::core::cell::Cell::new(None) };
            static EXIT: Exit = const { Exit };
        }

        /// Leaves when the thread exits.
        struct Exit;

        impl Drop for Exit {
            fn drop(&mut self) {
                // Destructors of others, which may want the part, run here …
                registered().into_iter().for_each($crate::per_thread::Part::before_exit);
                // … and those that run here must not find it on its way out.
                if let Some(part) = PART.take()
                    && !$crate::per_thread::Part::unregister(part)
                {
                    PART.set(Some(part));
                }
            }
        }

        /// The thread's part, if it has one.
        #[inline]
        fn registered() -> Option<$Part> {
            PART.get()
        }

        /// The thread's part. None if it has left, as it is about to exit.
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

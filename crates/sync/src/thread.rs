//! Numbers of threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::registry::{Node, Registry};

/// A number that no thread has.
const NONE: usize = usize::MAX;

static NUMBERS: Registry<usize> = Registry::new();

/// Numbers that were made.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    static NUMBERED: Numbered = Numbered::take();
}

/// A thread that has a number, until it ends.
struct Numbered(&'static Node<usize>);

impl Numbered {
    fn take() -> Numbered {
        let node = NUMBERS.take_or_make(|| COUNT.fetch_add(1, Relaxed));
        NUMBER.set(node.value);
        Numbered(node)
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        NUMBER.set(NONE);
        // Whoever has the number next sees all that this thread did under it.
        self.0.release();
    }
}

/// Calls `with` with the number of the calling thread, which no other thread that lives has. Numbers
/// are dense: they begin at 0, and those of threads that ended are taken first.
#[inline]
pub(crate) fn with_number<R>(with: impl FnOnce(usize) -> R) -> R {
    match NUMBER.get() {
        NONE => with_new_number(with),
        number => with(number),
    }
}

#[cold]
fn with_new_number<R>(with: impl FnOnce(usize) -> R) -> R {
    // A thread that is ending has given its number back, and has another one for this call.
    let short = NUMBERED.try_with(|_| ()).err().map(|_| Numbered::take());
    let result = with(NUMBER.get());
    drop(short);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};
    use std::thread;

    #[test]
    fn threads_that_live_have_different_numbers() {
        const THREADS: usize = 8;
        let numbers = Mutex::new(HashSet::new());
        let all = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    assert!(with_number(|number| numbers.lock().unwrap().insert(number)));
                    assert!(with_number(|number| numbers.lock().unwrap().contains(&number)));
                    all.wait();
                });
            }
        });
        assert_eq!(numbers.into_inner().unwrap().len(), THREADS);
    }

    #[test]
    fn a_thread_that_is_ending_has_a_number() {
        struct Last;
        impl Drop for Last {
            fn drop(&mut self) {
                assert_ne!(with_number(|number| number), NONE);
                assert_eq!(NUMBER.get(), NONE, "it was for one call");
            }
        }
        thread_local! {
            // It is made before the number, and so destroyed after it.
            static LAST: Last = const { Last };
        }
        thread::spawn(|| LAST.with(|_| assert_ne!(with_number(|number| number), NONE)))
            .join()
            .unwrap();
    }
}

//! Small numbers for threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::per_thread::{self, Part, per_thread};
use crate::registry::{Node, Registry};

static NUMBERS: Registry<usize> = Registry::new();

/// How many numbers exist: 0 to `COUNT - 1`.
static COUNT: AtomicUsize = AtomicUsize::new(0);

per_thread!(Number, in_child: forked);

/// A thread's number, which no other running thread has.
#[derive(Clone, Copy)]
struct Number {
    number: usize,
    node: &'static Node<usize>,
}

impl Part for Number {
    fn register() -> Number {
        let node = NUMBERS.take_or_make(|| COUNT.fetch_add(1, Relaxed));
        Number { number: node.value, node }
    }

    fn unregister(self) -> bool {
        // The next owner of the number sees everything that this thread did while it owned the number.
        self.node.release();
        true
    }
}

/// Passes the calling thread's number to `with`. No other running thread has this number. Numbers are
/// dense: they begin at 0, and the numbers of exited threads are reused before new ones are made.
#[inline]
pub(crate) fn with_number<R>(with: impl FnOnce(usize) -> R) -> R {
    per_thread::with(&PART, part(), |part| with(part.number))
}

/// Runs in the child of a fork. Frees the numbers of the parent's threads that do not exist in the child.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    NUMBERS.others(registered().map(|part| part.node)).for_each(Node::release);
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};
    use std::thread;

    #[test]
    fn running_threads_have_different_numbers() {
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

    #[cfg(all(unix, not(miri)))]
    #[test]
    fn a_child_of_a_fork_reuses_the_numbers_of_missing_threads() {
        let (has_one, may_end) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                with_number(|_| ());
                has_one.wait();
                may_end.wait();
            });
            has_one.wait();
            with_number(|_| ());
            // SAFETY: before the child exits, it only accesses atomics.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let free = NUMBERS.nodes().filter(|node| node.try_take()).count();
                // At the fork, another thread may have incremented `COUNT` but not yet added the node of its
                // new number.
                let is_right = (1..COUNT.load(Relaxed)).contains(&free) && NUMBERS.take().is_none();
                // SAFETY: _exit(2) ends the child at once.
                unsafe { libc::_exit(i32::from(!is_right)) };
            }
            let mut status = -1;
            // SAFETY: `status` is a live integer.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            may_end.wait();
            assert_eq!((waited, status), (child, 0));
        });
    }

    /// In the child, a new thread must not get the number that the exiting thread is using.
    #[cfg(all(unix, not(miri)))]
    #[test]
    fn an_exiting_thread_that_forks_keeps_its_number_in_the_child() {
        struct Last;
        impl Drop for Last {
            fn drop(&mut self) {
                assert!(registered().is_none(), "the thread has unregistered");
                with_number(|number| {
                    // SAFETY: the only lock of another thread that the child may need is the allocator's,
                    // which the C library makes usable after a fork.
                    let child = unsafe { libc::fork() };
                    if child == 0 {
                        let other = thread::spawn(|| with_number(|other| other)).join();
                        let is_right = other.is_ok_and(|other| other != number);
                        // SAFETY: _exit(2) ends the child at once.
                        unsafe { libc::_exit(i32::from(!is_right)) };
                    }
                    let mut status = -1;
                    // SAFETY: `status` is a live integer.
                    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                    assert_eq!((waited, status), (child, 0));
                });
            }
        }
        thread_local! {
            // `LAST` is initialised before the thread's number, and so destroyed after the number.
            static LAST: Last = const { Last };
        }
        thread::spawn(|| LAST.with(|_| with_number(|_| ()))).join().unwrap();
    }

    #[test]
    fn an_exiting_thread_has_a_number() {
        struct Last;
        impl Drop for Last {
            fn drop(&mut self) {
                with_number(|_| ());
                assert!(registered().is_none(), "the thread keeps its number");
            }
        }
        thread_local! {
            // `LAST` is initialised before the thread's number, and so destroyed after the number.
            static LAST: Last = const { Last };
        }
        thread::spawn(|| LAST.with(|_| with_number(|_| assert!(registered().is_some()))))
            .join()
            .unwrap();
    }
}

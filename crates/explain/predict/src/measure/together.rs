//! Threads on given CPUs that start at the same time.

use std::hint::spin_loop;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, scope};

use knee_host::affinity::pin;

/// Runs `work` on each of the CPUs, when all threads run on theirs, and returns the results in the
/// order of the CPUs. `work` gets the index of its CPU.
///
/// # Errors
/// A thread cannot be started, or cannot be bound to its CPU. No thread begins its work then.
pub(super) fn on_cpus<T: Send>(
    cpus: &[u32],
    work: impl Fn(usize) -> T + Sync,
) -> io::Result<Vec<T>> {
    let go: OnceLock<bool> = OnceLock::new();
    let arrived = AtomicUsize::new(0);
    let (sender, bound) = channel();
    scope(|scope| {
        let mut threads = Vec::with_capacity(cpus.len());
        let mut outcome = Ok(());
        for (nr, &cpu) in cpus.iter().enumerate() {
            let (sender, go, arrived, work) = (sender.clone(), &go, &arrived, &work);
            let run = move || {
                let _ = sender.send(pin(cpu));
                go.wait().then(|| {
                    // The kernel wakes the threads one after the other.
                    arrived.fetch_add(1, Ordering::Relaxed);
                    while arrived.load(Ordering::Relaxed) < cpus.len() {
                        spin_loop();
                    }
                    work(nr)
                })
            };
            match Builder::new().spawn_scoped(scope, run) {
                Ok(thread) => threads.push(thread),
                Err(error) => outcome = Err(error),
            }
        }
        for bound in bound.iter().take(threads.len()) {
            outcome = outcome.and(bound);
        }
        let _ = go.set(outcome.is_ok());
        let results = threads.into_iter().map(|thread| thread.join().expect("no work panics"));
        let results: Option<Vec<T>> = results.collect();
        outcome.map(|()| results.expect("all threads have worked"))
    })
}

#[cfg(test)]
mod tests {
    use knee_host::affinity::usable_cpus;

    use super::*;

    #[test]
    fn results_have_the_order_of_the_cpus() {
        let cpus = usable_cpus().unwrap();
        let expected: Vec<usize> = (0..cpus.len()).collect();
        assert_eq!(on_cpus(&cpus, |nr| nr).unwrap(), expected);
    }

    #[test]
    fn no_thread_works_if_one_cannot_be_bound() {
        let usable = usable_cpus().unwrap()[0];
        // No machine has so many CPUs.
        let cpus = [usable, u32::MAX, usable];
        assert!(on_cpus(&cpus, |_| panic!("this thread works")).is_err());
    }
}

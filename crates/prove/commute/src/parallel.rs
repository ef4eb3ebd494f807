//! Parallel work with results in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Runs `work` for `0..n` on all CPUs and passes the results to `take`, in order, until `take` returns
/// `Break`.
pub fn in_order<T: Send>(
    n: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(n);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (done, next, work) = (done.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let nr = next.fetch_add(1, Ordering::Relaxed);
                    if nr >= n || done.send((nr, work(nr))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut waiting = BTreeMap::new();
        let mut turn = 0;
        for (nr, result) in results {
            waiting.insert(nr, result);
            while let Some(result) = waiting.remove(&turn) {
                if take(turn, result).is_break() {
                    next.store(n, Ordering::Relaxed);
                    return;
                }
                turn += 1;
            }
        }
    });
}

/// Runs `work` for `0..n` on all CPUs, and returns the results in order.
pub(crate) fn all<T: Send>(n: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut results = Vec::with_capacity(n);
    in_order(n, work, |_, result| {
        results.push(result);
        ControlFlow::Continue(())
    });
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_arrive_in_order_however_long_each_piece_of_work_takes() {
        let work = |nr: usize| {
            std::thread::sleep(std::time::Duration::from_micros(((nr * 7) % 5) as u64 * 100));
            nr * nr
        };
        let mut seen = Vec::new();
        in_order(50, work, |nr, square| {
            seen.push((nr, square));
            ControlFlow::Continue(())
        });
        assert_eq!(seen, (0..50).map(|nr| (nr, nr * nr)).collect::<Vec<_>>());
    }

    #[test]
    fn no_work_starts_after_take_returns_break() {
        // Too much work to complete: `in_order` can return only by stopping early.
        let pieces = usize::MAX / 2;
        let work = |_| std::thread::sleep(std::time::Duration::from_millis(1));
        let mut taken = 0;
        in_order(pieces, work, |_, ()| {
            taken += 1;
            ControlFlow::Break(())
        });
        assert_eq!(taken, 1);
    }
}

//! What there is to say of all pairs of operations of an interface: the record of a matrix, which
//! is printed as JSON and drawn on a page.

use std::sync::atomic::{AtomicUsize, Ordering};

use knee_commute::{Condition, Exploration, Model, conditions};
use knee_report::{Differing, Matrix, MatrixOperation, Pair};

use super::commute::{because, counts};

/// The matrix of `model`, with the conditions of every pair, which all CPUs work out.
pub(crate) fn record(model: &dyn Model, pairs: &[([usize; 2], Exploration)]) -> Matrix {
    let operations = model.operations();
    Matrix {
        knee_version: env!("CARGO_PKG_VERSION").to_owned(),
        interface: model.name().to_owned(),
        about: model.about().to_owned(),
        operations: operations
            .iter()
            .map(|(name, about)| MatrixOperation { name: (*name).into(), about: (*about).into() })
            .collect(),
        pairs: on_all_cpus(
            pairs,
            |(_, exploration)| exploration.situations.len(),
            |([i, j], exploration)| {
                pair([*i, *j].map(|nr| operations[nr].0.to_owned()), exploration)
            },
        ),
    }
}

fn pair(operations: [String; 2], exploration: &Exploration) -> Pair {
    let formulas = |condition: &Condition| -> Vec<String> {
        condition.literals.iter().map(|(literal, answer)| literal.show(*answer)).collect()
    };
    let found = conditions(exploration);
    let number = |n: usize| u32::try_from(n).expect("more situations than fit into memory");
    let (situations, commuting) = counts(exploration);
    Pair {
        situations: number(situations),
        commuting: number(commuting),
        cut: exploration.cut,
        given_up: number(exploration.too_deep),
        commute_if_any_of: found.commute.iter().map(formulas).collect(),
        differ_if_any_of: found
            .differ
            .iter()
            .map(|(condition, difference)| Differing {
                all_of: formulas(condition),
                because: because(difference, &operations),
            })
            .collect(),
        operations,
    }
}

/// `of` each item, in their order. The heaviest are begun first, so that no CPU is left with one
/// of them when the others are done.
fn on_all_cpus<T: Sync, R: Send>(
    items: &[T],
    weight: impl Fn(&T) -> usize,
    of: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut queue: Vec<(usize, &T)> = items.iter().enumerate().collect();
    queue.sort_by_key(|(_, item)| std::cmp::Reverse(weight(item)));
    let taken = AtomicUsize::new(0);
    let work = || {
        let take = || queue.get(taken.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(take).map(|(nr, item)| (*nr, of(item))).collect::<Vec<_>>()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it has no panics")).collect()
    });
    done.sort_by_key(|(nr, _)| *nr);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_their_items() {
        let squares: Vec<u32> = (0..1000).map(|n| n * n).collect();
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(on_all_cpus(&items, |n| (n % 7) as usize, |n| n * n), squares);
        assert_eq!(on_all_cpus(&[0_u32; 0], |_| 0, |n| n * n), [0; 0]);
    }
}

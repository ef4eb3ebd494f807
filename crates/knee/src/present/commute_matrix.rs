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
        pairs: on_all_cpus(pairs, |([i, j], exploration)| {
            pair([*i, *j].map(|nr| operations[nr].0.to_owned()), exploration)
        }),
    }
}

fn pair(operations: [String; 2], exploration: &Exploration) -> Pair {
    let formulas = |condition: &Condition| -> Vec<String> {
        condition.literals.iter().map(|(literal, answer)| literal.show(*answer)).collect()
    };
    let found = conditions(exploration);
    let (situations, commuting) = counts(exploration);
    Pair {
        situations,
        commuting,
        cut: exploration.cut,
        given_up: exploration.too_deep,
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

/// `of` each item, in their order.
fn on_all_cpus<T: Sync, R: Send>(items: &[T], of: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let work = || {
        let mut done = Vec::new();
        while let Some((nr, item)) = {
            let nr = next.fetch_add(1, Ordering::Relaxed);
            items.get(nr).map(|item| (nr, item))
        } {
            done.push((nr, of(item)));
        }
        done
    };
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
        assert_eq!(on_all_cpus(&items, |n| n * n), squares);
        assert_eq!(on_all_cpus(&[0_u32; 0], |n| n * n), [0; 0]);
    }
}

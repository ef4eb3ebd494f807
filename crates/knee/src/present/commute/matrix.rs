//! The record of a matrix: all pairs of operations of an interface. knee prints it as JSON and
//! draws it on a page.

use std::ops::ControlFlow;

use knee_commute::{Exploration, Model, conditions, in_order};
use knee_report::{Differing, Matrix, MatrixOperation, Pair};

use super::conditions::{because, counts};

/// The matrix of `model` with the conditions of every pair, computed on all CPUs.
pub(crate) fn record(model: &dyn Model, pairs: &[([usize; 2], Exploration)]) -> Matrix {
    let operations = model.operations();
    let mut found = Vec::with_capacity(pairs.len());
    let look = |nr: usize| {
        let ([i, j], exploration) = &pairs[nr];
        pair([*i, *j].map(|nr| operations[nr].0.to_owned()), exploration)
    };
    in_order(pairs.len(), look, |_, pair| {
        found.push(pair);
        ControlFlow::Continue(())
    });
    Matrix {
        knee_version: env!("CARGO_PKG_VERSION").to_owned(),
        interface: model.name().to_owned(),
        about: model.about().to_owned(),
        operations: operations
            .iter()
            .map(|(name, about)| MatrixOperation { name: (*name).into(), about: (*about).into() })
            .collect(),
        pairs: found,
    }
}

fn pair(operations: [String; 2], exploration: &Exploration) -> Pair {
    let found = conditions(exploration);
    let number = |n: usize| u32::try_from(n).expect("more situations than fit in memory");
    let (situations, commuting) = counts(exploration);
    Pair {
        situations: number(situations),
        commuting: number(commuting),
        cut: exploration.extent.cut,
        given_up: number(exploration.extent.too_deep),
        commute_if_any_of: found.commute.into_iter().map(|case| case.formulas).collect(),
        differ: found
            .differ
            .into_iter()
            .map(|reason| Differing {
                because: because(&reason.difference, &operations),
                situations: number(reason.situations),
                all_of: reason.formulas,
            })
            .collect(),
        operations,
    }
}

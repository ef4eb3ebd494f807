//! Shell completions of interfaces and operations.

use std::collections::BTreeMap;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use knee_commute::models;

use crate::args::complete::described;

/// Completes interfaces.
pub(super) fn interfaces() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        models().iter().map(|model| CompletionCandidate::new(model.name())).collect()
    })
}

/// Completes operations of all interfaces, because clap does not pass the selected interface.
pub(super) fn operations() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for model in models() {
            for (name, about) in model.operations() {
                all.entry(name.to_owned()).or_insert_with(|| about.to_owned());
            }
        }
        all.into_iter().map(|(name, about)| described(name, about)).collect()
    })
}

/// Completes operations whose cost knee can count.
pub(super) fn costs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let all = knee_agent::operations();
        all.map(|operation| described(operation.name, operation.about)).collect()
    })
}

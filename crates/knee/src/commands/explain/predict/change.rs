//! What the user changes in a workload before the prediction.

use std::collections::BTreeSet;
use std::fmt;

use knee_predict::simulate::{SHOOTDOWN, Workload};

use crate::exit::usage;

/// Names that a message lists.
const LISTED: usize = 8;

/// The changes, by names of lines and locks.
#[derive(Clone, Copy)]
pub(super) struct Changes<'a> {
    pub(super) without: &'a [String],
    pub(super) split: &'a [String],
    pub(super) batch: &'a [(String, usize)],
}

impl Changes<'_> {
    /// The workloads after the changes. A name must exist in at least one of them, because data
    /// have other names in other kernels.
    pub(super) fn apply(&self, mut workloads: Vec<Workload>) -> anyhow::Result<Vec<Workload>> {
        for name in self.without {
            change(&mut workloads, name, |workload, name| Ok(workload.without(name)?))?;
        }
        for name in self.split {
            change(&mut workloads, name, |workload, name| Ok(workload.split(name)?))?;
        }
        for (name, iterations) in self.batch {
            change(&mut workloads, name, |workload, name| Ok(workload.batch(name, *iterations)?))?;
        }
        Ok(workloads)
    }
}

impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = self.without.iter().map(|name| format!("without {name}"));
        let split = self.split.iter().map(|name| format!("with one {name} for each task"));
        let batch =
            self.batch.iter().map(|(name, n)| format!("with {name} once in {n} iterations"));
        f.write_str(&without.chain(split).chain(batch).collect::<Vec<_>>().join(", "))
    }
}

/// Changes what `word` means in each workload that has it.
fn change(
    workloads: &mut [Workload],
    word: &str,
    apply: impl Fn(&Workload, &str) -> anyhow::Result<Workload>,
) -> anyhow::Result<()> {
    let mut is_known = false;
    for workload in workloads.iter_mut() {
        for name in meant(workload, word) {
            *workload = apply(workload, &name)?;
            is_known = true;
        }
    }
    if is_known {
        return Ok(());
    }
    let names: BTreeSet<String> = workloads.iter().flat_map(names).map(str::to_owned).collect();
    let listed: Vec<String> = names.into_iter().take(LISTED).collect();
    Err(usage(match listed.is_empty() {
        true => format!("{word:?}: in this trace, the tasks share no lines or locks"),
        false => format!(
            "no line or lock that the tasks share has a name with {word:?}; the names are {}",
            listed.join("; ")
        ),
    }))
}

/// The names that are `word`, or otherwise contain it.
fn meant(workload: &Workload, word: &str) -> BTreeSet<String> {
    let of = |is_meant: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        names(workload).filter(|name| is_meant(name)).map(str::to_owned).collect()
    };
    let exact = of(&|name| name == word);
    if exact.is_empty() { of(&|name| name.contains(word)) } else { exact }
}

/// The names of lines and locks, and of shootdowns.
fn names(workload: &Workload) -> impl Iterator<Item = &str> {
    let lines = workload.lines.iter().map(|line| line.name.as_str());
    let locks = workload.locks.iter().map(|lock| lock.name.as_str());
    lines.chain(locks).chain(workload.has_shootdowns().then_some(SHOOTDOWN))
}

#[cfg(test)]
mod tests {
    use knee_predict::simulate::{Access, Iteration, Line, Recorded, Scope, Step};

    use super::*;

    /// A workload that visits lines with these names.
    fn visiting(names: &[&str]) -> Workload {
        let line = |name: &&str| Line { name: (*name).to_owned(), scope: Scope::Global };
        let visit = |line| Step::Visit { line, access: Access::Atomic };
        let mut steps = vec![Step::Compute { instructions: 10.0 }];
        steps.extend((0..names.len()).map(visit));
        Workload {
            recorded: vec![Recorded { node: 0, iterations: vec![Iteration { steps }] }],
            lines: names.iter().map(line).collect(),
            ..Workload::default()
        }
    }

    fn without(word: &str, workloads: &[Workload]) -> anyhow::Result<Vec<usize>> {
        let changes = Changes { without: &[word.to_owned()], split: &[], batch: &[] };
        let changed = changes.apply(workloads.to_vec())?;
        let visits = |workload: &Workload| workload.recorded[0].iterations[0].steps.len() - 1;
        Ok(changed.iter().map(visits).collect())
    }

    #[test]
    fn a_part_of_a_name_suffices_and_one_kernel_need_not_have_it() {
        let two = [visiting(&["label.count", "zone.lock"]), visiting(&["zone.lock"])];
        assert_eq!(without("label", &two).unwrap(), [1, 1]);
        assert_eq!(without("zone.lock", &two).unwrap(), [1, 0]);
    }

    #[test]
    fn a_whole_name_is_not_mistaken_for_a_longer_one() {
        assert_eq!(without("count", &[visiting(&["count", "label.count"])]).unwrap(), [1]);
    }

    #[test]
    fn a_part_stands_for_all_names_with_it_and_an_unknown_one_is_refused() {
        let workload = [visiting(&["a.lock", "b.lock", "count"])];
        assert_eq!(without("lock", &workload).unwrap(), [1]);
        let workload = [visiting(&["a.lock", "b.lock"])];
        let refusal = |word: &str| without(word, &workload).unwrap_err().to_string();
        assert!(refusal("zzz").contains("the names are a.lock; b.lock"), "{}", refusal("zzz"));
        let nothing = without("zzz", &[visiting(&[])]).unwrap_err().to_string();
        assert!(nothing.contains("share no lines or locks"), "{nothing}");
    }
}

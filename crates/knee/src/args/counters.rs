//! The option `--counters`.

use anyhow::Context;
use knee_host::counters::{Counter, CounterSet};
use knee_host::suggest;

/// What a run counts if the option has no value: what shows why a testcase stops scaling. The others
/// would need more counters than some processors have.
pub(crate) const DEFAULT: &str =
    "cycles,instructions,llc-misses,context-switches,cpu-migrations,page-faults,task-clock";

/// The value of `--counters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CounterList(pub(crate) Vec<Counter>);

/// Those of the counters that this machine has.
pub(crate) fn set(CounterList(asked): &CounterList) -> anyhow::Result<CounterSet> {
    CounterSet::find(asked).context("--counters")
}

/// Parses names with commas between them.
pub(crate) fn counters(text: &str) -> Result<CounterList, String> {
    text.split(',').map(|name| one(name.trim())).collect::<Result<_, _>>().map(CounterList)
}

fn one(name: &str) -> Result<Counter, String> {
    name.parse().map_err(|_| {
        let names = || Counter::ALL.iter().map(|counter| counter.name());
        let all = format!("; choose from {}", names().collect::<Vec<&str>>().join(", "));
        let similar = suggest::nearest(name, names());
        format!("no counter is named `{name}`{}", suggest::question_or(&similar, &all))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_counters() {
        let CounterList(default) = counters(DEFAULT).unwrap();
        assert_eq!(default.len(), 7);
        let two = counters("branch-misses, page-faults").unwrap();
        assert_eq!(two.0, [Counter::BranchMisses, Counter::PageFaults]);
        let misspelt = counters("page-fault").unwrap_err();
        assert_eq!(misspelt, "no counter is named `page-fault` (did you mean page-faults?)");
        assert!(counters("zz").unwrap_err().contains("choose from cycles, instructions,"));
        assert!(counters("").is_err() && counters("cycles,").is_err());
    }
}

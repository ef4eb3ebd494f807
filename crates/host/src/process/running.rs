//! Which programs want CPUs at this moment.

use std::collections::BTreeMap;

use super::{Stat, numbers};

/// Names of the programs other than this process that have threads which run or wait for a CPU, those
/// with the most such threads first.
pub fn running_programs() -> Vec<String> {
    let own = std::process::id().cast_signed();
    let others = numbers("/proc").unwrap_or_default().into_iter().filter(|&pid| pid != own);
    let threads = others.flat_map(|pid| {
        let threads = numbers(&format!("/proc/{pid}/task")).unwrap_or_default();
        threads.into_iter().filter_map(move |tid| Stat::read_thread(pid, tid))
    });
    ranked(threads.filter(|thread| thread.state() == Some("R")).map(|thread| thread.name))
}

/// The different `names`, the most frequent first.
fn ranked(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_program_that_occupies_a_cpu_is_named() {
        let mut hog = Command::new("/bin/sh");
        let mut hog = hog.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let is_named = || running_programs().iter().any(|name| name == "sh");
        let mut found = is_named();
        while !found && begun.elapsed() < Duration::from_secs(60) {
            found = is_named();
        }
        hog.kill().unwrap();
        hog.wait().unwrap();
        assert!(found);
    }

    #[test]
    fn the_program_with_the_most_threads_comes_first() {
        let names = ["sh", "cc", "make", "cc"].map(str::to_owned);
        assert_eq!(ranked(names.into_iter()), ["cc", "make", "sh"]);
    }
}

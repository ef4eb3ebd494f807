//! Task counts as written on the command line.

use std::collections::BTreeSet;
use std::str::FromStr;

use knee_host::{Topology, auto_tasks};
use knee_results::MAX_TASKS;
use knee_run::plan::Case;
use knee_run::server::unshared;

/// Task counts: `1,2,4`, `1-8`, `8-64:8`, `auto`, or a list of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tasks {
    listed: BTreeSet<u32>,
    auto: bool,
}

impl Default for Tasks {
    /// `auto`.
    fn default() -> Self {
        Self { listed: BTreeSet::new(), auto: true }
    }
}

impl Tasks {
    /// The task counts on a machine, in ascending order. `auto` adds none above its CPU count.
    pub(crate) fn resolve(&self, topology: &Topology, quota: Option<f64>) -> Vec<u32> {
        self.or_auto(|| auto_tasks(topology, quota))
    }

    /// The same for these cases on `cpus`, which are in the order of the placement. `auto` adds no task count
    /// at which a server shares CPUs with its load, unless there is no other, or all loads come from other hosts.
    pub(crate) fn resolve_for(
        &self,
        cases: &[Case],
        cpus: &[u32],
        topology: &Topology,
        quota: Option<f64>,
    ) -> Vec<u32> {
        match cases.iter().any(Case::has_load_here) {
            true => self.or_auto(|| unshared(auto_tasks(topology, quota), cpus, topology)),
            false => self.resolve(topology, quota),
        }
    }

    /// The task counts, where `auto` stands for those of the function.
    pub(crate) fn or_auto(&self, auto: impl FnOnce() -> Vec<u32>) -> Vec<u32> {
        let mut tasks = self.listed.clone();
        if self.auto {
            tasks.extend(auto());
        }
        tasks.into_iter().collect()
    }
}

impl FromStr for Tasks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut tasks = Self { listed: BTreeSet::new(), auto: false };
        for piece in text.split(',').map(str::trim) {
            if piece == "auto" {
                tasks.auto = true;
                continue;
            }
            let (range, step) = match piece.split_once(':') {
                Some((range, step)) => (range, count(step)?),
                None => (piece, 1),
            };
            // A text that starts with a hyphen is an invalid count, not a range.
            let ends = range.split_once('-').filter(|(first, _)| !first.is_empty());
            let (first, last) = match ends {
                Some((first, last)) => (count(first)?, count(last)?),
                None => (count(range)?, count(range)?),
            };
            if first > last {
                return Err(format!("{piece:?} runs backwards; write {last}-{first}"));
            }
            tasks.listed.extend((first..=last).step_by(step as usize));
        }
        Ok(tasks)
    }
}

fn count(text: &str) -> Result<u32, String> {
    match text.trim().parse::<u64>() {
        Ok(0) => Err("a task count must be at least 1".to_owned()),
        Ok(n) if n <= u64::from(MAX_TASKS) => Ok(n as u32),
        Ok(n) => Err(format!("{n} tasks are too many; knee runs at most {MAX_TASKS} at once")),
        Err(_) => Err(format!("{text:?} is not a task count; write 1,2,4 or 1-8 or auto")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<u32> {
        text.parse::<Tasks>().unwrap().listed.into_iter().collect()
    }

    #[test]
    fn lists_ranges_and_steps_can_be_mixed() {
        assert_eq!(listed("4,1,2"), [1, 2, 4]);
        assert_eq!(listed("1-3,8-16:4"), [1, 2, 3, 8, 12, 16]);
        assert!("auto,64".parse::<Tasks>().unwrap().auto);
    }

    #[test]
    fn invalid_task_counts_are_rejected_with_a_reason() {
        let refusal = |text: &str| text.parse::<Tasks>().unwrap_err();
        assert!(refusal("0").contains("at least 1"));
        assert!(refusal("1000000").contains("too many"));
        assert!(refusal("1-99999999999999999999").contains("not a task count"));
        assert!(refusal("-1").starts_with("\"-1\" is not a task count"));
        assert!(refusal("4-2").contains("2-4"));
        assert!(refusal("two").contains("two"));
        assert!(refusal("").contains("not a task count"));
        assert!(refusal("1-8:0").contains("at least 1"));
    }
}

//! Which counters this machine has, and why it lacks the others.

use std::collections::BTreeMap;
use std::{fmt, io};

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counter::Counter;
use super::event::{self, Begin};
use crate::perf_event::paranoid;
use crate::virtualisation::hypervisor;

/// The counters of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterSet {
    /// Those that are counted.
    pub counters: Vec<Counter>,
    /// Whether they count only user mode, because counting the kernel is not permitted. CPU time always
    /// includes the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user_only: bool,
    /// The requested counters that cannot be counted, by the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, Vec<Counter>>,
}

/// No requested counter can be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot count {0}")]
pub struct NoCounters(String);

impl CounterSet {
    /// Those of the counters `asked` that this process can open.
    ///
    /// # Errors
    /// There are none.
    pub fn find(asked: &[Counter]) -> Result<Self, NoCounters> {
        Self::of(asked, |counter, user_only| event::open(counter, 0, user_only, Begin::Now))
    }

    /// Tries to open each of the counters `asked` with `open`, whose second argument requests only user mode.
    fn of<T>(
        asked: &[Counter],
        open: impl Fn(Counter, bool) -> io::Result<T>,
    ) -> Result<Self, NoCounters> {
        let is_denied = |error: &io::Error| {
            matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM))
        };
        let user_only =
            asked.iter().any(|&counter| open(counter, false).is_err_and(|e| is_denied(&e)));
        let mut set = Self { user_only, ..Self::default() };
        for &counter in asked {
            if set.counters.contains(&counter) {
                continue;
            }
            let reason = match open(counter, user_only) {
                Ok(_) if user_only && counter.is_of_kernel() => denied(1, paranoid()),
                Ok(_) => {
                    set.counters.push(counter);
                    continue;
                }
                Err(error) if is_denied(&error) => denied(2, paranoid()),
                Err(error) => missing(counter, &error),
            };
            set.unavailable.entry(reason).or_default().push(counter);
        }
        match set.counters.is_empty() {
            true => Err(NoCounters(set.what_is_unavailable().unwrap_or_default())),
            false => Ok(set),
        }
    }

    /// `cycles and instructions (REASON)`; `None` if everything requested is counted.
    pub fn what_is_unavailable(&self) -> Option<String> {
        let one = |(reason, counters): (&String, &Vec<Counter>)| {
            format!("{} ({reason})", names(counters))
        };
        let all: Vec<String> = self.unavailable.iter().map(one).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

impl fmt::Display for CounterSet {
    /// `cycles, page-faults in user mode`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.user_only { " in user mode" } else { "" };
        write!(f, "{}{mode}", names(&self.counters))
    }
}

/// `cycles, page-faults`
fn names(counters: &[Counter]) -> String {
    counters.iter().map(|counter| counter.name()).collect::<Vec<_>>().join(", ")
}

/// The reason for a refusal, if `needed` is the greatest setting that permits the counter. The rules:
/// Documentation/admin-guide/sysctl/kernel.rst, and levels 3 and 4 of Debian and Ubuntu.
fn denied(needed: i32, paranoid: Option<i32>) -> String {
    if paranoid.is_some_and(|level| level <= needed) {
        return "not permitted: in a container, seccomp must allow perf_event_open; otherwise run knee as \
                root or with CAP_PERFMON"
            .to_owned();
    }
    let is = paranoid.map_or(String::new(), |level| format!(", but it is {level}"));
    format!(
        "not permitted: kernel.perf_event_paranoid must be {needed} or less{is}; run `sysctl \
         kernel.perf_event_paranoid={needed}` as root"
    )
}

/// The reason for an error that no permission changes.
fn missing(counter: Counter, error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOSYS) => "this kernel is built without CONFIG_PERF_EVENTS".to_owned(),
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL)
            if counter.is_of_processor() =>
        {
            no_hardware(hypervisor().is_some(), event::open(Counter::Cycles, 0, true, Begin::Now))
        }
        _ => format!("perf_event_open: {error}"),
    }
}

/// The reason why the processor lacks a counter, on a virtual machine or not. `cycles` says whether the processor
/// counts at least cycles.
fn no_hardware<T>(is_virtual: bool, cycles: io::Result<T>) -> String {
    match (cycles, is_virtual) {
        (Ok(_), _) => "this processor does not count that",
        (Err(_), true) => {
            "this virtual machine has no hardware counters; enable its PMU, with QEMU by -cpu \
             host,pmu=on"
        }
        (Err(_), false) => "this machine has no hardware counters that the kernel can use",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(open: impl Fn(Counter, bool) -> Result<(), Errno>) -> Result<CounterSet, NoCounters> {
        let asked = [Counter::Cycles, Counter::ContextSwitches, Counter::PageFaults];
        CounterSet::of(&asked, |counter, user_only| open(counter, user_only).map_err(Into::into))
    }

    #[test]
    fn a_counter_that_is_missing_does_not_stop_the_others() {
        let found = set(|counter, _| match counter {
            Counter::Cycles => Err(Errno::NOENT),
            _ => Ok(()),
        });
        let found = found.unwrap();
        assert_eq!(found.counters, [Counter::ContextSwitches, Counter::PageFaults]);
        assert!(!found.user_only);
        assert!(found.what_is_unavailable().unwrap().starts_with("cycles (this "), "{found:?}");
        assert_eq!(set(|_, _| Ok(())).unwrap().what_is_unavailable(), None);
    }

    #[test]
    fn user_mode_is_counted_where_the_kernel_may_not_be() {
        let found = set(|_, user_only| if user_only { Ok(()) } else { Err(Errno::ACCESS) });
        let found = found.unwrap();
        assert_eq!(found.counters, [Counter::Cycles, Counter::PageFaults]);
        assert!(found.user_only);
        let reason = found.what_is_unavailable().unwrap();
        assert!(reason.starts_with("context-switches (not permitted"), "{reason}");
    }

    #[test]
    fn a_set_without_counters_is_an_error_that_says_why() {
        let error = set(|_, _| Err(Errno::PERM)).unwrap_err().to_string();
        let expected = "cannot count cycles, context-switches, page-faults (not permitted: ";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_refusal_names_the_setting_to_change() {
        let text = denied(2, Some(3));
        assert!(text.contains("must be 2 or less, but it is 3; run `sysctl"), "{text}");
        assert!(denied(1, None).contains("must be 1 or less; run"));
        assert!(denied(2, Some(-1)).contains("seccomp"));
    }

    #[test]
    fn a_virtual_machine_without_counters_is_told_from_a_processor_without_one_of_them() {
        let none = || Err::<(), _>(io::Error::from(Errno::NOENT));
        assert!(no_hardware(true, none()).contains("pmu=on"));
        assert!(no_hardware(false, none()).contains("this machine"));
        assert!(no_hardware(true, Ok(())).contains("this processor"));
    }
}

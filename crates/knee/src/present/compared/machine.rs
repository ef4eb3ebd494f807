//! How the machine itself changed between two runs.

use knee_host::number::spread;
use knee_results::{Compared, MachineChange, Results};

use super::change::change;

/// Smallest drift to report. The reference loop itself varies by up to half a percent.
const MIN_REPORTED: f64 = 0.005;

/// Notes on how the speed of the machine changed between the runs.
pub(super) fn notes(before: &Results, compared: &Compared) -> Vec<String> {
    let [cpu, memory] = ranges(compared);
    let is_measured_here = before.origin.is_some() && !compared.in_turns;
    if is_measured_here && cpu.is_none() && !compared.points.is_empty() {
        return vec![
            "a run has no record of the speed of the machine, so a difference may be drift; to cancel drift, \
             measure in interleaved rounds: knee ab"
                .to_owned(),
        ];
    }
    let cpu = cpu.filter(Range::is_worth_a_word).map(|range| {
        format!("{}, as measured with a loop that never enters the kernel", range.of("the machine"))
    });
    let memory =
        memory.map(|range| format!("{}, perhaps because other work used it", range.of("memory")));
    let note = |what| {
        format!(
            "{what}; each interval covers the results with and without correction for this drift; \
             to cancel drift, measure in interleaved rounds: knee ab"
        )
    };
    cpu.into_iter().chain(memory).map(note).collect()
}

/// What is divided out of the results; `None` if nothing is known of the machine.
pub(super) fn divided_out(compared: &Compared) -> Option<String> {
    let [cpu, memory] = ranges(compared);
    let memory = memory.map_or(String::new(), |range| format!("; memory {}", range.show()));
    Some(format!("{}{memory}", cpu?.show()))
}

/// How the CPUs and memory changed; `None` where it is unknown, and for memory also where it is
/// within chance.
fn ranges(compared: &Compared) -> [Option<Range>; 2] {
    let kinds: [fn(&MachineChange) -> Option<f64>; 2] =
        [|change| change.cpu, MachineChange::sure_memory];
    kinds.map(|kind| Range::of_all(compared.machine.values().filter_map(kind)))
}

/// The least and the greatest change over the task counts, after divided by before.
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    fn of_all(mut changes: impl Iterator<Item = f64>) -> Option<Self> {
        let first = changes.next()?;
        let all = Self { least: first, most: first };
        Some(changes.fold(all, |all, change| Self {
            least: all.least.min(change),
            most: all.most.max(change),
        }))
    }

    fn is_worth_a_word(&self) -> bool {
        [self.least, self.most].iter().any(|change| (change - 1.0).abs() >= MIN_REPORTED)
    }

    /// The one change of all task counts, if there is one.
    fn only(&self) -> Option<f64> {
        (self.most - self.least < MIN_REPORTED).then_some(self.least)
    }

    /// `+5.00%`, or `-1.00% to +5.00%` if the task counts differ.
    fn show(&self) -> String {
        self.only()
            .map_or_else(|| format!("{} to {}", change(self.least), change(self.most)), change)
    }

    fn of(&self, what: &str) -> String {
        let Some(only) = self.only() else {
            return format!(
                "the speed of {what} changed by {} from the first run to the second, depending on \
                 the task count",
                self.show()
            );
        };
        let how = if only > 1.0 { "faster" } else { "slower" };
        format!(
            "{what} was {} {how} in the second run than in the first",
            spread((only - 1.0).abs())
        )
    }
}

//! Progress of a run. knee updates it only between rounds, so that it does not disturb a
//! measurement.

use std::io::IsTerminal;

use knee_results::PointId;
use knee_run::job::FailureKind;
use knee_run::record::{PointFailure, Rounds, RunRecord};
use knee_run::sweep::{Estimate, Observer};

use super::view::{Format, View};
use super::{failures, table};
use crate::progress::{Amount, Progress};
use crate::stderr::{self, tell};

/// A run of more seconds than this shows its progress before its first round, which may be long.
const LONG: f64 = 2.0;
/// If more seconds than this are left after the first round, the reader gets a first table. The quick set
/// has about 80 left.
const FIRST_TABLE: f64 = 45.0;

/// Shows the rounds of a run as progress, and failures as they happen.
pub(crate) struct RunProgress {
    progress: Progress,
    /// How to print a first table.
    first_table: Option<View<'static>>,
    is_quiet: bool,
    /// Whether failures are printed as they happen.
    tells_failures: bool,
    /// Whether points that this machine cannot measure are left to the results, which list them.
    leaves_unmeasurable: bool,
    failed: usize,
    has_begun: bool,
}

impl RunProgress {
    /// `format` is the format of the results that follow.
    pub(crate) fn new(is_quiet: bool, format: Format) -> Self {
        let tells_failures = !shows_notes(format);
        let progress = Progress::new(is_quiet);
        let leaves_unmeasurable = is_quiet && format == Format::Human;
        Self {
            progress,
            first_table: None,
            is_quiet,
            tells_failures,
            leaves_unmeasurable,
            failed: 0,
            has_begun: false,
        }
    }

    /// Prints a first table after the first round if the others take long, unless the run is quiet.
    pub(crate) fn with_first_table(mut self, view: View<'static>) -> Self {
        self.first_table = Some(view).filter(|_| !self.is_quiet);
        self
    }
}

impl Observer for RunProgress {
    fn round(&mut self, point: &PointId, round: u32, estimate: &Estimate) {
        let &Estimate { done, of, at_most, repeats, left } = estimate;
        let is_long = left.is_none_or(|left| left > LONG);
        if !std::mem::replace(&mut self.has_begun, true) && is_long {
            self.progress.show_at_once();
        }
        // The total grows with each round that does not count.
        let unit = at_most.map_or("rounds".to_owned(), |most| format!("rounds (at most {most})"));
        let amount = Amount { done: done as u64, of: of as u64, unit: &unit };
        let failed = match self.failed {
            0 => String::new(),
            n => format!("{n} failed; "),
        };
        let again = if repeats { " (repeats disturbed rounds)" } else { "" };
        let what = || format!("{failed}{point}, round {}{again}", round + 1);
        self.progress.show_with(&amount, left, what);
    }

    fn first_round_ended(&mut self, run: &RunRecord, rounds: &Rounds, left: Option<f64>) {
        let is_long = left.is_some_and(|left| left > FIRST_TABLE);
        if let Some(view) = self.first_table.take().filter(|_| is_long) {
            let table = table::after_first_round(run, &run.curves(rounds), &view);
            stderr::text(&format!("{}\n", table.trim_end()));
        }
    }

    fn latency_failed(&mut self, PointFailure { point, round, failure }: &PointFailure) {
        if self.tells_failures {
            tell!(
                "knee: the latency of round {} of {point} is missing: {}; {}",
                round + 1,
                failure.reason,
                failure.remedy
            );
        }
    }

    fn repeat_failed(&mut self, failure: &PointFailure) {
        if self.tells_failures {
            tell!("knee: {}; knee uses the rounds before it", failures::of_round(failure));
        }
    }

    fn failed(&mut self, failure: &PointFailure) {
        self.failed += 1;
        let is_left = self.leaves_unmeasurable && failure.failure.kind == FailureKind::CannotRun;
        if self.tells_failures && !is_left {
            tell!("knee: {}", failures::line(failure));
        }
    }
}

/// Whether the reader of standard error also sees the failures and notes of the results.
pub(crate) fn shows_notes(format: Format) -> bool {
    shows_notes_on(format, std::io::stdout().is_terminal())
}

fn shows_notes_on(format: Format, is_terminal: bool) -> bool {
    format == Format::Human && is_terminal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_at_a_terminal_reads_each_failure_once() {
        assert!(shows_notes_on(Format::Human, true));
        assert!(!shows_notes_on(Format::Human, false));
        assert!(!shows_notes_on(Format::Json, true));
    }
}

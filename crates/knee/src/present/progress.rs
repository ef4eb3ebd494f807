//! Progress of a run. knee updates it only between rounds, so that it does not disturb a
//! measurement.

use std::io::IsTerminal;

use knee_results::PointId;
use knee_run::job::FailureKind;
use knee_run::record::PointFailure;
use knee_run::sweep::{Estimate, Observer};

use super::failures;
use super::view::Format;
use crate::progress::{Amount, Progress};
use crate::stderr::tell;

/// A run of more seconds than this shows its progress before its first round, which may be long.
const LONG: f64 = 2.0;

/// Shows the rounds of a run as progress, and failures as they happen.
pub(crate) struct RunProgress {
    progress: Progress,
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
        Self { progress, tells_failures, leaves_unmeasurable, failed: 0, has_begun: false }
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

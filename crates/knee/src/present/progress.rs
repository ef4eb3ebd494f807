//! How a run gets on: a bar on a terminal, plain lines elsewhere. Both change only between
//! rounds, when nothing is being measured.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use knee_host::number::duration;
use knee_results::PointId;
use knee_run::record::PointFailure;
use knee_run::sweep::Observer;

use super::{Format, failures};
use crate::stderr::tell;

/// Most redraws of the bar per second.
const REDRAWS: u8 = 5;
/// Between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows progress on standard error.
pub(crate) struct Progress {
    style: Style,
    /// Whether failures are told as they happen.
    tells_failures: bool,
    failed: usize,
}

enum Style {
    Quiet,
    Bar(ProgressBar),
    Lines { last: Option<Instant> },
}

impl Progress {
    /// `format` is that of the results to come.
    pub(crate) fn new(quiet: bool, format: Format) -> Self {
        use std::io::IsTerminal;
        let tells_failures = !repeats_failures(format, std::io::stdout().is_terminal());
        let style = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Style::Quiet,
            (false, false) => Style::Lines { last: None },
            (false, true) => {
                let bar = ProgressBar::with_draw_target(
                    None,
                    ProgressDrawTarget::stderr_with_hz(REDRAWS),
                );
                let template = "{bar:24} {pos}/{len} rounds  {wide_msg}";
                bar.set_style(
                    ProgressStyle::with_template(template)
                        .expect("a constant template")
                        .progress_chars("█▌·"),
                );
                Style::Bar(bar)
            }
        };
        Self { style, tells_failures, failed: 0 }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Progress {
    fn round(&mut self, point: &PointId, round: u32, done: usize, of: usize, left: Option<f64>) {
        let left = left.map_or("?".to_owned(), duration);
        match &mut self.style {
            Style::Quiet => {}
            Style::Bar(bar) => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
                let failed = match self.failed {
                    0 => String::new(),
                    n => format!(", {n} failed"),
                };
                bar.set_message(format!("{left} left{failed}  {point}, round {}", round + 1));
            }
            Style::Lines { last } => {
                if last.is_none_or(|last| last.elapsed() >= LINE_INTERVAL) {
                    *last = Some(Instant::now());
                    tell!("knee: {done} of {of} rounds, {left} left");
                }
            }
        }
    }

    fn failed(&mut self, failure: &PointFailure) {
        self.failed += 1;
        if !self.tells_failures {
            return;
        }
        let text = failures::line(failure);
        match &self.style {
            Style::Bar(bar) => bar.suspend(|| tell!("knee: {text}")),
            _ => tell!("knee: {text}"),
        }
    }
}

/// Whether the same reader finds the failures in the results.
fn repeats_failures(format: Format, on_terminal: bool) -> bool {
    format == Format::Human && on_terminal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_at_a_terminal_reads_each_failure_once() {
        assert!(repeats_failures(Format::Human, true));
        assert!(!repeats_failures(Format::Human, false));
        assert!(!repeats_failures(Format::Json, true));
    }
}

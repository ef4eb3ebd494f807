//! Progress of a command: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use knee_host::number::duration;
use knee_host::text::{Screen, one_line, plain};

use crate::stderr::{self, tell};

/// Time between two updates of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(200);
/// Time from the start to the first line. Shorter work prints no lines.
const FIRST_LINE: Duration = Duration::from_secs(2);
/// Time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows the progress of a command on standard error.
pub(crate) struct Progress {
    style: Style,
    start: Instant,
    /// The time and amount of the first results. The pace is measured from then, because guests boot first.
    first: Option<(Instant, u64)>,
    /// Amount that was already done when a run was resumed.
    done_before: u64,
    next: Instant,
}

enum Style {
    Quiet,
    Bar(ProgressBar),
    Lines,
}

/// How much of the work is done.
pub(crate) struct Amount<'a> {
    pub(crate) done: u64,
    pub(crate) of: u64,
    /// What is counted, in the plural: `tests`.
    pub(crate) unit: &'a str,
}

impl Progress {
    /// A bar if standard error is a terminal.
    pub(crate) fn new(is_quiet: bool) -> Self {
        match !is_quiet && std::io::stderr().is_terminal() {
            true => Self::with(Style::Bar(bar())),
            false => Self::lines(is_quiet),
        }
    }

    /// Lines, for a command that shares its terminal with other output.
    pub(crate) fn lines(is_quiet: bool) -> Self {
        Self::with(if is_quiet { Style::Quiet } else { Style::Lines })
    }

    fn with(style: Style) -> Self {
        let start = Instant::now();
        let first = if matches!(style, Style::Bar(_)) { BAR_INTERVAL } else { FIRST_LINE };
        Self { style, start, first: None, done_before: 0, next: start + first }
    }

    /// Sets the amount that was already done when a run was resumed.
    pub(crate) fn resumed_at(mut self, done: u64) -> Self {
        self.done_before = done;
        self
    }

    /// Makes the first update due at once, for work whose first step may take minutes.
    pub(crate) fn show_at_once(&mut self) {
        self.next = self.start;
    }

    /// Shows the amount and the remaining time if an update is due. Estimates the remaining time
    /// from the pace since the first results. `about` returns further text to show, or an empty string.
    pub(crate) fn show(&mut self, amount: &Amount<'_>, about: impl FnOnce() -> String) {
        let left = self.left(amount);
        self.show_with(amount, left, about);
    }

    /// The remaining seconds at the pace since the first results.
    fn left(&mut self, amount: &Amount<'_>) -> Option<f64> {
        if amount.done <= self.done_before {
            return None;
        }
        let (since, before) = *self.first.get_or_insert_with(|| (Instant::now(), amount.done));
        let new = amount.done.checked_sub(before).filter(|&new| new > 0)?;
        let ahead = amount.of.saturating_sub(amount.done);
        Some(since.elapsed().as_secs_f64() / new as f64 * ahead as f64)
    }

    /// Like [`Progress::show`], but the caller passes the remaining seconds, if known.
    pub(crate) fn show_with(
        &mut self,
        amount: &Amount<'_>,
        left: Option<f64>,
        about: impl FnOnce() -> String,
    ) {
        if !self.is_due() {
            return;
        }
        let Amount { done, of, unit } = amount;
        let left = left.map_or(String::new(), |left| format!(", {} left", duration(left)));
        let text = match about() {
            about if about.is_empty() => format!("{done} of {of} {unit}{left}"),
            about => format!("{done} of {of} {unit}{left}; {about}"),
        };
        match &self.style {
            Style::Quiet => {}
            Style::Bar(bar) => {
                bar.set_length(*of);
                bar.set_position(*done);
                bar.set_message(plain(&one_line(&text)).into_owned());
            }
            Style::Lines => tell!("knee: {text}"),
        }
    }

    /// Shows `text` if an update is due, for work of unknown length.
    pub(crate) fn show_text(&mut self, text: impl FnOnce() -> String) {
        if self.is_due() {
            match &self.style {
                Style::Quiet => {}
                Style::Bar(bar) => bar.set_message(plain(&one_line(&text())).into_owned()),
                Style::Lines => tell!("knee: {}", text()),
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let interval = match self.style {
            Style::Quiet => return false,
            Style::Bar(_) => BAR_INTERVAL,
            Style::Lines => LINE_INTERVAL,
        };
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = now + interval;
        }
        is_due
    }
}

/// Removes the bar.
impl Drop for Progress {
    fn drop(&mut self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
            stderr::set_bar(None);
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let symbols = if Screen::of_stderr().is_ascii { "#>." } else { "█▌·" };
    let style = ProgressStyle::with_template("{bar:24} {wide_msg}").expect("a constant template");
    bar.set_style(style.progress_chars(symbols));
    stderr::set_bar(Some(bar.clone()));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_due_after_two_seconds_and_the_next_ten_seconds_later() {
        let mut progress = Progress::lines(false);
        let amount = Amount { done: 1, of: 2, unit: "tests" };
        progress.show(&amount, || unreachable!("the first line is due in two seconds"));
        progress.next = Instant::now();
        let mut is_shown = false;
        progress.show(&amount, || {
            is_shown = true;
            String::new()
        });
        assert!(is_shown);
        progress.show(&amount, || unreachable!("the next line is due in ten seconds"));
    }

    #[test]
    fn quiet_progress_is_never_due() {
        let mut progress = Progress::new(true);
        progress.next = Instant::now();
        progress.show_text(|| unreachable!("quiet"));
    }
}

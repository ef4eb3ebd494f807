//! Standard error, for messages other than results. Control characters in names and messages do not
//! reach it.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::Mutex;

use indicatif::ProgressBar;
use knee_host::text::{Screen, clean, for_terminal, one_line};

use crate::writing::while_writing;

/// The progress bar on the terminal, if any.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Sets the progress bar. [`line()`] writes above it.
pub(crate) fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = bar;
}

/// Removes the progress bar, if any, before the last message.
pub(crate) fn remove_bar() {
    let bar = BAR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    if let Some(bar) = bar {
        while_writing(|| bar.finish_and_clear());
    }
}

/// Writes a message in one line above the progress bar, if any, and wraps it to fit the terminal. Ignores
/// write errors, such as a full disk, so that the command continues.
pub(crate) fn line(message: Arguments<'_>) {
    text(&one_line(&message.to_string()));
}

/// Like [`line()`], for text that has lines.
pub(crate) fn text(text: &str) {
    let text = Screen::of_stderr().wrap(&clean(text), "  ");
    let write = || {
        let _ = writeln!(anstream::stderr().lock(), "{}", for_terminal(&text));
    };
    let bar = BAR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    while_writing(|| match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    });
}

/// Like `eprintln!`, but does not panic if the line cannot be written.
macro_rules! tell {
    ($($argument:tt)*) => { crate::stderr::line(format_args!($($argument)*)) };
}
pub(crate) use tell;

/// Warns that the rates of a debug build are meaningless.
pub(crate) fn tell_of_debug_build() {
    if cfg!(debug_assertions) {
        tell!(
            "knee: this is a debug build, so the rates of its testcases are meaningless; build \
             knee with --release"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_bar_is_not_drawn_again_by_a_message() {
        let bar = ProgressBar::hidden();
        set_bar(Some(bar.clone()));
        remove_bar();
        assert!(bar.is_finished());
        assert!(BAR.lock().unwrap().is_none());
    }
}

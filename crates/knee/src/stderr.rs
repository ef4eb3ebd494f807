//! Standard error: words beside the results.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line. Where it cannot be written, on a full disk for instance, the work goes on.
pub(crate) fn line(text: Arguments<'_>) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Like `eprintln!`, which would end knee if the line cannot be written.
macro_rules! tell {
    ($($argument:tt)*) => { crate::stderr::line(format_args!($($argument)*)) };
}
pub(crate) use tell;

/// That a rate of this knee is no rate of the testcase, where that is so.
pub(crate) fn tell_of_debug_build() {
    if cfg!(debug_assertions) {
        tell!(
            "knee: this is a debug build, and so are its testcases: their rates mean nothing; build knee with \
             --release"
        );
    }
}

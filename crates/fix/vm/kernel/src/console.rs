//! The serial console.

use core::fmt::{self, Write};

use crate::arch;
use crate::lock::Lock;

pub(crate) struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(arch::put_byte);
        Ok(())
    }
}

/// Prints a line.
pub(crate) fn print(line: fmt::Arguments<'_>) {
    static LOCK: Lock<()> = Lock::new(());
    let _lock = LOCK.lock();
    let _ = writeln!(Console, "{line}");
}

macro_rules! println {
    ($($argument:tt)*) => {
        $crate::console::print(format_args!($($argument)*))
    };
}
pub(crate) use println;

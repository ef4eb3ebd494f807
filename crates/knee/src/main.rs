//! The program `knee`. Everything is in the library, which the compiler can start with before the testcases are
//! optimised.

use std::process::ExitCode;

fn main() -> ExitCode {
    knee::main()
}

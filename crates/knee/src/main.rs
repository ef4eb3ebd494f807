//! The program `knee`. All code is in the library, so that Cargo can compile it while it still optimises the testcases.

use std::process::ExitCode;

fn main() -> ExitCode {
    knee::main()
}

//! Checks of programs that testcases need.

use knee_host::process::program;

use super::check::{Finding, command, missing, ok};

/// Checks for a C compiler.
pub(super) fn compiler() -> Finding {
    match program::find("cc") {
        Some(cc) => {
            let version = program::version(&cc).unwrap_or_else(|| "unknown version".to_owned());
            ok(format!("{} ({version})", cc.display()))
        }
        None => missing("no cc on PATH", command("sudo apt-get install -y gcc libc6-dev")),
    }
}

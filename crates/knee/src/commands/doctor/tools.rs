//! Programs that come in packages.

use super::{Check, command};
use knee_measure::machine::program;

/// The C compiler of the machine.
pub(super) fn compiler() -> Check {
    let check = |detail: String| {
        Check::ok("C compiler", "knee run: build1, and your --plugin files", detail)
    };
    match program::find("cc") {
        Some(cc) => {
            let version = program::version(&cc).unwrap_or_else(|| "unknown version".to_owned());
            check(format!("{} ({version})", cc.display()))
        }
        None => check("no cc on PATH".to_owned())
            .missing(command("sudo apt-get install -y gcc libc6-dev")),
    }
}

//! Programs that come in packages.

use super::{Check, command, statement};
use knee_measure::machine::program;
use knee_trace::{Emulator, EmulatorError, GuestError, qemu_user_version};

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

/// The QEMU that guests run in, as KNEE_QEMU says.
pub(super) fn qemu() -> Check {
    let check = |detail: String| Check::ok("QEMU", "knee commute: kernels in guests", detail);
    let named = std::env::var("KNEE_QEMU").unwrap_or_default();
    let version = |emulator: Emulator| Ok((emulator.version()?, emulator.is_installed()));
    match Emulator::present().and_then(version) {
        Ok((version, true)) => check(format!("{version}, installed")),
        Ok((version, false)) => check(format!("{version}, KNEE_QEMU={named}")),
        Err(EmulatorError::Guest(GuestError::NoQemu(program))) => {
            check(format!("no {program} on PATH"))
                .missing(command("sudo apt-get install -y qemu-system-x86"))
        }
        Err(EmulatorError::NotFetched(name)) => {
            check(format!("KNEE_QEMU={name}, which has not been fetched"))
                .missing(command(format!("knee qemu fetch {name}")))
        }
        Err(error) => {
            check(format!("KNEE_QEMU={named} cannot be used")).missing(statement(error.to_string()))
        }
    }
}

/// The QEMU that programs with libraries run in.
pub(super) fn qemu_user() -> Check {
    let needed_for = "knee commute check --program: libraries";
    let check = |detail: String| Check::ok("QEMU user mode", needed_for, detail);
    match qemu_user_version() {
        Ok(version) => check(format!("{version}, installed")),
        Err(GuestError::NoQemu(program)) => check(format!("no {program} on PATH"))
            .missing(command("sudo apt-get install -y qemu-user")),
        Err(error) => {
            check("it cannot be started".to_owned()).missing(statement(error.to_string()))
        }
    }
}

//! Checks of programs that the distribution packages.

use knee_host::process::program;
use knee_trace::{
    Archive, Emulator, EmulatorError, GuestError, GuestOptions, Kernel, calibrate,
    qemu_user_version, user_mode,
};

use super::check::{Check, command, statement};
use crate::stderr::tell;

/// Checks for a C compiler.
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

/// Checks the QEMU for guests, which KNEE_QEMU can select.
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
        Err(error) => check(format!("knee cannot use KNEE_QEMU={named}"))
            .missing(statement(error.to_string())),
    }
}

/// Whether that QEMU shows correctly what CPUs share, tested with an available kernel. `None`
/// without QEMU.
pub(super) fn calibration() -> Option<Check> {
    let emulator = Emulator::present().ok()?;
    emulator.version().ok()?;
    let needed_for = "knee commute check, cost: trustworthy verdicts";
    let check = |detail: String| Check::ok("calibration", needed_for, detail);
    let fetched = Archive::of_user().fetched();
    let kernel = fetched.iter().rev().find_map(|file| Kernel::open(file).ok());
    let Some(kernel) = kernel.or_else(|| Kernel::running().ok()) else {
        let remedy = command("knee kernel fetch bookworm");
        return Some(check("not tried: no kernel has been fetched".to_owned()).limited(remedy));
    };
    let release = kernel.release();
    tell!("knee: calibrating QEMU in a guest with Linux {release}");
    let options = GuestOptions { emulator, ..GuestOptions::default() };
    Some(match calibrate(&kernel, &options) {
        Ok(()) => {
            check(format!("all calibration tests gave the expected verdict on Linux {release}"))
        }
        Err(error) => check(format!("it fails on Linux {release}"))
            .missing(statement(anyhow::Error::from(error).to_string())),
    })
}

/// Checks the user-mode QEMU, which runs programs with libraries.
pub(super) fn qemu_user() -> Check {
    let needed_for = "knee commute check --program: libraries";
    let check = |detail: String| Check::ok("QEMU user mode", needed_for, detail);
    let version = qemu_user_version();
    match version.and_then(|version| user_mode().map(|()| version)) {
        Ok(version) => check(format!("{version}, installed")),
        Err(GuestError::NoQemu(program)) => {
            check(format!("no {program} on PATH; programs run in a guest, which is slower"))
                .limited(command("sudo apt-get install -y qemu-user"))
        }
        Err(GuestError::NoPlugins(_)) => check("it does not support plugins".to_owned()).limited(
            statement("programs run in a guest instead, which takes several seconds to boot"),
        ),
        Err(error) => {
            check("it cannot be started".to_owned()).missing(statement(error.to_string()))
        }
    }
}

//! Checks of what guests of `knee commute` need.

use std::collections::BTreeSet;

use knee_host::number::plural;
use knee_trace::{
    Archive, Disk, Emulator, EmulatorError, GuestError, GuestKernel, GuestOptions, Kernel,
    calibrate, qemu_user_version, user_mode,
};

use super::check::{Check, Finding, check, command, limited, missing, ok, statement};
use crate::stderr::tell;

/// All checks for guests.
pub(super) fn checks() -> [Option<Check>; 5] {
    [
        check("QEMU", "knee commute check and cost run kernels in guests under QEMU", qemu()),
        check("kernels", "knee commute check and cost boot a kernel", kernels()),
        check(
            "file systems",
            "knee commute check --fs makes file systems for guests",
            file_systems(),
        ),
        check(
            "QEMU user mode",
            "knee commute check --program traces libraries under QEMU's user mode",
            qemu_user(),
        ),
        check(
            "calibration",
            "knee commute check and cost give correct results only if calibration succeeds",
            calibration(),
        ),
    ]
}

/// Checks the QEMU for guests, which KNEE_QEMU can select.
fn qemu() -> Finding {
    let named = std::env::var("KNEE_QEMU").unwrap_or_default();
    let version = |emulator: Emulator| Ok((emulator.version()?, emulator));
    match Emulator::present().and_then(version) {
        Ok((version, emulator)) => {
            let place = match emulator.is_installed() {
                true => "installed".to_owned(),
                false => format!("KNEE_QEMU={named}"),
            };
            match emulator.has_sandbox() {
                true => ok(format!("{version}, {place}")),
                false => limited(
                    format!("{version}, {place}, without its sandbox (-sandbox on)"),
                    statement(
                        "run only kernels that you trust, or set KNEE_QEMU to a QEMU with seccomp",
                    ),
                ),
            }
        }
        Err(EmulatorError::Guest(GuestError::NoQemu(program))) => missing(
            format!("no {program} on PATH"),
            command("sudo apt-get install -y qemu-system-x86"),
        ),
        Err(EmulatorError::NotFetched(name)) => missing(
            format!("KNEE_QEMU={name}, which has not been fetched"),
            command(format!("knee qemu fetch {name}")),
        ),
        Err(EmulatorError::Changed { wanted, .. }) => missing(
            format!("KNEE_QEMU={wanted}, whose files have changed since they were fetched"),
            command(format!("knee qemu fetch {wanted}")),
        ),
        Err(error) => {
            missing(format!("knee cannot use KNEE_QEMU={named}"), statement(error.to_string()))
        }
    }
}

/// Whether that QEMU shows correctly what CPUs share, tested with an available kernel. `None`
/// without QEMU.
fn calibration() -> Option<Finding> {
    let emulator = Emulator::present().ok()?;
    emulator.version().ok()?;
    let fetched = Archive::of_user().map(|archive| archive.fetched()).unwrap_or_default();
    let kernel = fetched.iter().rev().find_map(|file| Kernel::open(file).ok());
    let Some(kernel) = kernel.or_else(|| Kernel::running().ok()) else {
        let remedy = command("knee kernel fetch bookworm");
        return Some(limited("not tested: no kernel is available", remedy));
    };
    let release = kernel.release().to_owned();
    tell!("knee: calibrating QEMU in a guest with Linux {release}");
    let options = GuestOptions { emulator, ..GuestOptions::default() };
    Some(match calibrate(&GuestKernel::Linux(kernel), &options) {
        Ok(()) => ok(format!("all calibration tests gave the expected verdict on Linux {release}")),
        Err(error) => {
            let error = anyhow::Error::from(error);
            missing(format!("fails on Linux {release}"), statement(error.to_string()))
        }
    })
}

/// Checks the user-mode QEMU, which runs programs with libraries.
fn qemu_user() -> Finding {
    let version = qemu_user_version();
    match version.and_then(|version| user_mode().map(|()| version)) {
        Ok(version) => ok(format!("{version}, installed")),
        Err(GuestError::NoQemu(program)) => limited(
            format!("no {program} on PATH; programs run in a guest, which is slower"),
            command("sudo apt-get install -y qemu-user"),
        ),
        Err(GuestError::NoPlugins(_)) => limited(
            "does not support plugins",
            statement("programs run in a guest instead, which takes several seconds to boot"),
        ),
        Err(error) => missing("cannot be started", statement(error.to_string())),
    }
}

/// Checks for the programs that make file systems for guests.
fn file_systems() -> Finding {
    let kinds: Vec<&str> = Disk::kinds().collect();
    let missing: Vec<(&str, &str)> = Disk::missing().collect();
    if missing.is_empty() {
        return ok(format!("mkfs for {}", kinds.join(", ")));
    }
    let names: Vec<&str> = missing.iter().map(|(kind, _)| *kind).collect();
    let packages: BTreeSet<&str> = missing.iter().map(|(_, package)| *package).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    limited(
        format!("no mkfs for {}", names.join(", ")),
        command(format!("sudo apt-get install -y {}", packages.join(" "))),
    )
}

/// Which kernels guests can run without the network.
fn kernels() -> Finding {
    let archive = match Archive::of_user() {
        Ok(archive) => archive,
        Err(error) => return limited("not usable", statement(error.to_string())),
    };
    let dir = archive.dir().display();
    match (archive.fetched().len(), Kernel::running()) {
        (0, Ok(kernel)) => ok(format!(
            "none fetched to {dir}; guests run this machine's kernel, Linux {}",
            kernel.release()
        )),
        (0, Err(_)) => limited(
            format!("none fetched to {dir}, and this machine's kernel cannot be read"),
            command("knee kernel fetch bookworm"),
        ),
        (n, _) => ok(format!("{} in {dir}", plural(n, "package"))),
    }
}

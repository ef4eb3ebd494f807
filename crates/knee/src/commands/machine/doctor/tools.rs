//! Checks of programs that the distribution packages.

use std::collections::BTreeSet;

use knee_host::number::plural;
use knee_host::process::program;
use knee_trace::{
    Archive, Disk, Emulator, EmulatorError, GuestError, GuestKernel, GuestOptions, Kernel,
    calibrate, qemu_user_version, user_mode,
};

use super::check::{Finding, command, limited, missing, ok, statement};
use crate::stderr::tell;

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

/// Checks the QEMU for guests, which KNEE_QEMU can select.
pub(super) fn qemu() -> Finding {
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
            format!("KNEE_QEMU={wanted}, whose files are not those that were fetched"),
            command(format!("knee qemu fetch {wanted}")),
        ),
        Err(error) => {
            missing(format!("knee cannot use KNEE_QEMU={named}"), statement(error.to_string()))
        }
    }
}

/// Whether that QEMU shows correctly what CPUs share, tested with an available kernel. `None`
/// without QEMU.
pub(super) fn calibration() -> Option<Finding> {
    let emulator = Emulator::present().ok()?;
    emulator.version().ok()?;
    let fetched = Archive::of_user().map(|archive| archive.fetched()).unwrap_or_default();
    let kernel = fetched.iter().rev().find_map(|file| Kernel::open(file).ok());
    let Some(kernel) = kernel.or_else(|| Kernel::running().ok()) else {
        let remedy = command("knee kernel fetch bookworm");
        return Some(limited("not tried: no kernel has been fetched", remedy));
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
pub(super) fn qemu_user() -> Finding {
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
pub(super) fn file_systems() -> Finding {
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
pub(super) fn kernels() -> Finding {
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

//! Programs and files that come in packages.

use super::{Check, Remedy, command, statement};
use knee_measure::machine::{Environment, program};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;

/// A QEMU that can load TCG plugins exports this function to them. There is no option that
/// asks for it without starting a machine.
const PLUGIN_FUNCTION: &str = "qemu_plugin_register_vcpu_init_cb";

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

/// The emulator that boots a kernel.
pub(super) fn qemu_system(environment: &Environment) -> Check {
    let package = match environment.architecture.as_str() {
        "x86_64" => "qemu-system-x86",
        "aarch64" => "qemu-system-arm",
        _ => "qemu-system-misc",
    };
    let name = format!("qemu-system-{}", environment.architecture);
    let needed_for = "knee commute check: shared lines in a kernel";
    qemu(Check::ok("QEMU system", needed_for, ""), &name, package)
}

/// The emulator that runs one program.
pub(super) fn qemu_user(environment: &Environment) -> Check {
    let needed_for = "knee commute check: shared lines in a library";
    let name = format!("qemu-{}", environment.architecture);
    qemu(Check::ok("QEMU user mode", needed_for, ""), &name, "qemu-user")
}

fn qemu(check: Check, name: &str, package: &str) -> Check {
    let install = || command(format!("sudo apt-get install -y {package}"));
    let Some(path) = program::find(name) else {
        return Check { detail: format!("no {name} on PATH"), ..check }.missing(install());
    };
    let version = program::version(&path).unwrap_or_else(|| "unknown version".to_owned());
    let at = format!("{} ({version})", path.display());
    if program::contains(&path, PLUGIN_FUNCTION) {
        return Check { detail: format!("{at}, with TCG plugins"), ..check };
    }
    let detail = format!("{at}, built without TCG plugins");
    Check { detail, ..check }.missing(statement(format!(
        "put a QEMU that was configured with --enable-plugins first on PATH; Debian 12's \
         package {package} is one"
    )))
}

/// A kernel to boot under QEMU: that of this machine, so that conflicts are those of the
/// kernel whose curves were measured.
pub(super) fn kernel_image(environment: &Environment) -> Check {
    let release = environment.kernel.split(' ').nth(1).unwrap_or_default();
    let images = [
        PathBuf::from(format!("/boot/vmlinuz-{release}")),
        PathBuf::from(format!("/lib/modules/{release}/vmlinuz")),
    ];
    let needed_for = "knee commute check: the kernel to examine";
    let check = |detail: String| Check::ok("kernel image", needed_for, detail);

    let mut unreadable = None;
    for image in &images {
        match File::open(image) {
            Ok(_) => return check(image.display().to_string()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                unreadable = Some(image.display().to_string());
            }
            Err(_) => {}
        }
    }
    if let Some(image) = unreadable {
        return check(format!("{image} is not readable for this user"))
            .missing(command(format!("sudo chmod a+r {image}")));
    }
    let check = check(format!("no image of the running kernel {release}"));
    match other_images().first() {
        Some(other) => {
            let note = format!("{} can be examined instead", other.display());
            check.limited(statement(note))
        }
        None => check.missing(install_kernel(&environment.architecture)),
    }
}

/// Readable kernels of other releases.
fn other_images() -> Vec<PathBuf> {
    let files = fs::read_dir("/boot").into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    let mut images: Vec<PathBuf> =
        files.filter(named).filter(|image| File::open(image).is_ok()).collect();
    images.sort();
    images
}

fn install_kernel(architecture: &str) -> Remedy {
    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let debian_name = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let package = match os_release.lines().any(|line| line == "ID=ubuntu") {
        true => "linux-image-generic".to_owned(),
        false => format!("linux-image-{debian_name}"),
    };
    command(format!("sudo apt-get install -y {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_that_is_not_there_names_its_package() {
        let check = qemu(Check::ok("QEMU", "x", ""), "qemu-of-nobody", "qemu-user");
        assert_eq!(check.status, super::super::Status::Missing);
        assert_eq!(check.remedy, Some(command("sudo apt-get install -y qemu-user")));
    }
}

//! QEMU's own system-call filter (docs/system/security.rst of QEMU), so that a guest that breaks out of
//! QEMU cannot start programs or change privileges.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use knee_host::process::status;

/// Denies each group of system calls that knee's guests do not need.
const FILTER: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// With these arguments, QEMU installs the filter, prints a list and exits.
const PROBE: [&str; 2] = ["-cpu", "help"];

/// The arguments that turn on the filter, for the QEMU that `command` starts; none if this QEMU was built
/// without seccomp, or if the host does not permit filters. The first call for a QEMU starts it. Later
/// calls return the cached answer.
pub(super) fn arguments(command: Command) -> &'static [&'static str] {
    const ARGUMENTS: [&str; 2] = ["-sandbox", FILTER];
    static KNOWN: Mutex<BTreeMap<Vec<OsString>, bool>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(OsStr::to_owned).collect();
    let works = *known.entry(words).or_insert_with(|| works(command, &ARGUMENTS));
    if works { &ARGUMENTS } else { &[] }
}

fn works(mut command: Command, arguments: &[&str]) -> bool {
    command.args(arguments).args(PROBE);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    status(&mut command).is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_qemu_that_refuses_the_filter_runs_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let qemu = |name: &str, script: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            Command::new(file)
        };
        let with = arguments(qemu("with", "[ \"$1\" = -sandbox ]"));
        assert_eq!(with.first(), Some(&"-sandbox"));
        let without = "echo '-sandbox support is not enabled in this QEMU binary' >&2; exit 1";
        assert_eq!(arguments(qemu("without", without)), [""; 0]);
    }
}

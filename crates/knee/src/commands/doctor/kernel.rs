//! What the running kernel offers and allows.

use super::{Check, command, statement};
use knee_measure::machine::Environment;
use knee_measure::machine::probe::{self, PerfEvent};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

/// The value up to which an ordinary user may sample the kernel, see
/// Documentation/admin-guide/sysctl/kernel.rst.
const PARANOID_KERNEL_SAMPLES: i64 = 1;

/// The barrier that makes the read side of knee-sync free.
pub(super) fn membarrier() -> Check {
    let check = |detail: String| {
        Check::ok("membarrier", "knee-sync: sections without a fence on the read side", detail)
    };
    match probe::membarrier() {
        Ok(()) => check("private expedited".to_owned()),
        Err(error) => check(error.to_string()).limited(statement(
            "not in this kernel, or filtered by the sandbox; knee-sync falls back to fences",
        )),
    }
}

/// Whether the processor's event counters can be used.
pub(super) fn hardware_counters(environment: &Environment) -> Check {
    let check = |detail: &str| {
        Check::ok("hardware counters", "knee profile: cycles and cache misses", detail)
    };
    if probe::perf_event(PerfEvent::Cycles).is_ok() {
        return check("cycles in user and kernel mode");
    }
    // Asking for the kernel's cycles is refused before the kernel looks for a counter; asking
    // for less tells which of both is the obstacle.
    let Err(error) = probe::perf_event(PerfEvent::UserCycles) else {
        return check("cycles in user mode only").limited(allow_kernel_samples());
    };
    match (error.kind(), &environment.hypervisor) {
        (ErrorKind::NotFound, Some(hypervisor)) => check("none: this virtual machine has no PMU")
            .limited(statement(format!(
                "nothing inside the guest can mend it, its {hypervisor} host would have to \
                 offer a PMU; knee profile samples by the CPU clock instead"
            ))),
        (ErrorKind::NotFound, None) => check("none: no PMU driver").limited(statement(
            "the kernel does not know this processor's counters; knee profile samples by the \
             CPU clock instead",
        )),
        (ErrorKind::PermissionDenied, _) => check("not permitted").limited(allow_kernel_samples()),
        _ => check(&error.to_string()).limited(statement(
            "perf events are not in this kernel (CONFIG_PERF_EVENTS) or filtered by a sandbox",
        )),
    }
}

/// Whether CPUs can be sampled by time, which needs no hardware.
pub(super) fn cpu_clock() -> Check {
    let check =
        |detail: &str| Check::ok("CPU-clock sampling", "knee profile: where the time goes", detail);
    match probe::perf_event(PerfEvent::CpuClock) {
        Ok(()) => check("user and kernel mode"),
        Err(_) if probe::perf_event(PerfEvent::UserCpuClock).is_ok() => {
            check("user mode only").limited(allow_kernel_samples())
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            check("not permitted").missing(allow_kernel_samples())
        }
        Err(error) => check(&error.to_string()).missing(statement(
            "perf events are not in this kernel (CONFIG_PERF_EVENTS) or filtered by a sandbox",
        )),
    }
}

fn allow_kernel_samples() -> super::Remedy {
    command(format!("sudo sysctl kernel.perf_event_paranoid={PARANOID_KERNEL_SAMPLES}"))
}

/// Who may sample what.
pub(super) fn perf_event_paranoid() -> Check {
    let check = |detail: String| {
        Check::ok("perf_event_paranoid", "knee profile: samples of the kernel", detail)
    };
    match sysctl("perf_event_paranoid") {
        Some(level) if level <= PARANOID_KERNEL_SAMPLES => check(level.to_string()),
        Some(level) if rustix::process::geteuid().is_root() => {
            check(format!("{level}, which does not bind root"))
        }
        Some(level) => check(level.to_string()).limited(allow_kernel_samples()),
        None => check("no such setting".to_owned()).limited(statement(
            "perf events are not in this kernel (CONFIG_PERF_EVENTS) or /proc/sys is hidden",
        )),
    }
}

/// Whether kernel addresses can be turned into names.
pub(super) fn kptr_restrict() -> Check {
    let check = |detail: String| {
        Check::ok("kptr_restrict", "knee profile: names of kernel functions", detail)
    };
    let level = sysctl("kptr_restrict").map_or("unknown".to_owned(), |level| level.to_string());
    // The setting alone does not tell: level 0 still hides from those who may not profile.
    if shows_addresses(Path::new("/proc/kallsyms")) {
        return check(format!("{level}; addresses in /proc/kallsyms are visible"));
    }
    check(format!("{level}; addresses in /proc/kallsyms are hidden"))
        .limited(command("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"))
}

/// Hidden addresses are printed as zeros.
fn shows_addresses(kallsyms: &Path) -> bool {
    use std::io::{BufRead, BufReader};
    File::open(kallsyms).is_ok_and(|file| {
        // On x86 the first symbols are per-CPU offsets, of which one is truly zero.
        let lines = BufReader::new(file).lines().take(1000).map_while(Result::ok);
        let mut addresses =
            lines.filter_map(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok());
        addresses.any(|address| address != 0)
    })
}

/// Whether tracepoints can be found.
pub(super) fn tracefs() -> Check {
    let check =
        |detail: String| Check::ok("tracefs", "knee profile: lock waits by tracepoint", detail);
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    // The files are there as soon as the file system is mounted; reading needs the right.
    let mut found = None;
    for root in roots {
        match fs::read_dir(Path::new(root).join("events")) {
            Ok(_) => return check(root.to_owned()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                found = found.or(Some(root));
            }
            Err(_) => {}
        }
    }
    match found {
        Some(root) => check(format!("{root} is not readable for this user"))
            .missing(command(format!("sudo mount -o remount,mode=755 {root}"))),
        None => check("not mounted".to_owned())
            .missing(command("sudo mount -t tracefs nodev /sys/kernel/tracing")),
    }
}

/// The kernel's description of its own types.
pub(super) fn btf() -> Check {
    let path = "/sys/kernel/btf/vmlinux";
    let needed_for = "knee commute check: names of structures and fields";
    match fs::metadata(path) {
        Ok(meta) => {
            Check::ok("BTF", needed_for, format!("{path}, {:.1} MB", meta.len() as f64 / 1e6))
        }
        Err(_) => Check::ok("BTF", needed_for, "none").limited(statement(
            "this kernel was built without CONFIG_DEBUG_INFO_BTF; the distribution's kernels \
             (linux-image-…) have it",
        )),
    }
}

/// Whether BPF programs can be loaded.
pub(super) fn bpf() -> Check {
    let check = |detail: String| {
        Check::ok("BPF", "knee profile: lock waits without copying events", detail)
    };
    match probe::bpf() {
        Ok(()) => check("maps can be created".to_owned()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            check("not permitted".to_owned())
                .limited(statement("run knee profile as root or with CAP_BPF and CAP_PERFMON"))
        }
        Err(error) => check(error.to_string()).limited(statement(
            "BPF is not in this kernel (CONFIG_BPF_SYSCALL) or filtered by a sandbox",
        )),
    }
}

fn sysctl(name: &str) -> Option<i64> {
    let text = fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_in_kallsyms_are_hidden_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kallsyms");
        fs::write(&file, "0000000000000000 A a\n0000000000000000 T b\n").unwrap();
        assert!(!shows_addresses(&file));
        fs::write(&file, "0000000000000000 A a\nffffffff81000000 T b\n").unwrap();
        assert!(shows_addresses(&file));
        assert!(!shows_addresses(&dir.path().join("absent")));
    }
}

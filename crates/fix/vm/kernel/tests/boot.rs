//! Boots the kernel on each architecture under QEMU. The kernel's storms must notice planted mutants.
//!
//! KNEE_REQUIRE=kernel makes a test fail if QEMU or the Rust target of an architecture is missing.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use knee_host::skip::{has_rust_target, skip};

/// An architecture, and how to boot it.
struct Target {
    name: &'static str,
    /// The target of rustc.
    rust: &'static str,
    qemu: &'static str,
    machine: &'static [&'static str],
    /// The physical address of the kernel's parameters.
    parameters: u64,
}

const X86_64: Target = Target {
    name: "x86_64",
    rust: "x86_64-unknown-none",
    qemu: "qemu-system-x86_64",
    machine: &["-M", "q35", "-cpu", "max", "-vga", "none"],
    parameters: 0xf0_0000,
};
const AARCH64: Target = Target {
    name: "aarch64",
    rust: "aarch64-unknown-none-softfloat",
    qemu: "qemu-system-aarch64",
    machine: &["-M", "virt", "-cpu", "max"],
    parameters: 0x40f0_0000,
};
const RISCV64: Target = Target {
    name: "riscv64",
    rust: "riscv64imac-unknown-none-elf",
    qemu: "qemu-system-riscv64",
    machine: &["-M", "virt"],
    parameters: 0x80f0_0000,
};

/// The time limit of a run. A run that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(300);

/// The output of the kernel, and whether it has powered off in time.
struct Run {
    printed: String,
    has_ended: bool,
}

impl Run {
    fn has_passed(&self) -> bool {
        self.has_ended && self.printed.lines().any(|line| line == "passed")
    }

    /// Whether a check in the kernel has failed.
    fn has_failed(&self) -> bool {
        self.printed.lines().any(|line| line == "failed")
    }
}

impl Target {
    /// Builds the kernel. Returns `None`, and prints why, if a tool is missing.
    fn kernel(&self, mutants: bool) -> Option<Kernel<'_>> {
        let is_missing = |program: &str| {
            let status = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            status.is_err()
        };
        if is_missing(self.qemu) {
            skip("kernel", format_args!("{} is not installed", self.qemu));
            return None;
        }
        if !has_rust_target(self.rust) {
            return None;
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel");
        /// A build with mutants and a build without them overwrite each other's image, so only one thread at
        /// a time builds an image and copies it.
        static BUILD: Mutex<()> = Mutex::new(());
        let _alone = BUILD.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--release", "--locked", "--quiet", "--package", "knee-kernel"]);
        cargo.args(["--bin", "knee-kernel", "--target", self.rust, "--target-dir"]).arg(&directory);
        // The flags in the environment are meant for the host, not for the kernel's target.
        cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        if mutants {
            cargo.env("RUSTFLAGS", "--cfg mutants");
        }
        let status = cargo.status().expect("start cargo");
        assert!(status.success(), "the kernel does not compile for {}", self.name);
        let image = directory.join(self.rust).join("release/knee-kernel");
        let own = directory.join(format!("{}-{mutants}-{:?}", self.name, thread::current().id()));
        fs::copy(image, &own).expect("copy the kernel");
        Some(Kernel { target: self, image: own })
    }
}

struct Kernel<'a> {
    target: &'a Target,
    image: PathBuf,
}

impl Kernel<'_> {
    /// Boots the kernel with this number of CPUs and these parameters.
    fn boot(&self, cpus: u32, parameters: &str) -> Run {
        let Target { qemu, machine, parameters: address, .. } = self.target;
        let text = tempfile::NamedTempFile::new().expect("create a file");
        fs::write(text.path(), format!("cpus={cpus} {parameters}")).expect("write a file");
        let mut command = Command::new(qemu);
        command.args(*machine).args(["-m", "256M", "-smp", &cpus.to_string()]);
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot", "-nic", "none"]);
        command.arg("-kernel").arg(&self.image);
        let loader = format!("loader,file={},addr={address},force-raw=on", text.path().display());
        command.args(["-device", &loader]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start QEMU");
        let mut output = child.stdout.take().expect("it is a pipe");
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            let mut printed = Vec::new();
            let _ = output.read_to_end(&mut printed);
            let _ = send.send(String::from_utf8_lossy(&printed).replace('\r', ""));
        });
        let result = receive.recv_timeout(LIMIT);
        let has_ended = result.is_ok();
        let _ = child.kill();
        child.wait().expect("wait for QEMU");
        let printed = result.unwrap_or_else(|_| receive.recv().unwrap_or_default());
        Run { printed, has_ended }
    }
}

/// Runs all programs and storms on one, two and three CPUs.
fn everything_passes(target: &Target, rounds: [u64; 3]) {
    let Some(kernel) = target.kernel(false) else { return };
    for (cpus, rounds) in (1..).zip(rounds) {
        let run = kernel.boot(cpus, &format!("rounds={rounds}"));
        println!("{}, {cpus} CPUs:\n{}", target.name, run.printed);
        assert!(run.has_passed(), "{}, {cpus} CPUs: {}", target.name, run.printed);
    }
}

#[test]
fn programs_and_storms_pass_on_x86_64() {
    everything_passes(&X86_64, [300, 1500, 60]);
}

#[test]
fn programs_and_storms_pass_on_aarch64() {
    everything_passes(&AARCH64, [300, 3000, 500]);
}

/// With eight CPUs, the lists of the other CPUs have more free frames than the storm `memory` leaves free.
#[test]
fn eight_cpus_share_the_free_frames_on_every_architecture() {
    for target in [&X86_64, &AARCH64, &RISCV64] {
        let Some(kernel) = target.kernel(false) else { continue };
        let run = kernel.boot(8, "run=wired,stacks,limits,memory rounds=20");
        assert!(run.has_passed(), "{}: {}", target.name, run.printed);
    }
}

/// On architectures that can broadcast flushes, the kernel also works without broadcasts.
#[test]
fn shootdowns_by_interrupts_work_on_every_architecture() {
    for target in [&AARCH64, &RISCV64] {
        let Some(kernel) = target.kernel(false) else { continue };
        let run = kernel.boot(2, "rounds=200 shootdown=ipi");
        assert!(run.has_passed(), "{}: {}", target.name, run.printed);
    }
}

/// Runs fewer rounds, because shootdowns are slow here: the firmware interrupts the other CPUs.
#[test]
fn programs_and_storms_pass_on_riscv64() {
    everything_passes(&RISCV64, [300, 400, 30]);
}

/// Planted mistakes. Each entry names the architectures that expose the mistake, the storm that must notice
/// it, and the number of rounds to run.
const MUTANTS: &[(&str, &[&Target], &str, u64)] = &[
    ("kernel_skips_a_cpu", &[&X86_64, &AARCH64, &RISCV64], "protect", 1000),
    // This mutant makes all spaces share one address-space identifier. On RISC-V, the mutant is hidden,
    // because QEMU flushes its TLB on each load of satp. On x86-64, the kernel uses no identifiers.
    ("kernel_one_identifier", &[&AARCH64], "spaces", 500),
    ("remove_no_flush", &[&X86_64, &AARCH64, &RISCV64], "churn", 200),
    ("flush_first", &[&X86_64, &AARCH64, &RISCV64], "faults", 2000),
    ("flush_last", &[&X86_64], "faults", 2000),
    // On RISC-V, QEMU flushes its whole TLB when the kernel flushes one page, so this mutant has no effect.
    ("flushes_one_page", &[&X86_64, &AARCH64], "churn", 500),
    ("protect_no_flush", &[&X86_64, &AARCH64, &RISCV64], "protect", 1000),
    ("fork_no_flush", &[&X86_64, &AARCH64, &RISCV64], "forks", 3000),
    ("unshare_no_flush", &[&X86_64, &AARCH64, &RISCV64], "forks", 3000),
    ("usage_no_flush", &[&X86_64, &AARCH64, &RISCV64], "usage", 3000),
    ("devices_no_flush", &[&X86_64, &AARCH64, &RISCV64], "devices", 200),
    ("unmaps_pinned", &[&X86_64, &AARCH64, &RISCV64], "pins", 2000),
    // Only the check of all free frames after the storm notices this mutant.
    ("kernel_device_writes_late", &[&X86_64, &AARCH64, &RISCV64], "pins", 20),
    ("swaps_pinned", &[&X86_64, &AARCH64, &RISCV64], "wired", 500),
    ("large_stays", &[&X86_64, &AARCH64, &RISCV64], "large", 400),
    ("swap_no_flush", &[&X86_64, &AARCH64, &RISCV64], "swap", 1000),
    ("slot_freed_early", &[&X86_64, &AARCH64, &RISCV64], "swap", 500),
    ("frames_stay", &[&X86_64, &AARCH64, &RISCV64], "churn", 100),
];

/// The number of seeds to try for each mutant. The first seed usually exposes the mutant. On a busy host, the
/// virtual CPUs may run one after the other, so that more seeds are needed.
const SEEDS: u64 = 200;

fn mutants_are_noticed(target: &Target) {
    let Some(kernel) = target.kernel(true) else { return };
    // A tick flushes the whole TLB, which could hide a missing flush, so ticks are rare here.
    const TICK: &str = "tick=10000";
    let storms: BTreeSet<&str> = MUTANTS.iter().map(|(_, _, storm, _)| *storm).collect();
    let storms: Vec<&str> = storms.into_iter().collect();
    let real = kernel.boot(2, &format!("run={} rounds=500 {TICK}", storms.join(",")));
    assert!(real.has_passed(), "without a mutant: {}", real.printed);
    for (mutant, targets, storm, rounds) in MUTANTS {
        if !targets.iter().any(|one| one.name == target.name) {
            continue;
        }
        let parameters = format!("run={storm} rounds={rounds} {TICK}");
        let noticed = (1..=SEEDS).find(|seed| {
            let run = kernel.boot(2, &format!("{parameters} seed={seed} mutant={mutant}"));
            run.has_failed()
        });
        println!("{}: {mutant} was noticed with seed {noticed:?}", target.name);
        assert!(
            noticed.is_some(),
            "{}: no run of {storm} noticed the mutant {mutant}",
            target.name
        );
    }
}

#[test]
fn mutants_are_noticed_on_x86_64() {
    mutants_are_noticed(&X86_64);
}

#[test]
fn mutants_are_noticed_on_aarch64() {
    mutants_are_noticed(&AARCH64);
}

#[test]
fn mutants_are_noticed_on_riscv64() {
    mutants_are_noticed(&RISCV64);
}

/// QEMU runs without knee's plugin here, so the marks have no effect, and nothing is measured.
#[test]
fn each_experiment_is_reported_and_the_first_unknown_operation_ends_them() {
    let Some(kernel) = X86_64.kernel(false) else { return };
    let run = kernel.boot(2, "cost=mmap:2,mmap_churn2:1,nosuch:1,mmap:1 rounds=3 mode=processes");
    let reports: Vec<&str> =
        run.printed.lines().filter_map(|line| Some(line.split_once("knee-cost: ")?.1)).collect();
    // The first 20 tests are the calibration trials of a guest with 2 CPUs. Each experiment then has a test
    // for each round on each of its CPUs, and a last test that makes QEMU pause.
    let report = |operation: &str, cpus: u32, first: u32, failed: &str| {
        let experiment = format!(r#"{{"operation":"{operation}","cpus":{cpus}}}"#);
        format!(r#"{{"experiment":{experiment},"first":{first},"failed":{failed}"#)
    };
    assert!(run.has_passed() && reports.len() == 3, "{}", run.printed);
    for (found, expected) in reports.iter().zip([
        report("mmap", 2, 20, "null"),
        report("mmap_churn2", 1, 27, "null"),
        report("nosuch", 1, 31, "\"the kernel does not have it; it has mmap, munmap, "),
    ]) {
        assert!(found.starts_with(&expected), "{found}");
    }
}

#[test]
fn wrong_parameters_are_reported() {
    let Some(kernel) = X86_64.kernel(false) else { return };
    for (parameters, message) in [
        ("run=nosuch", "there is no storm or program named nosuch"),
        ("rounds=many", "rounds=many is not a number"),
        ("rounds=0", "rounds=0 would test nothing"),
        ("round=10", "round=10 is not a parameter; write NAME=VALUE with one of: cpus memory run"),
        ("run=churn, lazy", "lazy is not a parameter"),
        ("cpus=17", "cpus=17 is invalid; the kernel has 1 to 16 CPUs"),
        ("memory=64", "memory=64 is too small; the kernel needs 72 MiB"),
        ("memory=512", "memory=512 is more than QEMU's -m"),
        ("shootdown=smoke", "shootdown=smoke is invalid; the only value is ipi"),
        ("cost=mmap", "cost=mmap is invalid; an example is cost=mmap:1,mmap:4"),
        ("cost=mmap:1,mmap:2", "cost=mmap:2 needs 2 of 1 CPUs"),
        ("mode=fork", "mode=fork is invalid; the values are threads and processes"),
        ("mutant=flush_last", "this kernel has no mutants; compile it with --cfg mutants"),
    ] {
        let run = kernel.boot(1, parameters);
        assert!(run.has_failed() && run.printed.contains(message), "{}", run.printed);
    }
}

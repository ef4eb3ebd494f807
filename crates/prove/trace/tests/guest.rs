//! Guests that run the crate knee-probe: what the plugin leaves out, what it finds, and how guests end.
//!
//! The tests need QEMU and a kernel. `KNEE_KERNEL` names the file of a kernel. If `KNEE_KERNEL` is
//! not set, the tests fetch Debian 12's kernel for virtual machines once. If QEMU or the kernel is
//! not available, the tests print the reason and pass.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use knee_host::skip::skip;
use knee_trace::{
    Archive, Emulator, End, Event, Guest, GuestError, GuestOptions, Header, Initramfs, Kernel,
    Record, Side, TestResult, Touch, TracedAccess, Tracing,
};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// One disturbed result is accepted per this many results, plus one, because the guest's kernel may preempt a
/// traced test to do other work.
const TESTS_PER_SWITCH: usize = 100;
/// The number of system calls in each window of the probe's long tests.
const LONG_CALLS: u64 = 20_000;
/// How long to wait for each guest, which may itself have to wait for CPUs that other tests use.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait for a guest that hangs on purpose. The wait is four times as long while the guest boots.
const PATIENCE_WITH_HANGING: Duration = Duration::from_secs(15);

/// What a guest did.
#[derive(Default)]
struct Run {
    header: Option<Header>,
    /// Results by kind of test.
    results: HashMap<String, Vec<TestResult>>,
    trace: Vec<TracedAccess>,
    console: Vec<String>,
    end: Option<End>,
    /// The time from the header to the last result.
    took: Duration,
}

impl Run {
    fn results(&self, kind: &str) -> &[TestResult] {
        self.results.get(kind).unwrap_or_else(|| panic!("no {kind} in {:?}", self.console))
    }

    /// Asserts that undisturbed tests have no conflict, and that few tests were disturbed.
    fn assert_conflict_free(&self, kind: &str) {
        let results = self.results(kind);
        let disturbed = results.iter().filter(|result| result.is_disturbed()).count();
        assert!(disturbed <= 1 + results.len() / TESTS_PER_SWITCH, "{kind}: {disturbed} disturbed");
        for result in results.iter().filter(|result| !result.is_disturbed()) {
            assert!(result.is_conflict_free() && !result.is_incomplete(), "{kind}: {result:?}");
        }
    }
}

/// The probe, built for guests: a static program.
static PROBE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--release", "--locked", "--quiet", "--target", TARGET])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/probe/Cargo.toml")])
        .arg("--target-dir")
        .arg(&target_dir)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    assert!(cargo.status().expect("start cargo").success(), "the probe cannot be built");
    let program = target_dir.join(TARGET).join("release/knee-probe");
    std::fs::read(program).expect("read the probe")
});

static KERNEL: LazyLock<Result<Kernel, String>> = LazyLock::new(|| {
    let file = match std::env::var_os("KNEE_KERNEL") {
        Some(file) => Ok(PathBuf::from(file)),
        None => {
            Archive::of_user().map_err(Into::into).and_then(|archive| archive.fetch("bookworm"))
        }
    };
    file.and_then(|file| Kernel::open(&file)).map_err(|error| error.to_string())
});

/// Lets only one guest run at a time, because each has two busy CPUs.
static TURN: Mutex<()> = Mutex::new(());

/// Starts a guest that runs the probe. If QEMU or the kernel is not available, prints the reason
/// and returns `None`.
fn start(arguments: &str, options: GuestOptions) -> Option<Guest> {
    let skip = |reason: &dyn std::fmt::Display| {
        skip("qemu", reason);
        None
    };
    let kernel = match &*KERNEL {
        Ok(kernel) => kernel,
        Err(reason) => return skip(reason),
    };
    let arguments = arguments.split(' ').map(str::to_owned).collect();
    let emulator = Emulator::of_user().expect("the QEMU that KNEE_QEMU names");
    let options = GuestOptions { emulator, arguments, ..options };
    let files = Initramfs::new().file("init", 0o755, &PROBE).finish();
    match Guest::start(kernel, &files, &options) {
        Ok(guest) => Some(guest),
        Err(error @ GuestError::NoQemu(_)) => skip(&error),
        Err(error) => panic!("{error}"),
    }
}

fn traced(tracing: Tracing) -> GuestOptions {
    GuestOptions { tracing: Some(tracing), patience: PATIENCE, ..GuestOptions::default() }
}

fn run(arguments: &str, tracing: Tracing) -> Option<Run> {
    run_in(arguments, traced(tracing))
}

fn run_in(arguments: &str, options: GuestOptions) -> Option<Run> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut guest = start(arguments, options)?;
    let mut run = Run::default();
    let mut results = Vec::new();
    let mut begun = Instant::now();
    while let Some(event) = guest.next_event().expect("listen to the guest") {
        match event {
            Event::Console(line) => run.console.push(line),
            Event::Result(Record::Header(header)) => {
                begun = Instant::now();
                run.header = Some(header);
            }
            Event::Result(Record::Access(access)) => run.trace.push(access),
            Event::Result(Record::Deferred(_)) => {}
            Event::Result(Record::Test(result)) => {
                run.took = begun.elapsed();
                results.push(result);
            }
            Event::End(end) => run.end = Some(end),
        }
    }
    // The probe prints one line for each kind of test, with the number of tests. The results are in the order
    // of these lines.
    let mut results = results.into_iter();
    for line in &run.console {
        let Some((_, message)) = line.split_once("probe ") else { continue };
        let [kind, _, count] = message.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let count = count.parse().expect("a number of tests");
        run.results.insert(kind.to_owned(), results.by_ref().take(count).collect());
    }
    Some(run)
}

static KERNEL_MODE: LazyLock<Option<Run>> = LazyLock::new(|| {
    let kinds = "null 10000 getppid 10000 pread 10000 lseek 10000 kernel-neighbours 10000 \
                 long-getppid 5 long-lseek 5 sleep 20";
    run(kinds, Tracing::default())
});

static USER_MODE: LazyLock<Option<Run>> = LazyLock::new(|| {
    let kinds = "null 1000 getppid 1000 user-counter 500 user-neighbours 500 string-1 100 \
                 string-100 100";
    run(kinds, Tracing { user: true, ..Tracing::default() })
});

#[test]
fn a_guest_reports_its_entries_and_powers_off() {
    let Some(run) = &*KERNEL_MODE else { return };
    let header = run.header.as_ref().expect("a header");
    assert!(header.interrupts > 200 && header.faults > 10, "{header:?}");
    assert_eq!((header.switches, header.user), (1, false));
    assert_eq!(run.end, Some(End::PoweredOff));
    let tests: usize = run.results.values().map(Vec::len).sum();
    println!("{tests} tests in {:?}", run.took);
}

#[test]
fn each_side_is_on_its_own_virtual_cpu() {
    for run in [&*KERNEL_MODE, &*USER_MODE].into_iter().flatten() {
        for result in run.results.values().flatten().filter(|result| !result.is_disturbed()) {
            let cpus: Vec<u32> = result.sides.iter().map(|side| side.cpu).collect();
            assert_eq!(cpus, [0, 1], "{result:?}");
        }
    }
}

#[test]
fn ten_thousand_null_operations_share_nothing() {
    let Some(run) = &*KERNEL_MODE else { return };
    run.assert_conflict_free("null");
    assert_eq!(run.results("null").len(), 10_000);
}

#[test]
fn ten_thousand_system_calls_without_an_object_share_nothing() {
    let Some(run) = &*KERNEL_MODE else { return };
    run.assert_conflict_free("getppid");
    assert_eq!(run.results("getppid").len(), 10_000);
}

#[test]
fn ten_thousand_reads_of_two_files_share_nothing() {
    let Some(run) = &*KERNEL_MODE else { return };
    run.assert_conflict_free("pread");
    assert_eq!(run.results("pread").len(), 10_000);
}

#[test]
fn interrupts_leave_no_trace_in_the_figures() {
    let Some(run) = &*KERNEL_MODE else { return };
    let quiet = |result: &&TestResult| !result.is_disturbed();
    let sides = |kind: &str| -> Vec<Side> {
        run.results(kind).iter().filter(quiet).flat_map(|result| result.sides.clone()).collect()
    };
    assert!(run.results("long-getppid").iter().all(TestResult::is_interrupted));
    // The figures of a window of n calls are n times the figures of a window of one call, no matter what
    // interrupts the window. There is one exception: after an interrupt, the kernel may call the scheduler
    // before it returns to the task, and the window then includes the scheduler's work. The shortest window
    // of one call does not include such work, so compare with this window.
    let calls = sides("getppid");
    let one = calls.iter().min_by_key(|side| side.instructions).expect("some calls");
    let many = sides("long-getppid");
    let (rescheduled, plain): (Vec<&Side>, Vec<&Side>) =
        many.iter().partition(|side| side.instructions > LONG_CALLS * one.instructions);
    assert!(many.is_empty() || !plain.is_empty(), "{rescheduled:?}");
    for side in plain {
        assert_eq!(side.instructions, LONG_CALLS * one.instructions);
        assert_eq!(side.accesses, LONG_CALLS * one.accesses);
    }
}

#[test]
fn calls_on_one_open_file_always_conflict_on_its_bytes() {
    let Some(run) = &*KERNEL_MODE else { return };
    for result in run.results("lseek") {
        assert!(result.conflicts.iter().any(|conflict| conflict.overlap), "{result:?}");
        let both = result.conflicts.iter().all(|conflict| conflict.sides.len() == 2);
        let writers = result.conflicts.iter().flat_map(|conflict| &conflict.sides).all(|touch| {
            touch.writers.len() + touch.readers.len() <= 4
                && (touch.written != 0) != touch.writers.is_empty()
        });
        assert!(both && writers, "{result:?}");
    }
}

#[test]
fn writes_to_neighbouring_bytes_are_always_reported_as_false_sharing() {
    let Some(run) = &*KERNEL_MODE else { return };
    for result in run.results("kernel-neighbours") {
        let shared = result.conflicts.iter().find(|conflict| !conflict.overlap);
        let Some(shared) = shared else { panic!("{result:?}") };
        let bytes: Vec<_> = shared
            .sides
            .iter()
            .map(|touch| (touch.side, touch.first, touch.last, touch.written))
            .collect();
        assert_eq!(bytes, [(0, 10, 10, 1 << 10), (1, 11, 11, 1 << 11)]);
    }
}

#[test]
fn interrupts_hide_no_conflict() {
    let Some(run) = &*KERNEL_MODE else { return };
    for result in run.results("long-lseek") {
        assert!(result.is_interrupted());
        assert!(result.conflicts.iter().any(|conflict| conflict.overlap), "{result:?}");
    }
}

#[test]
fn a_test_with_a_sleeping_task_is_disturbed_and_later_accesses_of_the_task_count() {
    let Some(run) = &*KERNEL_MODE else { return };
    let results = run.results("sleep");
    assert!(results.iter().filter(|result| result.is_disturbed()).count() > results.len() / 2);
    // The first call may take page faults on its own code, so compare with the call that executed the fewest
    // instructions.
    let calls = run.results("getppid");
    let instructions = calls.iter().flat_map(|result| &result.sides).map(|side| side.instructions);
    let least = instructions.min().expect("some calls");
    for side in results.iter().flat_map(|result| &result.sides) {
        assert!(side.instructions > 2 * least, "{side:?}");
    }
}

#[test]
fn operations_that_share_nothing_do_not_conflict_in_user_mode() {
    let Some(run) = &*USER_MODE else { return };
    assert!(run.header.as_ref().is_some_and(|header| header.user));
    run.assert_conflict_free("null");
    run.assert_conflict_free("getppid");
}

#[test]
fn a_repeated_string_instruction_counts_once_but_each_of_its_accesses_counts() {
    let Some(run) = &*USER_MODE else { return };
    let least = |kind: &str| {
        let sides = run.results(kind).iter().flat_map(|result| &result.sides);
        let counts = sides.map(|side| (side.instructions, side.accesses));
        counts.min().expect("some windows")
    };
    let (once, often) = (least("string-1"), least("string-100"));
    assert_eq!((often.0, often.1), (once.0, once.1 + 99));
}

#[test]
fn two_stores_to_one_user_line_always_conflict() {
    let Some(run) = &*USER_MODE else { return };
    let bytes = |result: &TestResult| {
        let conflict = result.conflicts.first().expect("a conflict");
        let touch = |touch: &Touch| (touch.side, touch.first, touch.last);
        (conflict.overlap, conflict.sides.iter().map(touch).collect::<Vec<_>>())
    };
    for result in run.results("user-counter").iter().filter(|result| !result.is_disturbed()) {
        assert_eq!(bytes(result), (true, vec![(0, 0, 7), (1, 0, 7)]));
    }
    for result in run.results("user-neighbours").iter().filter(|result| !result.is_disturbed()) {
        assert_eq!(bytes(result), (false, vec![(0, 10, 10), (1, 11, 11)]));
    }
}

#[test]
fn the_trace_of_a_test_contains_all_of_its_accesses() {
    let Some(run) = run("lseek 10", Tracing { trace: Some(7), ..Tracing::default() }) else {
        return;
    };
    let result = &run.results("lseek")[7];
    assert!(run.trace.iter().all(|access| access.trace == 7 && access.pc >> 63 == 1));
    for side in &result.sides {
        let accesses = run.trace.iter().filter(|access| access.side == side.side).count();
        assert_eq!(accesses as u64, side.accesses);
    }
    for conflict in &result.conflicts {
        let stores = run.trace.iter().filter(|access| access.store);
        assert!(stores.map(|access| access.physical & !63).any(|line| line == conflict.line));
    }
}

#[test]
fn a_guest_pauses_after_a_test_with_conflicts_until_it_is_resumed() {
    let mut turn = Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let tracing = Tracing { pause: true, ..Tracing::default() };
    let options = GuestOptions { patience: PATIENCE_WITH_HANGING, ..traced(tracing) };
    let Some(mut guest) = start("null 5 lseek 5", options) else { return };
    let mut results = Vec::new();
    let mut end = None;
    while let Some(event) = guest.next_event().expect("listen to the guest") {
        match event {
            Event::Result(Record::Test(result)) => {
                // Resume the guest after only two of the five tests with conflicts.
                if !result.is_conflict_free() && results.len() < 7 {
                    guest.resume().expect("resume the guest");
                }
                results.push(result);
                if results.len() == 8 {
                    // The guest's CPUs stay idle until it is ended.
                    turn.take();
                }
            }
            Event::End(how) => end = Some(how),
            Event::Console(_) | Event::Result(_) => {}
        }
    }
    assert_eq!((results.len(), end), (8, Some(End::Hung(PATIENCE_WITH_HANGING))));
}

#[test]
fn the_system_calls_of_a_guest_are_filtered_where_qemu_can_do_it() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut guest) = start("lseek 5", traced(Tracing::default())) else { return };
    // QEMU installs the filter before it runs the guest.
    guest.next_event().expect("listen to the guest").expect("the guest prints something");
    let status = fs::read_to_string(format!("/proc/{}/status", guest.id())).unwrap();
    let emulator = Emulator::of_user().expect("the QEMU that KNEE_QEMU names");
    if !emulator.has_sandbox() {
        return skip("sandbox", "this QEMU has no filter");
    }
    assert!(status.contains("\nNoNewPrivs:\t1\nSeccomp:\t2\n"), "{status}");
}

#[test]
fn a_guest_that_panics_loses_only_the_test_it_was_in() {
    let Some(run) = run("lseek 5 panic 1", Tracing::default()) else { return };
    assert_eq!(run.results("lseek").len(), 5);
    let Some(End::Panicked(message)) = &run.end else { panic!("{:?}", run.end) };
    assert!(message.contains("sysrq triggered crash"), "{message}");
}

#[test]
fn a_guest_that_hangs_is_ended() {
    let options = GuestOptions { patience: PATIENCE_WITH_HANGING, ..traced(Tracing::default()) };
    let Some(run) = run_in("lseek 5 hang 1", options) else { return };
    assert_eq!(run.results("lseek").len(), 5);
    assert_eq!(run.end, Some(End::Hung(PATIENCE_WITH_HANGING)));
}

#[test]
fn a_guest_that_resets_itself_loses_only_the_test_it_was_in() {
    let Some(run) = run("lseek 5 reset 1", Tracing::default()) else { return };
    assert_eq!(run.results("lseek").len(), 5);
    assert_eq!(run.end, Some(End::Rebooted));
}

#[test]
fn a_guest_that_runs_out_of_memory_loses_only_the_test_it_was_in() {
    let options = GuestOptions { memory: 128, ..traced(Tracing::default()) };
    let Some(run) = run_in("lseek 5 exhaust 1", options) else { return };
    assert_eq!(run.results("lseek").len(), 5);
    let Some(End::Panicked(message)) = &run.end else { panic!("{:?}", run.end) };
    assert!(message.contains("Out of memory"), "{message}");
}

#[test]
fn a_file_that_is_not_a_kernel_is_refused() {
    let error = Kernel::open(Path::new(file!().trim_start_matches("crates/prove/trace/")));
    let error = error.err().expect("a source file is not a kernel").to_string();
    assert!(error.contains("is not an x86 kernel image"), "{error}");
}

/// This variable is set in the process that is killed.
const VICTIM: &str = "KNEE_TEST_VICTIM";

#[test]
fn a_guest_dies_with_the_process_that_started_it() {
    if std::env::var_os(VICTIM).is_some() {
        if let Some(guest) = start("hang 1", traced(Tracing::default())) {
            println!("\nguest {}", guest.id());
            std::thread::sleep(PATIENCE);
        }
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let test = std::env::current_exe().expect("this program");
    let mut victim = Command::new(test)
        .args(["a_guest_dies_with_the_process_that_started_it", "--exact", "--nocapture"])
        .env(VICTIM, "")
        .stdout(Stdio::piped())
        .spawn()
        .expect("start this test again");
    let lines = BufReader::new(victim.stdout.take().expect("its output")).lines();
    let guest = lines.map_while(Result::ok).find_map(|line| {
        line.strip_prefix("guest ").map(|id| PathBuf::from(format!("/proc/{id}/exe")))
    });
    victim.kill().expect("kill it");
    victim.wait().expect("wait for it");
    let Some(guest) = guest else { return };
    let patience = Instant::now() + PATIENCE;
    while guest.read_link().is_ok() {
        assert!(Instant::now() < patience, "QEMU is still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

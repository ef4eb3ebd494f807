//! Visits, lock sections and scopes of operations in a guest. The tests need QEMU and a kernel. If either is
//! missing, the tests print the reason and pass.

use std::ops::ControlFlow;
use std::sync::LazyLock;
use std::time::Duration;

use knee_agent::{CostRequest, Experiment, Mode};
use knee_host::skip::skip;
use knee_trace::{
    AccessKind, Archive, Contention, Datum, Emulator, EventKind, Guest, GuestKernel, GuestOptions,
    Iteration, Kernel, Lock, LockKind, Scope, SharedLine, VISIT_DISTANCE, Visit, WARM_UP, cost,
};

/// How long to wait for each guest, which may itself have to wait for CPUs that other tests use.
const PATIENCE: Duration = Duration::from_secs(120);

/// The kernel of Debian 12; `None` if no guest can run here.
fn kernel() -> Option<Kernel> {
    if let Err(error) = emulator().version() {
        skip("qemu", error);
        return None;
    }
    let archive = Archive::of_user().map_err(Into::into);
    let kernel = archive.and_then(|archive| archive.fetch("bookworm"));
    match kernel.and_then(|file| Kernel::open(&file)) {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            skip("kernel", error);
            None
        }
    }
}

fn emulator() -> Emulator {
    Emulator::of_user().expect("the QEMU that KNEE_QEMU names")
}

/// The contention of an operation that four processes do on the kernel of Debian 12, in a guest with this many
/// memory nodes. `None` if no guest can run here.
fn contention(operation: &str, rounds: u32, nodes: u32) -> Option<Contention> {
    contention_of(operation, Mode::Processes, rounds, nodes)
}

fn contention_of(operation: &str, mode: Mode, rounds: u32, nodes: u32) -> Option<Contention> {
    let kernel = GuestKernel::Linux(kernel()?);
    let experiment = Experiment { operation: operation.to_owned(), cpus: 4 };
    let rounds = WARM_UP + rounds;
    let request = CostRequest { experiments: vec![experiment], mode, rounds };
    let options = GuestOptions {
        emulator: emulator(),
        cpus: 4,
        nodes,
        patience: PATIENCE,
        ..GuestOptions::default()
    };
    let mut found = None;
    cost(&kernel, &request, &options, |cost, functions| {
        found = Some(cost.contention(WARM_UP, VISIT_DISTANCE, functions));
        ControlFlow::Continue(())
    })
    .expect("the guest runs");
    Some(found.expect("the guest did the experiment"))
}

fn name(datum: &Option<Datum>) -> String {
    datum.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// The scopes of the lines whose data have this name.
fn scopes(contention: &Contention, of: &str) -> Vec<Scope> {
    let lines = contention.lines.iter().filter(|line| name(&line.datum).contains(of));
    lines.map(|line| line.scope).collect()
}

/// The contention of `munmap` in a guest with one memory node.
static MUNMAP: LazyLock<Option<Contention>> = LazyLock::new(|| contention("munmap", 8, 1));

/// AppArmor's label: one function takes a reference, and then two functions each take and drop one.
#[test]
fn each_atomic_instruction_counts_once() {
    let Some(found) = contention("open", 8, 1) else { return };
    let is_label = |line: &SharedLine| name(&line.datum).contains("aa_profile.label");
    let label = found.lines.iter().position(is_label).expect("the label");
    for iteration in &found.iterations {
        let visits = iteration.events.iter().filter_map(|event| match event.kind {
            EventKind::Visit(visit) if visit.line == label => Some(visit),
            _ => None,
        });
        let visits: Vec<_> =
            visits.map(|visit| (visit.kind, visit.accesses, visit.atomics)).collect();
        let visit = |atomics| (AccessKind::Atomic, atomics, atomics);
        assert_eq!(visits, [visit(1), visit(2), visit(2)], "{iteration:#?}");
    }
}

/// fs/namei.c and fs/open.c: `legitimize_path` and `do_dentry_open` each take a reference to the file's
/// dentry, `terminate_walk` drops one, and `__fput` drops the other. All of them use the compare-and-exchange
/// loop of lib/lockref.c.
#[test]
fn opening_and_closing_a_file_that_all_tasks_use_takes_four_loops_on_its_lockref() {
    let Some(found) = contention("open3", 8, 1) else { return };
    let is_dentry = |line: &SharedLine| name(&line.datum).contains("dentry.d_lockref");
    let dentry = found.lines.iter().position(is_dentry).expect("the dentry");
    for iteration in &found.iterations {
        let loops = iteration.events.iter().filter(|event| match event.kind {
            EventKind::Visit(Visit { line, kind, .. }) => {
                line == dentry && kind == AccessKind::CompareExchange
            }
            _ => false,
        });
        assert_eq!(loops.count(), 4, "{iteration:#?}");
    }
}

#[test]
fn each_memory_node_has_a_list_of_pages_that_only_its_cpus_use() {
    let Some(whole) = &*MUNMAP else { return };
    assert_eq!(scopes(whole, "lruvec.lru_lock"), [Scope::All], "{:#?}", whole.lines);
    let Some(halves) = contention("munmap", 8, 2) else { return };
    let expected = [Scope::Node(0), Scope::Node(1)];
    assert_eq!(scopes(&halves, "lruvec.lru_lock"), expected, "{:#?}", halves.lines);
}

#[test]
fn an_operation_accesses_the_list_of_pages_only_with_its_lock() {
    let Some(found) = &*MUNMAP else { return };
    let locks: Vec<String> = found.locks.iter().map(|lock| name(&lock.datum)).collect();
    let lock = locks.iter().position(|name| name.contains("lru_lock")).expect("the lock");
    let lists = found.lines.iter().find(|line| name(&line.datum).contains("lruvec.lists"));
    assert_eq!(lists.expect("the list").guard, Some(lock), "{found:#?}");
    let Lock { kind, exclusive, .. } = &found.locks[lock];
    let expected = (LockKind::Spin, 2.0);
    assert_eq!((*kind, exclusive.per_operation), expected, "the page is added, and then removed");
    assert!(exclusive.lines.median >= 1, "{exclusive:?}");
}

#[test]
fn the_events_of_an_operation_are_in_order_and_within_it() {
    let Some(found) = &*MUNMAP else { return };
    // Up to half of the operations may be left out, because an interrupt arrived during them.
    assert!((4 * 4..=4 * 8).contains(&found.iterations.len()), "{}", found.iterations.len());
    for iteration in &found.iterations {
        assert!(!iteration.cut && !iteration.events.is_empty());
        assert!(iteration.events.is_sorted_by_key(|event| event.at));
        assert!(iteration.events.iter().all(|event| event.at < iteration.instructions));
    }
}

/// The number of shootdowns of each operation.
fn shootdowns(contention: &Contention) -> Vec<usize> {
    let is_shootdown = |kind: &EventKind| *kind == EventKind::Shootdown;
    let of = |iteration: &Iteration| {
        iteration.events.iter().filter(|event| is_shootdown(&event.kind)).count()
    };
    contention.iterations.iter().map(of).collect()
}

#[test]
fn only_threads_interrupt_each_other_when_they_unmap_a_page() {
    let Some(processes) = &*MUNMAP else { return };
    assert_eq!(shootdowns(processes).iter().sum::<usize>(), 0);
    let Some(threads) = contention_of("munmap", Mode::Threads, 8, 1) else { return };
    assert!(shootdowns(&threads).iter().all(|&count| count == 1), "{:?}", shootdowns(&threads));
}

/// Reading a page also maps the pages around it, 16 in all. So the write usually replaces a page that an
/// earlier iteration has mapped, and flushes its translation. For every sixteenth page, nothing is mapped
/// yet, so the write flushes nothing. The madvise always flushes. See `do_fault_around` and `wp_page_copy` of
/// mm/memory.c.
#[test]
fn an_iteration_of_tlb_flush1_makes_two_shootdowns() {
    let Some(found) = contention_of("tlb_flush1", Mode::Threads, 16, 1) else { return };
    let counts = shootdowns(&found);
    let once = counts.iter().filter(|&&count| count == 1).count();
    assert!(counts.iter().all(|count| [1, 2].contains(count)), "{counts:?}");
    // Each of the four threads has one such page in 16 rounds, but an interrupt may have arrived in that
    // round.
    assert!(once <= 4, "{counts:?}");
}

/// In Linux 6.1, a closed `struct file` is freed after a grace period: `file_free` of fs/file_table.c.
#[test]
fn files_are_freed_in_deferred_work_of_the_same_cpu() {
    let Some(found) = contention("open1", 8, 1) else { return };
    for cpu in 0..4 {
        let of_cpu = |all: &[Iteration]| -> u64 {
            all.iter().filter(|of| of.cpu == cpu).map(|of| of.instructions).sum()
        };
        let (done, later) = (of_cpu(&found.iterations), of_cpu(&found.deferred));
        // An open and a close take some 5,000 instructions, and freeing a file takes some 200.
        assert!(
            (0.02..0.2).contains(&(later as f64 / done as f64)),
            "CPU {cpu}: {later} of {done}"
        );
    }
}

#[test]
fn nodes_that_would_differ_in_size_are_refused() {
    let Some(kernel) = kernel() else { return };
    let options = GuestOptions { cpus: 3, nodes: 2, ..GuestOptions::default() };
    let error = Guest::start(&kernel, &[], &options).err().expect("an error").to_string();
    assert_eq!(error, "cannot divide 3 CPUs and 1024 MiB equally among 2 memory nodes");
}

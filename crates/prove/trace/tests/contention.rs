//! Visits, lock sections and scopes of operations in a guest. The tests need QEMU and a kernel, and print the
//! reason and pass if either is missing.

use std::ops::ControlFlow;
use std::time::Duration;

use knee_agent::{CostRequest, Experiment, Mode};
use knee_host::skip::skip;
use knee_trace::{
    Archive, Contention, Datum, Emulator, Guest, GuestKernel, GuestOptions, Kernel, Lock, LockKind,
    Scope, VISIT_DISTANCE, cost,
};

/// How long to wait for each guest, which may itself have to wait for CPUs that other tests use.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of rounds that fill caches and do not count.
const WARM_UP: u32 = 16;

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
    let kernel = GuestKernel::Linux(kernel()?);
    let experiment = Experiment { operation: operation.to_owned(), cpus: 4 };
    let rounds = WARM_UP + rounds;
    let request = CostRequest { experiments: vec![experiment], mode: Mode::Processes, rounds };
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

/// The scopes of lines whose data have this name.
fn scopes(contention: &Contention, name: &str) -> Vec<Scope> {
    let is = |datum: String| datum.contains(name);
    let lines = contention.lines.iter();
    let lines = lines.filter(|line| line.datum.as_ref().is_some_and(|datum| is(datum.to_string())));
    lines.map(|line| line.scope).collect()
}

#[test]
fn each_memory_node_has_a_list_of_pages_that_only_its_cpus_use() {
    for (nodes, expected) in [(1, &[Scope::All][..]), (2, &[Scope::Node(0), Scope::Node(1)])] {
        let Some(found) = contention("munmap", 8, nodes) else { return };
        assert_eq!(scopes(&found, "lruvec.lru_lock"), expected, "{nodes}: {:#?}", found.lines);
    }
}

#[test]
fn an_operation_accesses_the_list_of_pages_only_with_its_lock() {
    let Some(found) = contention("munmap", 8, 1) else { return };
    let name = |datum: &Option<Datum>| datum.as_ref().map(ToString::to_string).unwrap_or_default();
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
    let Some(found) = contention("munmap", 8, 1) else { return };
    assert_eq!(found.iterations.len(), 4 * 8);
    for iteration in &found.iterations {
        assert!(!iteration.cut && !iteration.events.is_empty());
        assert!(iteration.events.is_sorted_by_key(|event| event.at));
        assert!(iteration.events.iter().all(|event| event.at < iteration.instructions));
    }
}

#[test]
fn nodes_that_would_differ_in_size_are_refused() {
    let Some(kernel) = kernel() else { return };
    let options = GuestOptions { cpus: 3, nodes: 2, ..GuestOptions::default() };
    let error = Guest::start(&kernel, &[], &options).err().expect("an error").to_string();
    assert_eq!(error, "cannot divide 3 CPUs and 1024 MiB equally among 2 memory nodes");
}

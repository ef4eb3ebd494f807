use knee_results::{CaseId, ITERATIONS, Mode, PointId};
use snapbox::{assert_data_eq, file, str};

use super::*;

const KALLSYMS: &[u8] = b"ffffffff81000100 t rwsem_down_write_slowpath\n\
    ffffffff81000200 T down_write_killable\n\
    ffffffff81000300 T vm_mmap_pgoff\n\
    ffffffff81000400 T ksys_mmap_pgoff\n\
    ffffffff81000500 T do_syscall_64\n\
    ffffffff81000600 t __pv_queued_spin_lock_slowpath\n\
    ffffffff81000700 T _raw_spin_lock\n\
    ffffffff81000800 T __vm_munmap\n";

/// An address in the function with this index in the list above.
fn at(place: u64) -> u64 {
    0xffff_ffff_8100_0000 + 0x100 * place + 0x10
}

fn waits(acquisitions: u64, total_ns: u64, longest_ns: u64) -> Waits {
    Waits { acquisitions, total_ns, longest_ns, still_waiting: 0 }
}

fn example() -> LockWaits {
    let of = |flags: u64, places: &[u64]| -> Vec<u64> {
        std::iter::once(flags).chain(places.iter().map(|place| at(*place))).collect()
    };
    let stacks = [
        (of(4, &[1, 2, 3, 4, 5]), waits(1000, 50_000_000, 2_000_000)),
        // The same functions, from another call site.
        (of(4, &[1, 2, 3, 4, 5]).iter().map(|at| at | 4).collect(), waits(10, 1_000_000, 900_000)),
        (of(4, &[1, 2, 3, 5]), waits(1, 100, 100)),
        (of(4, &[1, 2, 8, 5]), Waits { still_waiting: 1, ..waits(500, 60_000_000, 3_000_000) }),
        (of(1, &[6, 7, 1, 2, 3, 4, 5]), waits(200, 40_000, 900)),
    ];
    let stacks = stacks.iter().map(|(key, waits)| (key.as_slice(), waits));
    LockWaits {
        schema: SCHEMA,
        title: "mmap1 threads ×4".into(),
        machine: Machine::default(),
        seconds: 3.0,
        work: Some(Work {
            point: PointId { case: CaseId::new("mmap1"), mode: Mode::Threads, tasks: 4 },
            iterations: 100_000,
            unit: ITERATIONS.to_owned(),
            server: None,
            command: None,
            disturbed: false,
        }),
        losses: WaitLosses::default(),
        sites: sites(stacks, &KernelSymbols::parse(KALLSYMS)),
    }
}

#[test]
fn waits_are_counted_by_lock_and_by_waiting_function() {
    let example = example();
    let found: Vec<_> = example
        .sites
        .iter()
        .map(|site| (site.lock.as_str(), site.function.as_str(), site.waits.acquisitions))
        .collect();
    let expected = [
        ("rwsem:W", "__vm_munmap", 500),
        ("rwsem:W", "vm_mmap_pgoff", 1011),
        ("spinlock", "vm_mmap_pgoff", 200),
    ];
    assert_eq!(found, expected);
    assert_eq!(example.sites[1].stacks.len(), 2, "stacks with the same names are merged");
    assert_eq!(example.sites[1].waits.longest_ns, 2_000_000);
    assert_eq!(example.sites[1].stacks[0].callers(), ["ksys_mmap_pgoff", "do_syscall_64"]);
}

#[test]
fn the_table_lists_the_longest_waits_first() {
    assert_data_eq!(
        table(&example(), 2).to_string(),
        str![[r#"
mmap1 threads ×4: 1711 waits for kernel locks in 3.00 s, 111 ms in total, over 100 k iterations

lock     waits    total     mean  longest  per iteration  waiting function
rwsem:W    500  60.0 ms   120 µs  3.00 ms         600 ns  __vm_munmap (1 still waiting)
                                                            from do_syscall_64
rwsem:W   1011  51.0 ms  50.4 µs  2.00 ms         510 ns  vm_mmap_pgoff
                                                            from ksys_mmap_pgoff < do_syscall_64
(1 more, 40.0 µs in total)

"#]]
    );
}

#[test]
fn a_capture_without_waits_is_described_in_words() {
    let without_waits = LockWaits { sites: Vec::new(), work: None, ..example() };
    assert_data_eq!(
        table(&without_waits, 2).to_string(),
        str![[r#"
mmap1 threads ×4: 0 waits for kernel locks in 3.00 s, 0 ns in total
No thread had to wait for a kernel lock.

"#]]
    );
}

#[test]
fn lock_waits_are_read_as_they_were_written() {
    let text = serde_json::to_string(&example()).unwrap();
    assert_eq!(serde_json::from_str::<LockWaits>(&text).unwrap(), example());
}

#[test]
fn the_schema_is_committed() {
    let committed = file!["../../schemas/lock-waits.schema.json"].raw();
    assert_data_eq!(format!("{:#}\n", schema()), committed);
}

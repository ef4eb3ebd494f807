//! The heavy fence on its own, and grace periods without readers.

use knee_sync::{Platform, System, epoch};

use crate::c::{BP, CK, MEMB, Member};
use crate::read::c;
use side_by_side::{Figure, Row, measure};

/// linux/membarrier.h
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

pub(crate) fn figures(rounds: usize) -> Vec<Figure> {
    // It registers the process.
    let system = System::detect();
    assert!(!system.is_symmetric(), "there is no membarrier(2) here to measure");
    let rows = [
        Row::of("getppid(2)", || {
            // SAFETY: the function takes no arguments.
            unsafe { libc::getppid() };
        }),
        Row::of("membarrier(2)", membarrier),
        Row::of("**`System::heavy`**", move || system.heavy()),
        beside("membarrier(2), beside a thread that runs", membarrier),
        beside("**`System::heavy`**, beside a thread that runs", move || system.heavy()),
        Row::of("**`epoch::synchronize`**", epoch::synchronize),
        c("ck_epoch, synchronize", &CK, Member::synchronize),
        c("liburcu-memb, `synchronize_rcu`", &MEMB, Member::synchronize),
        c("liburcu-bp, `synchronize_rcu`", &BP, Member::synchronize),
    ];
    measure("barrier", &rows.iter().collect::<Vec<_>>(), rounds, 0)
}

fn membarrier() {
    // SAFETY: membarrier takes no pointers.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) };
    assert_eq!(done, 0, "the process is registered");
}

/// An operation of one of two threads.
fn beside(name: &str, operation: impl Fn() + Sync + 'static) -> Row {
    let run = move |round: &side_by_side::Round| match round.thread {
        0 => round.time(&operation),
        _ => round.accompany(),
    };
    Row::new(name, run).with_threads(&[2])
}

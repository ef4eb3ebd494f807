//! Requests from one CPU to another: to flush TLB entries, or to leave a space.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64, fence};

use knee_sync::shim::is_mutant;
use knee_vm::{CpuSet, Flush, Page, Pages};

use crate::arch::{self, MOST_CPUS, cpu_number};
use crate::cpu;
use crate::machine::Space;

/// A request from one CPU to another. One `Request` for each sender and receiver is enough, because the
/// sender waits until the receiver has handled the request.
#[repr(align(64))]
struct Request {
    /// One of the constants below. The receiver sets it back to [`NONE`].
    kind: AtomicU64,
    /// The number of the space. For [`LEAVE`], the address of the space.
    space: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

const NONE: u64 = 0;
const RANGE: u64 = 1;
const TABLES: u64 = 2;
const ALL: u64 = 3;
/// Flush all entries of the space, and deactivate it.
const LEAVE: u64 = 4;

impl Request {
    const fn none() -> Request {
        let [kind, space, start, end] = [const { AtomicU64::new(NONE) }; 4];
        Request { kind, space, start, end }
    }
}

/// Requests, indexed by receiver and sender.
static REQUESTS: [[Request; MOST_CPUS]; MOST_CPUS] =
    [const { [const { Request::none() }; MOST_CPUS] }; MOST_CPUS];

/// Whether a CPU may have requests. While this is false, the CPU need not check its requests one by one.
#[repr(align(64))]
struct Pending(AtomicBool);

/// Indexed by receiver.
static PENDING: [Pending; MOST_CPUS] = [const { Pending(AtomicBool::new(false)) }; MOST_CPUS];

static USES_INTERRUPTS: AtomicBool = AtomicBool::new(false);

/// Whether shootdowns interrupt CPUs even if the architecture has [`arch::BROADCAST`].
pub(crate) fn uses_interrupts() -> bool {
    USES_INTERRUPTS.load(Relaxed)
}

/// Makes shootdowns interrupt CPUs.
pub(crate) fn use_interrupts() {
    USES_INTERRUPTS.store(true, Relaxed);
}

/// Interrupts the CPUs in `on`, and waits until they have flushed.
pub(crate) fn flush(caller: usize, on: &CpuSet, space: u64, what: Flush) {
    // If the loop below does not see a CPU that is joining the set, that CPU sees the changed tables.
    fence(SeqCst);
    let (kind, pages) = match what {
        Flush::Range(pages) => (RANGE, pages),
        Flush::Tables(pages) => (TABLES, pages),
        Flush::All => (ALL, Pages::new(Page(0), 0)),
    };
    let mut sent = 0_u64;
    let is_skipped = |other: usize| other == 0 && is_mutant!("kernel_skips_a_cpu");
    for other in on.iter().filter(|&other| other != caller && !is_skipped(other)) {
        send(caller, other, kind, space, pages);
        sent |= 1 << other;
    }
    if on.contains(caller) {
        cpu::flush(space, what);
    }
    wait(caller, sent);
}

/// Makes another CPU leave a space.
pub(crate) fn leave(caller: usize, other: usize, space: &Space) {
    let at = ptr::from_ref(space).expose_provenance() as u64;
    send(caller, other, LEAVE, at, Pages::new(Page(0), 0));
    wait(caller, 1 << other);
}

fn send(caller: usize, other: usize, kind: u64, space: u64, pages: Pages) {
    let request = &REQUESTS[other][caller];
    request.space.store(space, Relaxed);
    request.start.store(pages.start.0, Relaxed);
    request.end.store(pages.end.0, Relaxed);
    request.kind.store(kind, Release);
    // Release: a receiver that finds the flag set also finds the request. A swap and not a store: it
    // continues the release sequences of CPUs that have set the flag earlier, so that the receiver also finds
    // their requests.
    PENDING[other].0.swap(true, Release);
    arch::interrupt(other);
}

/// Waits until these CPUs have handled the requests of `caller`.
fn wait(caller: usize, sent: u64) {
    let mut left = sent;
    while left != 0 {
        let other = left.trailing_zeros() as usize;
        left &= left - 1;
        while REQUESTS[other][caller].kind.load(Acquire) != NONE {
            handle();
            core::hint::spin_loop();
        }
    }
}

/// Handles the requests that other CPUs have sent to the calling CPU.
pub(crate) fn handle() {
    // A sender sets the flag and then interrupts this CPU. If this load is too early to see the flag, the CPU
    // calls this function again after the interrupt.
    if PENDING[cpu_number()].0.load(Relaxed) {
        handle_pending();
    }
}

#[cold]
fn handle_pending() {
    // Cleared before the requests are read: a CPU that sends a request later sets the flag again. Acquire:
    // see `send`.
    PENDING[cpu_number()].0.swap(false, Acquire);
    for request in &REQUESTS[cpu_number()][..cpu::count()] {
        let kind = request.kind.load(Acquire);
        if kind == NONE {
            continue;
        }
        let space = request.space.load(Relaxed);
        let (start, end) = (request.start.load(Relaxed), request.end.load(Relaxed));
        let pages = Pages { start: Page(start), end: Page(end) };
        match kind {
            RANGE => cpu::flush(space, Flush::Range(pages)),
            TABLES => cpu::flush(space, Flush::Tables(pages)),
            LEAVE => {
                let space: *const Space = ptr::with_exposed_provenance(space as usize);
                // SAFETY: the sender keeps the space until this CPU has handled the request.
                cpu::leave(unsafe { &*space });
            }
            _ => cpu::flush(space, Flush::All),
        }
        // Release: the flush happens before the sender finds `NONE`.
        request.kind.store(NONE, Release);
    }
}

//! Callbacks of the embedder that panic while an operation holds locks. Another operation must not wait
//! forever afterwards. Memory may be leaked.

use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use knee_sync::epoch::Domain;
use knee_vm::hosted::Hosted;
use knee_vm::{
    Cpu, CpuSet, Flush, Frame, FrameMeta, Machine, Page, Pages, Protection, Space, X86_64,
};

const CODE: Protection = Protection::READ.union(Protection::EXECUTE);
const WRITE: Protection = Protection::READ_WRITE;
/// The 512 pages of a leaf, and one of them.
const PAGES: Pages = Pages::new(Page(512), 512);
const PAGE: Page = Page(600);

/// A hosted machine. One of its callbacks panics. Its only CPU has no TLB.
struct Faulty {
    hosted: Hosted,
    /// The number of callbacks until one panics.
    left: AtomicU64,
}

impl Faulty {
    /// Counts a callback.
    fn call(&self) {
        let left = self.left.load(Relaxed);
        self.left.store(left.wrapping_sub(1), Relaxed);
        assert!(left != 0, "the callback fails");
    }
}

// SAFETY: as for the hosted machine; the only CPU caches nothing.
unsafe impl Machine for Faulty {
    type Platform = <Hosted as Machine>::Platform;
    type Format = X86_64;

    fn epoch(&self) -> &Domain<Self::Platform> {
        self.hosted.epoch()
    }

    fn cpus(&self) -> usize {
        1
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.hosted.allocate(frames)
    }

    fn allocate_large(&self) -> Option<Frame> {
        self.hosted.allocate_large()
    }

    unsafe fn free(&self, frames: &[Frame]) {
        // SAFETY: the caller meets the contract of `Machine::free`.
        unsafe { self.hosted.free(frames) }
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.call();
        self.hosted.address(frame)
    }

    fn begin_root(&self, _table: Frame) {}

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.call();
        self.hosted.frame_meta(frame)
    }

    fn prepare_code(&self, _frame: Frame) {
        self.call();
    }

    unsafe fn shoot_down(&self, _: usize, _: &CpuSet, _: u64, _: Flush) {}

    unsafe fn flush_local(&self, _: usize, _: u64, _: Flush) {}
}

type Step = for<'m> fn(&Cpu<'m, Faulty>, &Space<'m, Faulty>);

/// Prepares a space, runs `operation`, and drops the space, which takes all its locks. Repeats this, each
/// time with a later callback that panics, until no callback panics.
fn fails_in_turn(prepare: Step, operation: Step) {
    let mut callback = 0;
    loop {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let machine = Faulty { hosted: Hosted::new(2048, 1), left: AtomicU64::new(u64::MAX) };
            // SAFETY: the machine has one `Cpu`, which stays on this thread.
            let cpu = unsafe { Cpu::new(&machine, 0) };
            let space = Space::new(&cpu).unwrap();
            prepare(&cpu, &space);
            machine.left.store(callback, Relaxed);
            let result = panic::catch_unwind(AssertUnwindSafe(|| operation(&cpu, &space)));
            machine.left.store(u64::MAX, Relaxed);
            drop(space);
            sender.send(result.is_err()).unwrap();
        });
        let failed = receiver.recv_timeout(Duration::from_secs(20));
        if !failed.unwrap_or_else(|_| panic!("callback {callback} leaves a lock")) {
            assert!(callback > 0, "the operation calls no callback");
            return;
        }
        // Leave out some callbacks, because a large page has one for each of its frames.
        callback += 1 + callback / 8;
    }
}

#[test]
fn a_fault_leaves_no_lock() {
    fails_in_turn(
        |cpu, space| {
            space.map(cpu, PAGES, CODE).unwrap();
            space.fault(cpu, PAGE + 1, Protection::READ).unwrap();
        },
        |cpu, space| space.fault(cpu, PAGE, Protection::EXECUTE).unwrap(),
    );
}

#[test]
fn a_fault_in_a_new_leaf_leaves_no_lock() {
    fails_in_turn(
        |cpu, space| {
            space.set_large_pages(true);
            space.map(cpu, PAGES, CODE).unwrap();
        },
        |cpu, space| space.fault(cpu, PAGE, Protection::EXECUTE).unwrap(),
    );
}

#[test]
fn a_move_of_a_shared_page_leaves_no_lock() {
    fails_in_turn(
        |cpu, space| {
            let pages = Pages::new(PAGE, 1);
            space.map(cpu, pages, WRITE).unwrap();
            space.fault(cpu, PAGE, Protection::WRITE).unwrap();
            space.protect(cpu, pages, Protection::READ).unwrap();
            // The page stays shared.
            mem::forget(space.fork(cpu).unwrap());
        },
        |cpu, space| space.remap(cpu, Pages::new(PAGE, 1), Pages::new(Page(9), 1)).unwrap(),
    );
}

#[test]
fn a_promotion_leaves_no_lock() {
    fails_in_turn(
        |cpu, space| {
            space.map(cpu, PAGES, CODE).unwrap();
            space.fault(cpu, PAGE, Protection::EXECUTE).unwrap();
        },
        |cpu, space| assert_eq!(space.promote(cpu, PAGES), Ok(1)),
    );
}

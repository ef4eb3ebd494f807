//! Tests operations that must wait while a page is no longer in the tables but still in some CPU's TLB.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use knee_baselines::AddressSpace;
use knee_baselines::classic::{
    Memory, OneCounter, PerBacking, PerCpu, PerPage, RcuTree, Space, Strategies, Tree,
};
use knee_baselines::invalidation::{Epoch, LockFree, Locked, Slots};
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{AArch64, Page, Pages, Protection, Sv48, VirtAddr, X86_64};

use crate::designs::{Design, MachineOf, ProcessorOf, for_each_design, form};

const PAGE_7: Pages = Pages::new(Page(7), 1);
const ADDRESS: VirtAddr = Page(7).address();

/// Two spaces map one frame. CPU 0 unmaps the frame from the first space and waits until CPU 2 flushes the
/// page. The second space is then the only one that maps the frame, and CPU 1 runs `operation` there. The
/// operation must wait too: otherwise CPU 2 could read data that is written to the frame later.
fn the_last_mapping_of_a_frame_waits<S: Strategies, A: Architecture>(
    operation: impl for<'m> Fn(&Processor<'m, A>, &Space<'m, Hosted<A>, S>) + Sync,
) {
    let machine = Hosted::<A>::with_architecture(1024, 3);
    let memory = Memory::<_, S>::new(&machine, 1024, u64::MAX, form::<S>());
    let memory = Arc::new(memory.unwrap());
    let [one, other] = {
        let cpu = machine.cpu(0);
        let one = Space::new(&memory, &cpu).unwrap();
        one.map(&cpu, PAGE_7, Protection::READ_WRITE).unwrap();
        cpu.store(&one, ADDRESS, 42).unwrap();
        let other = one.fork(&cpu).unwrap();
        [one, other]
    };
    let (is_unmapped, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let stale = machine.cpu(2);
        assert_eq!(stale.load(&one, ADDRESS), Ok(42));
        scope.spawn(|| {
            one.unmap(&machine.cpu(0), PAGE_7).unwrap();
            is_unmapped.store(true, SeqCst);
        });
        scope.spawn(|| {
            let cpu = machine.cpu(1);
            while !one.present().is_empty() {
                cpu.handle_ipis();
            }
            operation(&cpu, &other);
            is_over.store(true, SeqCst);
        });
        // An operation that does not wait is over before this sleep ends.
        thread::sleep(Duration::from_millis(20));
        let early = (is_unmapped.load(SeqCst), is_over.load(SeqCst));
        while !is_unmapped.load(SeqCst) || !is_over.load(SeqCst) {
            stale.handle_ipis();
        }
        assert_eq!(early, (false, false), "an operation did not wait for CPU 2's flush");
    });
}

/// `unmap` frees the frame, so it must wait.
fn unmapping_the_last_mapping_waits<S: Strategies>() {
    fn on<S: Strategies, A: Architecture>() {
        the_last_mapping_of_a_frame_waits::<S, A>(|cpu, space| space.unmap(cpu, PAGE_7).unwrap());
    }
    on::<S, X86_64>();
    on::<S, AArch64>();
    on::<S, Sv48>();
}

/// A write fault does not copy a frame that only this space maps, so the fault must wait before it makes the
/// page writable.
fn writing_to_the_last_mapping_waits<S: Strategies>() {
    fn on<S: Strategies, A: Architecture>() {
        the_last_mapping_of_a_frame_waits::<S, A>(|cpu, space| {
            cpu.store(space, ADDRESS, 43).unwrap();
        });
    }
    on::<S, X86_64>();
    on::<S, AArch64>();
    on::<S, Sv48>();
}

fn discarding_an_absent_page_waits<S: Strategies>() {
    discarding_an_absent_page_waits_for_its_flush::<S, X86_64>();
    discarding_an_absent_page_waits_for_its_flush::<S, AArch64>();
    discarding_an_absent_page_waits_for_its_flush::<S, Sv48>();
}

/// CPU 0 discards a page and waits until CPU 2 flushes this page. CPU 1 discards the same page and finds it
/// absent. CPU 1 must wait too: when its discard returns, no TLB may contain the page.
fn discarding_an_absent_page_waits_for_its_flush<S: Strategies, A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(1024, 3);
    let memory = Memory::<_, S>::new(&machine, 1024, u64::MAX, form::<S>());
    let memory = Arc::new(memory.unwrap());
    let space = {
        let cpu = machine.cpu(0);
        let space = Space::new(&memory, &cpu).unwrap();
        space.map(&cpu, PAGE_7, Protection::READ_WRITE).unwrap();
        cpu.store(&space, ADDRESS, 42).unwrap();
        space
    };
    let is_over = [0, 1].map(|_| AtomicBool::new(false));
    thread::scope(|scope| {
        let stale = machine.cpu(2);
        assert_eq!(stale.load(&space, ADDRESS), Ok(42));
        for (number, is_over) in is_over.iter().enumerate() {
            let (machine, space) = (&machine, &space);
            scope.spawn(move || {
                let cpu = machine.cpu(number);
                while number == 1 && !space.present().is_empty() {
                    cpu.handle_ipis();
                }
                space.discard(&cpu, PAGE_7).unwrap();
                is_over.store(true, SeqCst);
            });
        }
        thread::sleep(Duration::from_millis(20));
        let early = is_over.each_ref().map(|is_over| is_over.load(SeqCst));
        while !is_over.iter().all(|is_over| is_over.load(SeqCst)) {
            stale.handle_ipis();
        }
        assert_eq!(early, [false, false], "a discard did not wait for CPU 2's flush");
    });
}

/// The other CPU's TLB contains the page as writable until that CPU flushes it.
fn an_operation_that_revokes_access_waits_for_the_flush<D: Design>() {
    waits_for_the_flush::<D>(|cpu, space| space.unmap(cpu, PAGE_7).unwrap());
    waits_for_the_flush::<D>(|cpu, space| space.discard(cpu, PAGE_7).unwrap());
    waits_for_the_flush::<D>(|cpu, space| space.protect(cpu, PAGE_7, Protection::READ).unwrap());
    waits_for_the_flush::<D>(|cpu, space| drop(space.fork(cpu).unwrap()));
}

fn waits_for_the_flush<D: Design>(
    operation: impl for<'m> Fn(&ProcessorOf<'m, D>, &D::Space<'m>) + Sync,
) {
    let machine = MachineOf::<D>::with_architecture(1024, 2);
    let shared = D::shared(&machine, u64::MAX);
    let space = {
        let cpu = machine.cpu(0);
        let space = D::space(&shared, &cpu);
        space.map(&cpu, PAGE_7, Protection::READ_WRITE).unwrap();
        space
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stale = machine.cpu(1);
        stale.store(&space, ADDRESS, 42).unwrap();
        scope.spawn(|| {
            operation(&machine.cpu(0), &space);
            is_over.store(true, SeqCst);
        });
        thread::sleep(Duration::from_millis(10));
        let is_early = is_over.load(SeqCst);
        while !is_over.load(SeqCst) {
            stale.handle_ipis();
        }
        assert!(!is_early, "the operation did not wait for CPU 1's flush");
    });
}

for_each_design!(an_operation_that_revokes_access_waits_for_the_flush);

#[test]
fn a_discard_waits_for_flushes_of_other_cpus() {
    discarding_an_absent_page_waits::<(Tree, PerPage, Slots, OneCounter)>();
    discarding_an_absent_page_waits::<(Tree, PerBacking, Slots, OneCounter)>();
    discarding_an_absent_page_waits::<(RcuTree, PerBacking, Slots, OneCounter)>();
}

#[test]
fn a_space_with_the_last_mapping_waits_for_sections_of_the_locked_form() {
    unmapping_the_last_mapping_waits::<(Tree, PerPage, Locked, OneCounter)>();
    writing_to_the_last_mapping_waits::<(RcuTree, PerBacking, Locked, PerCpu)>();
}

#[test]
fn a_space_with_the_last_mapping_waits_for_sections_of_the_epoch_form() {
    unmapping_the_last_mapping_waits::<(Tree, PerBacking, Epoch, OneCounter)>();
    writing_to_the_last_mapping_waits::<(RcuTree, PerPage, Epoch, OneCounter)>();
}

#[test]
fn a_space_with_the_last_mapping_waits_for_sections_of_the_lock_free_form() {
    unmapping_the_last_mapping_waits::<(Tree, PerBacking, LockFree, OneCounter)>();
    writing_to_the_last_mapping_waits::<(Tree, PerPage, LockFree, PerCpu)>();
}

#[test]
fn a_space_with_the_last_mapping_waits_for_sections_of_the_slot_form() {
    unmapping_the_last_mapping_waits::<(RcuTree, PerPage, Slots, OneCounter)>();
    unmapping_the_last_mapping_waits::<(RcuTree, PerBacking, Slots, OneCounter)>();
    writing_to_the_last_mapping_waits::<(Tree, PerPage, Slots, OneCounter)>();
    writing_to_the_last_mapping_waits::<(Tree, PerBacking, Slots, OneCounter)>();
}

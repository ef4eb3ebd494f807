//! A page has left the tables, and a CPU has not forgotten it yet: who has to wait for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use knee_baselines::AddressSpace;
use knee_baselines::classic::{
    Memory, OneCounter, PerBacking, PerCpu, PerPage, RcuTree, Space, Strategies, Tree,
};
use knee_baselines::invalidation::{Epoch, LockFree, Locked, Slots};
use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{Page, Pages, Protection, VirtAddr};

use crate::designs::{Design, MachineOf, ProcessorOf, for_each_design, form};

const PAGE_7: Pages = Pages::new(Page(7), 1);
const ADDRESS: VirtAddr = Page(7).address();

/// CPU 0 takes a page out of one of two spaces that have its frame, and waits for CPU 2 to forget it.
/// What CPU 1 does with the page in the other meanwhile, as the last that has the frame, must wait as well:
/// CPU 2 could read what comes into the frame.
fn who_has_a_frame_last_waits<S: Strategies>(
    what: impl for<'m> Fn(&Processor<'m>, &Space<'m, Hosted, S>) + Sync,
) {
    let machine = Hosted::new(1024, 3);
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
        let knows = machine.cpu(2);
        assert_eq!(knows.load(&one, ADDRESS), Ok(42));
        scope.spawn(|| {
            one.unmap(&machine.cpu(0), PAGE_7).unwrap();
            is_unmapped.store(true, SeqCst);
        });
        scope.spawn(|| {
            let cpu = machine.cpu(1);
            while !one.present().is_empty() {
                cpu.handle_ipis();
            }
            what(&cpu, &other);
            is_over.store(true, SeqCst);
        });
        // Long enough for who does not wait.
        thread::sleep(Duration::from_millis(20));
        let early = (is_unmapped.load(SeqCst), is_over.load(SeqCst));
        while !is_unmapped.load(SeqCst) || !is_over.load(SeqCst) {
            knows.handle_ipis();
        }
        assert_eq!(early, (false, false), "CPU 2 has not forgotten the frame");
    });
}

/// It would free the frame.
fn who_unmaps_it_waits<S: Strategies>() {
    who_has_a_frame_last_waits::<S>(|cpu, space| space.unmap(cpu, PAGE_7).unwrap());
}

/// It would write there, as nobody else has it.
fn who_writes_to_it_waits<S: Strategies>() {
    who_has_a_frame_last_waits::<S>(|cpu, space| cpu.store(space, ADDRESS, 43).unwrap());
}

/// CPU 0 takes a page out of the tables and waits for CPU 2 to forget it. CPU 1, which is to take out the
/// same, finds nothing, and must wait as well: when it returns no CPU may have the page.
fn who_finds_nothing_to_discard_waits<S: Strategies>() {
    let machine = Hosted::new(1024, 3);
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
        let knows = machine.cpu(2);
        assert_eq!(knows.load(&space, ADDRESS), Ok(42));
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
            knows.handle_ipis();
        }
        assert_eq!(early, [false, false], "CPU 2 has not forgotten the page");
    });
}

/// Until the CPU that knows a page has forgotten it, or that it may write there.
fn who_changes_a_page_waits<D: Design>() {
    who_changes_waits::<D>(|cpu, space| space.unmap(cpu, PAGE_7).unwrap());
    who_changes_waits::<D>(|cpu, space| space.discard(cpu, PAGE_7).unwrap());
    who_changes_waits::<D>(|cpu, space| space.protect(cpu, PAGE_7, Protection::READ).unwrap());
    who_changes_waits::<D>(|cpu, space| drop(space.fork(cpu).unwrap()));
}

fn who_changes_waits<D: Design>(what: impl for<'m> Fn(&ProcessorOf<'m, D>, &D::Space<'m>) + Sync) {
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
        let knows = machine.cpu(1);
        knows.store(&space, ADDRESS, 42).unwrap();
        scope.spawn(|| {
            what(&machine.cpu(0), &space);
            is_over.store(true, SeqCst);
        });
        thread::sleep(Duration::from_millis(10));
        let is_early = is_over.load(SeqCst);
        while !is_over.load(SeqCst) {
            knows.handle_ipis();
        }
        assert!(!is_early, "CPU 1 has not forgotten the page");
    });
}

for_each_design!(who_changes_a_page_waits);

#[test]
fn for_flushes_of_others() {
    who_finds_nothing_to_discard_waits::<(Tree, PerPage, Slots, OneCounter)>();
    who_finds_nothing_to_discard_waits::<(Tree, PerBacking, Slots, OneCounter)>();
    who_finds_nothing_to_discard_waits::<(RcuTree, PerBacking, Slots, OneCounter)>();
}

#[test]
fn for_sections_with_a_mutex() {
    who_unmaps_it_waits::<(Tree, PerPage, Locked, OneCounter)>();
    who_writes_to_it_waits::<(RcuTree, PerBacking, Locked, PerCpu)>();
}

#[test]
fn for_sections_of_an_epoch() {
    who_unmaps_it_waits::<(Tree, PerBacking, Epoch, OneCounter)>();
    who_writes_to_it_waits::<(RcuTree, PerPage, Epoch, OneCounter)>();
}

#[test]
fn for_sections_in_a_lock_free_list() {
    who_unmaps_it_waits::<(Tree, PerBacking, LockFree, OneCounter)>();
    who_writes_to_it_waits::<(Tree, PerPage, LockFree, PerCpu)>();
}

#[test]
fn for_sections_with_slots() {
    who_unmaps_it_waits::<(RcuTree, PerPage, Slots, OneCounter)>();
    who_unmaps_it_waits::<(RcuTree, PerBacking, Slots, OneCounter)>();
    who_writes_to_it_waits::<(Tree, PerPage, Slots, OneCounter)>();
    who_writes_to_it_waits::<(Tree, PerBacking, Slots, OneCounter)>();
}

//! What a machine has written into the kernel's half of tables stays.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use knee_baselines::AddressSpace;
use knee_baselines::classic::{self, Memory, PerBacking, PerCpu, Tree};
use knee_baselines::invalidation::Slots;
use knee_sync::System;
use knee_sync::epoch::Domain;
use knee_vm::hosted::{Architecture, Hosted, MmuContext};
use knee_vm::{
    Cpu, CpuSet, Flush, Frame, FrameMeta, Machine, Page, Pages, Protection, Sv48, X86_64,
};

/// The kernel's entry in all uppermost tables: of a table that no space frees.
const KERNEL: u64 = 0x7777_7003;

/// Its place.
const LAST: usize = 511;

/// A hosted machine whose kernel has something in all uppermost tables.
struct WithKernel<A: Architecture>(Hosted<A>);

impl<A: Architecture> WithKernel<A> {
    fn entry(&self, table: Frame) -> &AtomicU64 {
        // SAFETY: it is within the frame, which is used by atomics.
        unsafe { self.0.address(table).cast::<AtomicU64>().add(LAST).as_ref() }
    }
}

// SAFETY: the hosted machine does all of it, and the entry is in the kernel's half.
unsafe impl<A: Architecture> Machine for WithKernel<A> {
    type Platform = System;
    type Format = A;

    fn begin_root(&self, table: Frame) {
        self.entry(table).store(KERNEL, Relaxed);
    }

    fn epoch(&self) -> &Domain<System> {
        self.0.epoch()
    }

    fn cpus(&self) -> usize {
        self.0.cpus()
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.0.allocate(frames)
    }

    unsafe fn free(&self, frames: &[Frame]) {
        // SAFETY: passed on to the caller.
        unsafe { self.0.free(frames) };
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.0.address(frame)
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.0.frame_meta(frame)
    }

    unsafe fn shoot_down(&self, caller: usize, on: &CpuSet, space: u64, pages: Flush) {
        // SAFETY: passed on to the caller.
        unsafe { self.0.shoot_down(caller, on, space, pages) };
    }

    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush) {
        // SAFETY: passed on to the caller.
        unsafe { self.0.flush_local(cpu, space, pages) };
    }
}

fn what_the_kernel_has_in_tables_stays<A: Architecture>() {
    type Design = (Tree, PerBacking, Slots, PerCpu);
    let machine = WithKernel(Hosted::<A>::with_architecture(512, 1));
    let all = machine.0.free_frames();
    {
        // SAFETY: there is no other, and it stays on this thread.
        let cpu = unsafe { Cpu::new(&machine, 0) };
        let memory = Memory::<_, Design>::new(&machine, 512, 100, Slots).unwrap();
        let space = classic::Space::new(&Arc::new(memory), &cpu).unwrap();
        let page = Pages::new(Page(100), 1);
        space.map(&cpu, page, Protection::READ_WRITE).unwrap();
        space.fault(&cpu, page.start, Protection::READ_WRITE).unwrap();
        let copy = space.fork(&cpu).unwrap();
        for one in [&space, &copy] {
            assert_eq!(machine.entry(one.table()).load(Relaxed), KERNEL);
        }
        // Tables that nobody has made would be no frames of the machine.
        drop((space, copy));
    }
    assert_eq!(machine.0.free_frames(), all, "all frames come back");
}

#[test]
fn what_the_kernel_has_in_tables_of_x86_64_stays() {
    what_the_kernel_has_in_tables_stays::<X86_64>();
}

#[test]
fn what_the_kernel_has_in_tables_of_sv48_stays() {
    what_the_kernel_has_in_tables_stays::<Sv48>();
}

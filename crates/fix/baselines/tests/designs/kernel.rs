//! Tests that the entries in the kernel's half of root tables are preserved.

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

/// The kernel's entry in all root tables. It points to a table that no space may free.
const KERNEL: u64 = 0x7777_7003;

/// The index of the entry.
const LAST: usize = 511;

/// A hosted machine whose kernel has an entry in all root tables.
struct WithKernel<A: Architecture>(Hosted<A>);

impl<A: Architecture> WithKernel<A> {
    fn entry(&self, table: Frame) -> &AtomicU64 {
        // SAFETY: the entry is within the frame, and all accesses to the frame are atomic.
        unsafe { self.0.address(table).cast::<AtomicU64>().add(LAST).as_ref() }
    }
}

// SAFETY: the hosted machine implements each function, and `begin_root` writes only to the kernel's half.
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
        // SAFETY: the caller's obligations are the same.
        unsafe { self.0.free(frames) };
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.0.address(frame)
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.0.frame_meta(frame)
    }

    unsafe fn shoot_down(&self, caller: usize, on: &CpuSet, space: u64, pages: Flush) {
        // SAFETY: the caller's obligations are the same.
        unsafe { self.0.shoot_down(caller, on, space, pages) };
    }

    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush) {
        // SAFETY: the caller's obligations are the same.
        unsafe { self.0.flush_local(cpu, space, pages) };
    }
}

fn kernel_entries_are_preserved<A: Architecture>() {
    type Design = (Tree, PerBacking, Slots, PerCpu);
    let machine = WithKernel(Hosted::<A>::with_architecture(512, 1));
    let all = machine.0.free_frames();
    {
        // SAFETY: this is the only `Cpu` of this machine, and it stays on this thread.
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
        // Freeing the kernel's table would panic, because its frame is not a frame of the machine.
        drop((space, copy));
    }
    assert_eq!(machine.0.free_frames(), all, "all frames are free again");
}

#[test]
fn kernel_entries_of_x86_64_are_preserved() {
    kernel_entries_are_preserved::<X86_64>();
}

#[test]
fn kernel_entries_of_sv48_are_preserved() {
    kernel_entries_are_preserved::<Sv48>();
}

//! A machine with two CPUs and a complete TLB shootdown, as a kernel would implement it.
//!
//! ```sh
//! cargo run -p knee-vm --example two_cpus
//! ```
//!
//! Here, CPUs are threads, a TLB is a set of pages, and CPUs poll for IPIs. In a kernel, `handle_ipi` is the
//! interrupt handler. Frames come from the hosted machine, to keep the example short.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicBool, fence};
use std::thread;

use knee_sync::epoch::Domain;
use knee_vm::hosted::Hosted;
use knee_vm::{
    Cpu, CpuSet, Fault, Flush, Frame, FrameMeta, Machine, MapError, Page, Pages, Protection, Space,
    X86_64,
};

const CPUS: usize = 2;

/// A space's number, and the pages of this space that a CPU must flush.
type Request = (u64, Flush);

pub(crate) struct TwoCpus {
    frames: Hosted,
    /// Requests, indexed by receiver and sender. One slot for each pair is enough: the sender waits until its
    /// slot is `None` again.
    requests: [[Mutex<Option<Request>>; CPUS]; CPUS],
    tlbs: [Mutex<BTreeSet<(u64, Page)>>; CPUS],
}

impl TwoCpus {
    pub(crate) fn new() -> TwoCpus {
        let (requests, tlbs) = Default::default();
        TwoCpus { frames: Hosted::new(64, CPUS), requests, tlbs }
    }

    /// Flushes what other CPUs have requested.
    pub(crate) fn handle_ipi(&self, cpu: usize) {
        for request in &self.requests[cpu] {
            let mut request = request.lock().unwrap();
            if let Some((space, pages)) = *request {
                // SAFETY: this is CPU `cpu`.
                unsafe { self.flush_local(cpu, space, pages) };
                // Acknowledge the request after the flush.
                *request = None;
            }
        }
    }

    /// Simulates a program's access to a page. This MMU does not walk page tables: each access that misses
    /// the TLB raises a page fault.
    pub(crate) fn access<'m>(
        &'m self,
        cpu: &Cpu<'m, TwoCpus>,
        space: &Space<'m, TwoCpus>,
        page: Page,
    ) -> Result<(), Fault> {
        let (tlb, entry) = (&self.tlbs[cpu.number()], (space.number(), page));
        if !tlb.lock().unwrap().contains(&entry) {
            space.fault(cpu, page, Protection::READ)?;
            tlb.lock().unwrap().insert(entry);
        }
        Ok(())
    }

    /// Makes the CPU stop using a space, so that the space may be dropped.
    pub(crate) fn leave<'m>(&'m self, cpu: &Cpu<'m, TwoCpus>, space: &Space<'m, TwoCpus>) {
        // A kernel would load another root table first. SAFETY: this thread is the CPU, and after the flush
        // its TLB has no entries of the space.
        unsafe {
            self.flush_local(cpu.number(), space.number(), Flush::All);
            space.deactivate(cpu);
        }
        // The other CPU checks the set and posts its request under one lock, which `handle_ipi` also takes.
        // If the other CPU takes the lock first, `handle_ipi` finds the request. Otherwise, the other CPU
        // finds that this CPU has left.
        self.handle_ipi(cpu.number());
    }

    pub(crate) fn has_cached<'m>(
        &self,
        cpu: usize,
        space: &Space<'m, TwoCpus>,
        page: Page,
    ) -> bool {
        self.tlbs[cpu].lock().unwrap().contains(&(space.number(), page))
    }
}

// SAFETY: frames come from the hosted machine. `shoot_down` waits for each CPU of the set: the CPU flushes
// first, and then replaces the request with `None` under the request's lock.
unsafe impl Machine for TwoCpus {
    type Platform = <Hosted as Machine>::Platform;
    type Format = X86_64;

    unsafe fn shoot_down(&self, caller: usize, on: &CpuSet, space: u64, pages: Flush) {
        // If the loop below does not see a CPU that is joining the set, that CPU sees the changed tables.
        fence(SeqCst);
        for other in on.iter().filter(|&other| other != caller) {
            let mut request = self.requests[other][caller].lock().unwrap();
            // Check again under the lock: if `other` has left the set, it handles no more requests.
            if on.contains(other) {
                *request = Some((space, pages));
                // A kernel would send an IPI here.
            }
        }
        if on.contains(caller) {
            // SAFETY: this is CPU `caller`.
            unsafe { self.flush_local(caller, space, pages) };
        }
        for other in 0..CPUS {
            let is_pending = || self.requests[other][caller].lock().unwrap().is_some();
            // SAFETY: this is CPU `caller`, which holds no lock.
            unsafe { self.wait_while(caller, is_pending) };
        }
    }

    unsafe fn wait_while(&self, cpu: usize, mut condition: impl FnMut() -> bool) {
        while condition() {
            // The other CPU may be waiting for this one.
            self.handle_ipi(cpu);
            thread::yield_now();
        }
    }

    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush) {
        self.tlbs[cpu].lock().unwrap().retain(|&(of, page)| match pages {
            Flush::Range(pages) | Flush::Tables(pages) => of != space || !pages.contains(page),
            Flush::All => of != space,
        });
    }

    fn epoch(&self) -> &Domain<Self::Platform> {
        self.frames.epoch()
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.frames.allocate(frames)
    }

    unsafe fn free(&self, frames: &[Frame]) {
        // SAFETY: the caller meets the same contract.
        unsafe { self.frames.free(frames) }
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.frames.address(frame)
    }

    fn begin_root(&self, table: Frame) {
        self.frames.begin_root(table);
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.frames.frame_meta(frame)
    }
}

fn main() -> Result<(), MapError> {
    let machine = TwoCpus::new();
    unmap_while_the_other_reads(&machine)
}

/// CPU 1 reads a page again and again while CPU 0 unmaps it.
pub(crate) fn unmap_while_the_other_reads(machine: &TwoCpus) -> Result<(), MapError> {
    // SAFETY: only this thread acts as CPU 0.
    let cpu = unsafe { Cpu::new(machine, 0) };
    let space = Space::new(&cpu)?;
    let page = Page(16);
    space.map(&cpu, Pages::new(page, 1), Protection::READ)?;
    let has_read = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: only this thread acts as CPU 1.
            let cpu = unsafe { Cpu::new(machine, 1) };
            space.activate(&cpu);
            while machine.access(&cpu, &space, page).is_ok() {
                has_read.store(true, Release);
                machine.handle_ipi(1);
            }
            machine.leave(&cpu, &space);
        });
        while !has_read.load(Acquire) {
            machine.handle_ipi(0);
        }
        space.unmap(&cpu, Pages::new(page, 1))?;
        assert!(!machine.has_cached(1, &space, page));
        println!("When unmap returned, CPU 1 had flushed the page from its TLB.");
        Ok(())
    })
}

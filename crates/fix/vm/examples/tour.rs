//! A tour of knee-vm for kernel developers who write an `mm/`: from an empty address space to fork and
//! shootdown. It prints the result of each step.
//!
//! ```sh
//! cargo run -p knee-vm --example tour
//! ```

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{Fault, MapError, Object, Page, Pages, Protection, Quota, Sharing, Space};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    tour(&mut std::io::stdout().lock())
}

pub(crate) fn tour(out: &mut impl Write) -> Result<(), Error> {
    // This machine simulates its frames and CPUs in this process. The thread that owns `cpu` acts as CPU 0.
    let machine = Hosted::new(4096, 2);
    let cpu = machine.cpu(0);

    chapter(out, "An empty address space")?;
    let quota = Arc::new(Quota::new(&machine, 100_000)?);
    let space = Space::with_quota(&cpu, Arc::clone(&quota))?;
    writeln!(out, "It has {:#x} pages. None is mapped yet.", space.pages().count())?;
    report(out, &space, &quota)?;

    chapter(out, "Map: no page is present yet")?;
    let heap = Pages::new(Page(0x400), 32 << 10);
    space.map(&cpu, heap, Protection::READ_WRITE)?;
    writeln!(
        out,
        "128 MiB are mapped at {:#x}. That took one entry in one node.",
        heap.start.address()
    )?;
    report(out, &space, &quota)?;

    chapter(out, "Fault: the first access allocates a page")?;
    cpu.store(&space, heap.start.address(), 42)?;
    cpu.store(&space, (heap.start + 1000).address(), 43)?;
    writeln!(
        out,
        "Two words were written, so two pages have frames, and the tables above them exist."
    )?;
    report(out, &space, &quota)?;
    writeln!(
        out,
        "A page between them was never written: it reads as {}.",
        cpu.load(&space, (heap.start + 1).address())?
    )?;
    writeln!(
        out,
        "A load below the heap fails: {}.",
        cpu.load(&space, (heap.start - 1).address()).unwrap_err()
    )?;

    chapter(out, "Protect: change a part of a mapping")?;
    let part = Pages::new(heap.start + 1000, 1);
    space.protect(&cpu, part, Protection::READ)?;
    let now = space.query(&cpu, part.start).expect("the page is mapped");
    writeln!(out, "Page {:#x}, at {:#x}, is {now:?} now.", part.start, part.start.address())?;
    writeln!(out, "It reads as {}.", cpu.load(&space, part.start.address())?)?;
    let refused = cpu.store(&space, part.start.address(), 44);
    writeln!(out, "A store to it fails: {}.", refused.expect_err("the page is read-only"))?;

    chapter(out, "Map anywhere, and two errors")?;
    let stack = space.map_anywhere(&cpu, 16, Protection::READ_WRITE)?;
    writeln!(out, "16 pages are mapped at free addresses: {stack:?}.")?;
    let again = space.map(&cpu, stack, Protection::READ);
    writeln!(out, "Mapping them again fails: {}.", again.expect_err("the range is mapped"))?;
    let too_much = space.map_anywhere(&cpu, 100_000, Protection::READ);
    assert_eq!(too_much, Err(MapError::QuotaExceeded));
    writeln!(out, "Mapping another 100,000 pages fails: {}.", MapError::QuotaExceeded)?;
    space.unmap(&cpu, stack)?;

    chapter(out, "Discard: the pages stay mapped, their frames are freed")?;
    space.discard(&cpu, Pages::new(heap.start, 8))?;
    writeln!(
        out,
        "The first word of the heap is {} again.",
        cpu.load(&space, heap.start.address())?
    )?;
    cpu.store(&space, heap.start.address(), 42)?;

    chapter(out, "Fork: a page is copied when either space writes to it")?;
    let child = space.fork(&cpu)?;
    writeln!(out, "The child shares {} frames with its parent.", child.resident())?;
    cpu.store(&child, heap.start.address(), 1042)?;
    let (parent_has, child_has) =
        (cpu.load(&space, heap.start.address())?, cpu.load(&child, heap.start.address())?);
    writeln!(out, "The child wrote {child_has}; the parent still reads {parent_has}.")?;
    drop(child);
    writeln!(out, "The child is dropped, and its frames are freed.")?;

    chapter(out, "Objects: pages that spaces share")?;
    share(out, &cpu, &space)?;

    chapter(out, "Shootdown: two CPUs in one space")?;
    shoot_down(out, &machine, &cpu, &space)?;

    chapter(out, "The end")?;
    space.unmap(&cpu, space.pages())?;
    report(out, &space, &quota)?;
    drop(space);
    drop(cpu);
    writeln!(out, "All {} frames are free again.", machine.free_frames())?;
    Ok(())
}

/// Maps an object in two spaces.
fn share<'m>(
    out: &mut impl Write,
    cpu: &Processor<'m>,
    space: &Space<'m, Hosted>,
) -> Result<(), Error> {
    let file = Object::new(cpu, 16)?;
    let (here, there) = (Pages::new(Page(0x10), 16), Pages::new(Page(0x20), 16));
    let other = Space::new(cpu)?;
    space.map_object(cpu, here, &file, 0, Protection::READ_WRITE, Sharing::Shared)?;
    other.map_object(cpu, there, &file, 0, Protection::READ_WRITE, Sharing::Private)?;

    cpu.store(space, here.start.address(), 7)?;
    writeln!(
        out,
        "One space writes 7 to a shared page; the other reads {}.",
        cpu.load(&other, there.start.address())?
    )?;
    let mut mapped = 0;
    file.mappings(cpu, 0, |_, _| mapped += 1);
    writeln!(out, "The reverse map finds page 0 of the object in {mapped} places.")?;
    cpu.store(&other, there.start.address(), 8)?;
    writeln!(
        out,
        "The other space maps the page privately: it writes 8, and the first still reads {}.",
        cpu.load(space, here.start.address())?
    )?;
    let freed = file.discard(cpu, 0..16);
    writeln!(
        out,
        "A hole is punched: {freed} frame is freed, and the first space reads {}.",
        cpu.load(space, here.start.address())?
    )?;
    Ok(())
}

/// Unmaps a page while another CPU uses it.
fn shoot_down<'m>(
    out: &mut impl Write,
    machine: &'m Hosted,
    cpu: &Processor<'m>,
    space: &Space<'m, Hosted>,
) -> Result<(), Error> {
    let pages = space.map_anywhere(cpu, 1, Protection::READ_WRITE)?;
    cpu.store(space, pages.start.address(), 1)?;
    let is_used = AtomicBool::new(false);
    let (reads, fault) = thread::scope(|scope| {
        let user = scope.spawn(|| {
            let other = machine.cpu(1);
            let mut reads = 0_u64;
            loop {
                // After the first load, every load hits the TLB until CPU 1 handles the shootdown, which it
                // does between two loads.
                match other.load(space, pages.start.address()) {
                    Ok(_) => reads += 1,
                    Err(fault) => return (reads, fault),
                }
                is_used.store(true, Relaxed);
            }
        });
        while !is_used.load(Relaxed) {
            cpu.handle_ipis();
            thread::yield_now();
        }
        // Clears the page-table entry, makes CPU 1 flush it, waits for the acknowledgement and frees the
        // frame.
        space.unmap(cpu, pages).map(|()| user.join().expect("the thread does not panic"))
    })?;
    assert!(reads > 0 && fault == Fault::Unmapped);
    writeln!(out, "CPU 1 read a page in a loop, through its TLB, while CPU 0 unmapped it.")?;
    writeln!(
        out,
        "When unmap returned, no CPU could access the page. The next read faulted: {fault}."
    )?;
    Ok(())
}

fn chapter(out: &mut impl Write, title: &str) -> std::io::Result<()> {
    writeln!(out, "\n{title}\n{}", "-".repeat(title.len()))
}

fn report(out: &mut impl Write, space: &Space<'_, Hosted>, quota: &Quota) -> std::io::Result<()> {
    writeln!(
        out,
        "{} pages are mapped, and {} of them have frames.",
        quota.used(),
        space.resident()
    )
}

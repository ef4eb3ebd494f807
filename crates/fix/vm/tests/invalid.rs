//! Invalid arguments, on every architecture: each operation returns its error, and nothing changes.

#[path = "architectures/each.rs"]
mod each;

use each::on_each_format;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, Frame, MapError, Mapping, MemoryType, Object, Page, Pages, Protection, Sharing, Space,
    Usage, VirtAddr,
};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// The four mapped pages of the space.
const MAPPED: Pages = Pages::new(Page(100), 4);

on_each_format!(
    operations_refuse_ranges_outside_of_the_space,
    accesses_outside_of_the_space_fault,
    operations_refuse_pinned_pages,
    device_memory_beyond_the_largest_frame_is_refused,
    device_memory_cannot_be_used_as_memory,
);

/// The mappings of a space, the number of its mapped pages, and the number of its present pages.
fn state<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &Space<'m, Hosted<A>>,
) -> (Vec<Mapping>, u64, u64) {
    let audit = space.audit(cpu);
    (space.mappings(cpu).collect(), audit.mapped, audit.present)
}

/// Passes a space to `with`, and checks that the space does not change. All pages of its only mapping are
/// present.
fn unchanged<A: Architecture>(
    with: impl for<'m> FnOnce(&Processor<'m, A>, &Space<'m, Hosted<A>>, &Object<'m, Hosted<A>>),
) {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let object = Object::new(&cpu, 8).unwrap();
    space.map(&cpu, MAPPED, WRITE).unwrap();
    MAPPED.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
    let before = state(&cpu, &space);
    with(&cpu, &space, &object);
    assert_eq!(state(&cpu, &space), before);
    for page in MAPPED.iter() {
        assert_eq!(cpu.load(&space, page.address()), Ok(page.0));
    }
    let free = Pages::new(Page(300), 1);
    space.map(&cpu, free, WRITE).unwrap();
    cpu.store(&space, free.start.address(), 1).unwrap();
}

fn operations_refuse_ranges_outside_of_the_space<A: Architecture>() {
    unchanged::<A>(|cpu, space, object| {
        let end = space.pages().end;
        let ranges = [
            // No pages, or an end before the start.
            (Pages::new(MAPPED.start, 0), MapError::Empty),
            (Pages { start: MAPPED.end, end: MAPPED.start }, MapError::Empty),
            // Beyond the last page of programs. On x86-64 and RISC-V, the kernel's half follows.
            (Pages::new(end - 1, 2), MapError::OutOfRange),
            (Pages::new(end, 1), MapError::OutOfRange),
            (Pages { start: MAPPED.start, end: end + 1 }, MapError::OutOfRange),
            // The kernel's half as x86-64 writes it: sign-extended.
            (Pages::new(Page(0xf_ffff_8000_0000), 1), MapError::OutOfRange),
            (Pages::new(Page(u64::MAX - 1), 1), MapError::OutOfRange),
            // All page numbers.
            (Pages { start: Page(0), end: Page(u64::MAX) }, MapError::OutOfRange),
        ];
        for (pages, error) in ranges {
            let refused = |name: &str, result: Result<(), MapError>| {
                assert_eq!(result, Err(error), "{name} of {pages:?}");
            };
            refused("map", space.map(cpu, pages, WRITE));
            let map = space.map_object(cpu, pages, object, 0, READ, Sharing::Private);
            refused("map_object", map);
            refused("replace", space.replace(cpu, pages, WRITE));
            let replace = space.replace_with_object(cpu, pages, object, 0, READ, Sharing::Shared);
            refused("replace_with_object", replace);
            refused("unmap", space.unmap(cpu, pages));
            refused("discard", space.discard(cpu, pages));
            refused("protect", space.protect(cpu, pages, READ));
            refused("promote", space.promote(cpu, pages).map(drop));
            refused("usage", space.usage(cpu, pages, Usage::all(), |_, _| ()));
            refused("remap", space.remap(cpu, pages, Pages::new(Page(200), 4)));
            refused("remap to it", space.remap(cpu, MAPPED, pages));
        }
        // `prune` only releases memory, so it ignores the pages outside of the space.
        space.prune(cpu, Pages { start: Page(0), end: Page(u64::MAX) });
    });
}

fn accesses_outside_of_the_space_fault<A: Architecture>() {
    unchanged::<A>(|cpu, space, _| {
        let end = space.pages().end;
        for page in [end, end + 1, Page(0xf_ffff_8000_0000), Page(u64::MAX)] {
            assert_eq!(space.fault(cpu, page, READ), Err(Fault::Unmapped), "{page:?}");
            assert_eq!(space.pin(cpu, page, READ).map(drop), Err(Fault::Unmapped), "{page:?}");
            assert_eq!(space.query(cpu, page), None);
        }
        for address in [end.address(), VirtAddr(u64::MAX - 7), VirtAddr(0xffff_8000_0000_0000)] {
            let read = space.read(cpu, address, &mut [0; 16]).unwrap_err();
            assert_eq!((read.copied, read.fault), (0, Fault::Unmapped), "{address:?}");
            let write = space.write(cpu, address, &[0; 16]).unwrap_err();
            assert_eq!((write.copied, write.fault), (0, Fault::Unmapped), "{address:?}");
        }
    });
}

fn operations_refuse_pinned_pages<A: Architecture>() {
    unchanged::<A>(|cpu, space, object| {
        let pin = space.pin(cpu, MAPPED.start + 2, WRITE).unwrap();
        let around = Pages::new(MAPPED.start - 4, 16);
        for pages in [MAPPED, around, Pages::new(MAPPED.start + 2, 1)] {
            assert_eq!(space.unmap(cpu, pages), Err(MapError::Pinned));
            assert_eq!(space.discard(cpu, pages), Err(MapError::Pinned));
            assert_eq!(space.replace(cpu, pages, READ), Err(MapError::Pinned));
        }
        let replace = space.replace_with_object(cpu, MAPPED, object, 0, READ, Sharing::Shared);
        assert_eq!(replace, Err(MapError::Pinned));
        // The new length would unmap the pinned page.
        let shorter = Pages::new(Page(200), 1);
        assert_eq!(space.remap(cpu, MAPPED, shorter), Err(MapError::Pinned));
        drop(pin);
    });
}

fn device_memory_beyond_the_largest_frame_is_refused<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let all = machine.free_frames();
    for (first, pages, error) in [
        (A::FRAMES, 1, MapError::OutOfRange),
        (A::FRAMES - 1, 2, MapError::OutOfRange),
        (u64::MAX, 2, MapError::OutOfRange),
        (0, 0, MapError::Empty),
    ] {
        // SAFETY: the call fails, so nothing accesses the frames.
        let object =
            unsafe { Object::of_device(&cpu, Frame(first), pages, MemoryType::Device, WRITE) };
        assert_eq!(object.map(drop), Err(error), "{pages} frames from {first:#x}");
    }
    assert_eq!(machine.free_frames(), all);
}

/// Device frames never reach the machine's allocator, and the kernel never accesses them.
fn device_memory_cannot_be_used_as_memory<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        // The machine has no such frames, and would panic if knee-vm accessed or freed them.
        let first = Frame(A::FRAMES - 8);
        // SAFETY: no program accesses the pages.
        let object =
            unsafe { Object::of_device(&cpu, first, 8, MemoryType::Device, WRITE) }.unwrap();
        let space = Space::new(&cpu).unwrap();
        let private = space.map_object(&cpu, MAPPED, &object, 0, WRITE, Sharing::Private);
        assert_eq!(private, Err(MapError::Device));
        space.map_object(&cpu, MAPPED, &object, 0, WRITE, Sharing::Shared).unwrap();
        space.fault(&cpu, MAPPED.start, WRITE).unwrap();
        assert_eq!(space.pin(&cpu, MAPPED.start, WRITE).map(drop), Err(Fault::Device));
        let read = space.read(&cpu, MAPPED.start.address(), &mut [0]).unwrap_err();
        assert_eq!(read.fault, Fault::Device);
        assert_eq!(space.promote(&cpu, space.pages()), Ok(0));
        let copy = space.fork(&cpu).unwrap();
        copy.fault(&cpu, MAPPED.start, WRITE).unwrap();
        object.evict(&cpu, 0..8).unwrap();
        space.unmap(&cpu, MAPPED).unwrap();
        drop(object);
        drop(copy);
    }
    assert_eq!(machine.free_frames(), all);
}

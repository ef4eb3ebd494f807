//! Pages of 1 GiB of device memory: which faults make them, and what removes them.

#[path = "architectures/each.rs"]
mod each;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use each::on_each_format;
use knee_models::cpus::on_each_cpu;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, Frame, MapError, MemoryType, Object, Page, Pages, Protection, Sharing, Space, Usage,
};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// The number of 4 KiB pages in 1 GiB, and in 2 MiB.
const GIB: u64 = 1 << 18;
const LARGE: u64 = 512;
/// The device memory: 2 GiB that the machine does not have, so no CPU may access it.
const FIRST: Frame = Frame(8 * GIB);
/// Where the device memory is mapped, with the same alignment.
const PAGES: Pages = Pages::new(Page(4 * GIB), 2 * GIB);
/// A page in the first GiB.
const INSIDE: Page = Page(4 * GIB + 1000);

on_each_format!(
    aligned_device_memory_gets_pages_of_1_gib,
    other_device_memory_gets_smaller_pages,
    denied_accesses_fail,
    an_operation_on_a_part_removes_the_page,
    an_operation_that_changes_no_part_leaves_the_page_in_place,
    an_object_reports_the_spaces_that_map_the_page,
    an_access_beyond_the_end_adds_no_table,
    the_kernel_cannot_access_the_page,
    a_fork_leaves_the_page_in_place,
    revoked_device_memory_is_gone,
    the_tables_of_a_dropped_space_are_freed,
    a_cpu_that_stores_meanwhile_sees_the_removal,
    an_operation_on_two_pages_in_use_ends,
);

fn object<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    pages: u64,
    access: Protection,
) -> Object<'m, Hosted<A>> {
    // SAFETY: no CPU accesses the frames, which the machine does not have.
    unsafe { Object::of_device(cpu, FIRST, pages, MemoryType::Device, access) }.unwrap()
}

/// Passes to `with` a space in which 2 GiB of device memory are mapped, and whose first GiB is one page.
fn with_page<A: Architecture>(
    with: impl for<'m> FnOnce(&Processor<'m, A>, &Space<'m, Hosted<A>>, &Object<'m, Hosted<A>>),
) {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let object = object(&cpu, 2 * GIB, WRITE);
        let space = Space::new(&cpu).unwrap();
        space.map_object(&cpu, PAGES, &object, 0, WRITE, Sharing::Shared).unwrap();
        space.fault(&cpu, INSIDE, WRITE).unwrap();
        assert_eq!((space.resident(), space.audit(&cpu).gigabytes), (GIB, 1));
        with(&cpu, &space, &object);
        space.audit(&cpu);
    }
    assert_eq!(machine.free_frames(), all);
}

fn aligned_device_memory_gets_pages_of_1_gib<A: Architecture>() {
    with_page::<A>(|cpu, space, _| {
        let before = space.audit(cpu).tables;
        space.fault(cpu, INSIDE, READ).unwrap();
        space.fault(cpu, PAGES.start + GIB, READ).unwrap();
        space.fault(cpu, PAGES.end - 1, WRITE).unwrap();
        let audit = space.audit(cpu);
        assert_eq!((audit.gigabytes, audit.present, audit.mapped), (2, 2 * GIB, 2 * GIB));
        assert_eq!(audit.tables, before + 1, "the table of the second GiB, which is empty");
        assert_eq!(space.resident(), 2 * GIB);
        assert_eq!(space.query(cpu, INSIDE), Some(WRITE));
        space.unmap(cpu, PAGES).unwrap();
        assert_eq!(space.resident(), 0);
        assert_eq!(space.fault(cpu, INSIDE, READ), Err(Fault::Unmapped));
    });
}

fn other_device_memory_gets_smaller_pages<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let shifted = Page(PAGES.start.0 + LARGE);
    for (pages, start, count, first, expected) in [
        // In turn, the object is too short, the address is not aligned like the frames, only a part of the
        // GiB is mapped, and (twice) the mapping begins in the middle of the object.
        (GIB - 1, PAGES.start, GIB, 0, LARGE),
        (2 * GIB, shifted, GIB, 0, LARGE),
        (2 * GIB, PAGES.start, GIB - 1, 0, LARGE),
        (2 * GIB, PAGES.start, GIB, 7, 1),
        (2 * GIB, PAGES.start, GIB, GIB, GIB),
    ] {
        let object = object(&cpu, pages, WRITE);
        let space = Space::new(&cpu).unwrap();
        space
            .map_object(&cpu, Pages::new(start, count), &object, first, WRITE, Sharing::Shared)
            .unwrap();
        space.fault(&cpu, start + LARGE, WRITE).unwrap();
        assert_eq!(space.resident(), expected);
        assert_eq!(space.audit(&cpu).gigabytes, expected / GIB);
    }
    // A page of the GiB has another protection.
    let (object, space) = (object(&cpu, GIB, WRITE), Space::new(&cpu).unwrap());
    let pages = Pages::new(PAGES.start, GIB);
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    space.protect(&cpu, Pages::new(INSIDE, 1), READ).unwrap();
    space.fault(&cpu, pages.end - 1, WRITE).unwrap();
    assert_eq!(space.resident(), LARGE);
    space.audit(&cpu);
}

fn denied_accesses_fail<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let (object, space) = (object(&cpu, GIB, READ), Space::new(&cpu).unwrap());
    let pages = Pages::new(PAGES.start, GIB);
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    assert_eq!(space.fault(&cpu, INSIDE, WRITE), Err(Fault::AccessDenied));
    assert_eq!(space.resident(), 0);
    space.fault(&cpu, INSIDE, READ).unwrap();
    assert_eq!(space.fault(&cpu, INSIDE, WRITE), Err(Fault::AccessDenied));
    assert_eq!(space.fault(&cpu, INSIDE, Protection::EXECUTE), Err(Fault::AccessDenied));
    assert_eq!(space.audit(&cpu).gigabytes, 1);
}

/// An operation on a part of the page.
type Change<A> = for<'m> fn(&Processor<'m, A>, &Space<'m, Hosted<A>>);

fn an_operation_on_a_part_removes_the_page<A: Architecture>() {
    let one = Pages::new(INSIDE, 1);
    let changes: [(&str, Change<A>); 6] = [
        ("unmap", |cpu, space| space.unmap(cpu, Pages::new(INSIDE, 1)).unwrap()),
        ("discard", |cpu, space| space.discard(cpu, Pages::new(INSIDE, 1)).unwrap()),
        ("protect", |cpu, space| space.protect(cpu, Pages::new(INSIDE, 1), READ).unwrap()),
        ("replace", |cpu, space| space.replace(cpu, Pages::new(INSIDE, 1), WRITE).unwrap()),
        ("move", |cpu, space| {
            space.remap(cpu, Pages::new(INSIDE, 1), Pages::new(Page(9), 1)).unwrap();
        }),
        ("prune", |cpu, space| assert!(space.prune(cpu, PAGES) > 0)),
    ];
    for (name, change) in changes {
        with_page::<A>(|cpu, space, _| {
            change(cpu, space);
            assert_eq!((space.resident(), space.audit(cpu).gigabytes), (0, 0), "{name}");
            let found = space.fault(cpu, INSIDE, WRITE);
            match name {
                "unmap" | "move" => assert_eq!(found, Err(Fault::Unmapped), "{name}"),
                "protect" => assert_eq!(found, Err(Fault::AccessDenied), "{name}"),
                _ => assert_eq!(found, Ok(()), "{name}"),
            }
            // The other pages of the GiB are still mapped.
            space.fault(cpu, INSIDE + 1, WRITE).unwrap();
            space.fault(cpu, PAGES.start + GIB - 1, WRITE).unwrap();
            let whole = u64::from(matches!(name, "discard" | "prune"));
            assert_eq!(space.audit(cpu).gigabytes, whole, "{name}");
            space.unmap(cpu, PAGES).unwrap();
            assert_eq!(space.query(cpu, one.start), None);
        });
    }
}

fn an_operation_that_changes_no_part_leaves_the_page_in_place<A: Architecture>() {
    const BEYOND: Page = PAGES.end;
    let operations: [(&str, Change<A>); 10] = [
        ("usage", |cpu, space| {
            let never = |page, _| panic!("{page:?} is device memory");
            space.usage(cpu, PAGES, Usage::all(), never).unwrap();
        }),
        ("sharers", |cpu, space| {
            space.sharers(cpu, INSIDE, |_, page| panic!("{page:?} is device memory"));
        }),
        ("promote", |cpu, space| assert_eq!(space.promote(cpu, PAGES), Ok(0))),
        ("settle", |cpu, space| space.settle(cpu)),
        ("mappings", |cpu, space| assert_eq!(space.mappings(cpu).count(), 1)),
        ("map", |cpu, space| {
            let result = space.map(cpu, Pages::new(INSIDE, 1), READ);
            assert_eq!(result, Err(MapError::Occupied));
        }),
        ("map of a larger range", |cpu, space| {
            let result = space.map(cpu, Pages::new(PAGES.start - 1, 4 * GIB), READ);
            assert_eq!(result, Err(MapError::Occupied));
        }),
        ("protect", |cpu, space| {
            let result = space.protect(cpu, Pages::new(INSIDE, 2 * GIB), READ);
            assert_eq!(result, Err(MapError::Unmapped));
        }),
        ("remap", |cpu, space| {
            space.map(cpu, Pages::new(BEYOND, 1), READ).unwrap();
            let result = space.remap(cpu, Pages::new(BEYOND, 1), Pages::new(INSIDE, 1));
            assert_eq!(result, Err(MapError::Occupied));
        }),
        ("remap from one side to the other", |cpu, space| {
            space.map(cpu, Pages::new(BEYOND, 1), READ).unwrap();
            space.remap(cpu, Pages::new(BEYOND, 1), Pages::new(Page(9), 1)).unwrap();
        }),
    ];
    for (name, operation) in operations {
        with_page::<A>(|cpu, space, _| {
            operation(cpu, space);
            assert_eq!((space.resident(), space.audit(cpu).gigabytes), (GIB, 1), "{name}");
        });
    }
}

fn an_object_reports_the_spaces_that_map_the_page<A: Architecture>() {
    with_page::<A>(|cpu, space, object| {
        for (index, expected) in [(1000, vec![INSIDE]), (GIB, vec![])] {
            let mut found = Vec::new();
            object.mappings(cpu, index, |number, page| {
                assert_eq!(number, space.number());
                found.push(page);
            });
            assert_eq!(found, expected, "of page {index}");
        }
        assert_eq!((space.resident(), space.audit(cpu).gigabytes), (GIB, 1));
    });
}

fn an_access_beyond_the_end_adds_no_table<A: Architecture>() {
    with_page::<A>(|cpu, space, object| {
        object.resize(cpu, 0).unwrap();
        let before = space.audit(cpu).tables;
        for page in [INSIDE, PAGES.start + GIB] {
            assert_eq!(space.fault(cpu, page, READ), Err(Fault::BeyondEnd));
        }
        object.resize(cpu, 2 * GIB).unwrap();
        for page in [INSIDE, PAGES.start + GIB] {
            space.fault(cpu, page, READ).unwrap();
        }
        let audit = space.audit(cpu);
        assert_eq!((audit.gigabytes, audit.tables), (2, before + 1));
    });
}

fn the_kernel_cannot_access_the_page<A: Architecture>() {
    with_page::<A>(|cpu, space, _| {
        let mut bytes = [0; 8];
        let partial = space.read(cpu, INSIDE.address(), &mut bytes).unwrap_err();
        assert_eq!(partial.fault, Fault::Device);
        assert_eq!(space.pin(cpu, INSIDE, READ).unwrap_err(), Fault::Device);
    });
}

fn a_fork_leaves_the_page_in_place<A: Architecture>() {
    with_page::<A>(|cpu, space, _| {
        let copy = space.fork(cpu).unwrap();
        assert_eq!((space.resident(), copy.resident()), (GIB, 0));
        copy.fault(cpu, INSIDE, WRITE).unwrap();
        for space in [space, &copy] {
            assert_eq!((space.resident(), space.audit(cpu).gigabytes), (GIB, 1));
        }
        copy.unmap(cpu, Pages::new(INSIDE, 1)).unwrap();
        assert_eq!((space.resident(), copy.resident()), (GIB, 0));
    });
}

fn revoked_device_memory_is_gone<A: Architecture>() {
    with_page::<A>(|cpu, space, object| {
        object.resize(cpu, 0).unwrap();
        assert_eq!(space.resident(), 0);
        assert_eq!(space.fault(cpu, INSIDE, READ), Err(Fault::BeyondEnd));
        object.resize(cpu, 2 * GIB).unwrap();
        space.fault(cpu, INSIDE, READ).unwrap();
        assert!(space.resident() > 0);
        object.discard(cpu, 1000..1001);
        assert_eq!(space.resident(), 0);
        space.fault(cpu, INSIDE, READ).unwrap();
        assert_eq!(space.resident(), GIB);
    });
}

fn the_tables_of_a_dropped_space_are_freed<A: Architecture>() {
    with_page::<A>(|_, _, _| ());
}

/// One CPU stores to the memory, while the other removes the page in one way after another.
fn a_cpu_that_stores_meanwhile_sees_the_removal<A: Architecture>() {
    const ROUNDS: u64 = 100;
    let machine = Hosted::<A>::with_architecture(4096, 2);
    let (pages, is_done) = (Pages::new(PAGES.start, GIB), AtomicBool::new(false));
    let one = Pages::new(INSIDE, 1);
    let (object, space) = {
        let cpu = machine.cpu(0);
        let memory = MemoryType::WriteBack;
        // SAFETY: the CPUs access only frames 1000 to 1005. Each CPU allocates fewer than 1000 frames,
        // beginning with frame 0 or 2048.
        let object = unsafe { Object::of_device(&cpu, Frame(0), GIB, memory, WRITE) }.unwrap();
        let space = Space::new(&cpu).unwrap();
        space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
        (object, space)
    };
    on_each_cpu(&machine, 2, |cpu, _| {
        if cpu.number() == 1 {
            for round in 0.. {
                if is_done.load(SeqCst) {
                    break;
                }
                let page = INSIDE + round % 4;
                match cpu.store(&space, page.address(), round) {
                    Err(Fault::AccessDenied) => assert_eq!(page, INSIDE),
                    other => assert!(matches!(other, Ok(()) | Err(Fault::BeyondEnd)), "{other:?}"),
                }
            }
            return;
        }
        for round in 0..ROUNDS {
            cpu.store(&space, (INSIDE + 5).address(), 1).unwrap();
            match round % 3 {
                0 => {
                    space.protect(&cpu, one, READ).unwrap();
                    let denied = cpu.store(&space, INSIDE.address(), 1);
                    assert_eq!(denied, Err(Fault::AccessDenied));
                    space.protect(&cpu, one, WRITE).unwrap();
                }
                1 => {
                    object.resize(&cpu, 0).unwrap();
                    let gone = cpu.load(&space, INSIDE.address());
                    assert_eq!(gone, Err(Fault::BeyondEnd));
                    object.resize(&cpu, GIB).unwrap();
                }
                _ => drop(space.fork(&cpu).unwrap()),
            }
            space.prune(&cpu, space.pages());
        }
        is_done.store(true, SeqCst);
    });
    space.audit(&machine.cpu(0));
}

/// If the operation did not delay large pages, faults would create one page again while the operation removes
/// the other.
fn an_operation_on_two_pages_in_use_ends<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(6144, 3);
    let is_done = AtomicBool::new(false);
    let (object, space) = {
        let cpu = machine.cpu(0);
        let memory = MemoryType::WriteBack;
        // SAFETY: the CPUs access only frame 1000. Each CPU allocates fewer than 1000 frames, beginning with
        // frame 0, 2048 or 4096.
        let object = unsafe { Object::of_device(&cpu, Frame(0), GIB, memory, WRITE) }.unwrap();
        let space = Space::new(&cpu).unwrap();
        for start in [PAGES.start, PAGES.start + GIB] {
            let pages = Pages::new(start, GIB);
            space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
        }
        (object, space)
    };
    on_each_cpu(&machine, 3, |cpu, _| {
        let number = cpu.number() as u64;
        if number > 0 {
            while !is_done.load(SeqCst) {
                cpu.store(&space, (INSIDE + (number - 1) * GIB).address(), 1).unwrap();
            }
            return;
        }
        for _ in 0..100 {
            space.discard(&cpu, PAGES).unwrap();
        }
        is_done.store(true, SeqCst);
    });
    let cpu = machine.cpu(0);
    space.audit(&cpu);
    drop(object);
}

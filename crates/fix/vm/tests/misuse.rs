//! Incorrect calls that the types do not prevent.

use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};

use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{
    MemoryType, Object, Page, Pages, Protection, Sharing, Space, Usage, VirtAddr, X86_64,
};

const WRITE: Protection = Protection::READ_WRITE;
const PAGE: Page = Page(16);
const ONE: Pages = Pages::new(PAGE, 1);

type On<'m> = Space<'m, Hosted<X86_64>>;
type File<'m> = Object<'m, Hosted<X86_64>>;
type Operation = for<'m> fn(&Processor<'m, X86_64>, &On<'m>, &File<'m>);

/// Two machines can have the same type and lifetime, so only a check at run time tells them apart.
#[test]
fn every_operation_refuses_a_cpu_of_another_machine() {
    const RANGE: Range<u64> = 0..1;
    const MOVED: Pages = Pages::new(Page(32), 1);
    let operations: &[(&str, Operation)] = &[
        ("map", |cpu, space, _| _ = space.map(cpu, MOVED, WRITE)),
        ("map_anywhere", |cpu, space, _| _ = space.map_anywhere(cpu, 1, WRITE)),
        ("map_guarded", |cpu, space, _| _ = space.map_guarded(cpu, 1, 1, WRITE)),
        ("map_object", |cpu, space, object| {
            _ = space.map_object(cpu, MOVED, object, 0, WRITE, Sharing::Shared);
        }),
        ("map_object_anywhere", |cpu, space, object| {
            _ = space.map_object_anywhere(cpu, 1, object, 0, WRITE, Sharing::Shared);
        }),
        ("replace", |cpu, space, _| _ = space.replace(cpu, ONE, WRITE)),
        ("replace_with_object", |cpu, space, object| {
            _ = space.replace_with_object(cpu, ONE, object, 0, WRITE, Sharing::Shared);
        }),
        ("unmap", |cpu, space, _| _ = space.unmap(cpu, ONE)),
        ("discard", |cpu, space, _| _ = space.discard(cpu, ONE)),
        ("promote", |cpu, space, _| _ = space.promote(cpu, ONE)),
        ("protect", |cpu, space, _| _ = space.protect(cpu, ONE, WRITE)),
        ("populate", |cpu, space, _| _ = space.populate(cpu, ONE)),
        ("remap", |cpu, space, _| _ = space.remap(cpu, ONE, MOVED)),
        ("remap_anywhere", |cpu, space, _| _ = space.remap_anywhere(cpu, ONE, 2)),
        ("fault", |cpu, space, _| _ = space.fault(cpu, PAGE, WRITE)),
        ("fork", |cpu, space, _| _ = space.fork(cpu)),
        ("prune", |cpu, space, _| _ = space.prune(cpu, ONE)),
        ("pin", |cpu, space, _| _ = space.pin(cpu, PAGE, WRITE)),
        ("read", |cpu, space, _| _ = space.read(cpu, VirtAddr(0x10_000), &mut [0])),
        ("write", |cpu, space, _| _ = space.write(cpu, VirtAddr(0x10_000), &[0])),
        ("read of nothing", |cpu, space, _| _ = space.read(cpu, VirtAddr(0), &mut [])),
        ("populate of nothing", |cpu, space, _| _ = space.populate(cpu, Pages::new(PAGE, 0))),
        ("resize beyond the capacity", |cpu, _, object| _ = object.resize(cpu, u64::MAX)),
        ("with_page", |cpu, space, _| _ = space.with_page(cpu, PAGE, WRITE, |_| ())),
        ("usage", |cpu, space, _| _ = space.usage(cpu, ONE, Usage::all(), |_, _| ())),
        ("query", |cpu, space, _| _ = space.query(cpu, PAGE)),
        ("mappings", |cpu, space, _| _ = space.mappings(cpu).count()),
        ("sharers", |cpu, space, _| space.sharers(cpu, PAGE, |_, _| ())),
        ("settle", |cpu, space, _| space.settle(cpu)),
        ("activate", |cpu, space, _| space.activate(cpu)),
        // SAFETY: no CPU uses the tables of the space.
        ("deactivate", |cpu, space, _| unsafe { space.deactivate(cpu) }),
        ("resize", |cpu, _, object| _ = object.resize(cpu, 1)),
        ("evict", |cpu, _, object| _ = object.evict(cpu, RANGE)),
        ("write_back", |cpu, _, object| _ = object.write_back(cpu, RANGE)),
        ("discard of an object", |cpu, _, object| _ = object.discard(cpu, RANGE)),
        ("mappings of an object", |cpu, _, object| object.mappings(cpu, 0, |_, _| ())),
    ];
    let (machine, other) = (Hosted::new(64, 1), Hosted::new(64, 1));
    let (cpu, foreign) = (machine.cpu(0), other.cpu(0));
    for (name, operation) in operations {
        let (space, object) = (Space::new(&cpu).unwrap(), Object::new(&cpu, 1).unwrap());
        space.map(&cpu, ONE, WRITE).unwrap();
        cpu.store(&space, PAGE.address(), 1).unwrap();
        let failed = panic::catch_unwind(AssertUnwindSafe(|| operation(&foreign, &space, &object)));
        assert!(failed.is_err(), "{name} accepts a CPU of another machine");
        assert_eq!(cpu.load(&space, PAGE.address()), Ok(1));
        operation(&cpu, &space, &object);
        cpu.leave(&space);
    }
}

/// A failed test prints its own message, instead of aborting in the destructor of its space.
#[test]
fn a_space_is_leaked_if_its_owner_panics() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let failed = panic::catch_unwind(AssertUnwindSafe(|| {
        let space = Space::new(&cpu).unwrap();
        space.map(&cpu, ONE, WRITE).unwrap();
        let _pinned = std::mem::ManuallyDrop::new(space.pin(&cpu, PAGE, WRITE).unwrap());
        panic!("the test's own message");
    }));
    assert_eq!(failed.unwrap_err().downcast_ref(), Some(&"the test's own message"));
}

#[test]
fn the_memory_type_does_not_change_what_an_object_allows() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    for memory in [MemoryType::WriteBack, MemoryType::WriteCombining, MemoryType::Device] {
        let frame = knee_vm::Frame(5000);
        // SAFETY: nothing accesses the frame.
        let object = unsafe { Object::of_device(&cpu, frame, 1, memory, Protection::READ) };
        let space = Space::new(&cpu).unwrap();
        space.map_object(&cpu, ONE, &object.unwrap(), 0, WRITE, Sharing::Shared).unwrap();
        assert_eq!(space.fault(&cpu, PAGE, Protection::READ), Ok(()));
        assert_eq!(space.fault(&cpu, PAGE, Protection::WRITE), Err(knee_vm::Fault::AccessDenied));
    }
}

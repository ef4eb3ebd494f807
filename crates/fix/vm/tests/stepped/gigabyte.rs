//! Pages of 1 GiB that the TLBs of other CPUs contain.

use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, Fault, Frame, MemoryType, Object, Page, Pages, Protection, Sharing, Space};

use super::each::on_each_architecture;
use super::machine::{Stepped, waits, with_frames};
use super::{READ, WRITE, only};

/// The number of 4 KiB pages in 1 GiB.
const GIB: u64 = 1 << 18;
/// The pages of the device, and two of them. The CPUs access only the first pages of the device.
const ALL: Pages = Pages::new(Page(4 * GIB), GIB);
const INSIDE: Page = Page(4 * GIB + 300);
const NEXT: Page = Page(INSIDE.0 + 1);

on_each_architecture!(
    a_page_stays_away_until_all_cpus_have_flushed_the_page_of_1_gib,
    a_page_of_1_gib_stays_away_until_all_cpus_have_flushed_the_table,
);

/// Passes to `with` a space in which 1 GiB of device memory is mapped writable. The device allows `access`.
fn with_device<A: Architecture>(
    access: Protection,
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    with_frames::<A>(1024, |machine, [first, second, changer]| {
        let memory = MemoryType::WriteBack;
        // SAFETY: the CPUs access frames from 300 on, and allocate fewer than 300 frames, beginning with 0.
        let object = unsafe { Object::of_device(&changer, Frame(0), GIB, memory, access) }.unwrap();
        let space = Space::new(&changer).unwrap();
        space.map_object(&changer, ALL, &object, 0, WRITE, Sharing::Shared).unwrap();
        with(machine, &space, [&first, &second, &changer]);
    });
}

/// As long as any TLB has the page of 1 GiB, no CPU finds a smaller page in its place.
fn a_page_stays_away_until_all_cpus_have_flushed_the_page_of_1_gib<A: Architecture>() {
    with_device::<A>(WRITE, |machine, space, [first, second, changer]| {
        for (cpu, value) in [(first, 1), (second, 2)] {
            machine.store(cpu, space, INSIDE, value).unwrap();
            machine.store(cpu, space, NEXT, 7).unwrap();
        }
        assert_eq!((space.resident(), space.audit(changer).gigabytes), (GIB, 1));
        let others = || {
            assert_eq!(machine.load(first, space, INSIDE), Ok(2));
            // When this CPU leaves the space, it flushes the page from its TLB.
            machine.leave(second, space);
            assert!(waits(|| machine.load(second, space, NEXT)));
            assert!(waits(|| space.discard(second, only(NEXT))));
        };
        machine.meanwhile(others, || space.protect(changer, only(INSIDE), READ).unwrap());
        for cpu in [first, second] {
            assert_eq!(machine.load(cpu, space, NEXT), Ok(7));
            assert_eq!(machine.load(cpu, space, INSIDE), Ok(2));
            assert!(machine.store(cpu, space, INSIDE, 3).is_err());
        }
        assert_eq!(space.audit(changer).gigabytes, 0);
    });
}

/// As long as any CPU may have cached the pointer to the table, no CPU finds the page of 1 GiB.
fn a_page_of_1_gib_stays_away_until_all_cpus_have_flushed_the_table<A: Architecture>() {
    with_device::<A>(READ, |machine, space, [first, second, changer]| {
        // The object denies the access, but the CPU has found the empty table.
        assert_eq!(machine.store(first, space, INSIDE, 1), Err(Fault::AccessDenied));
        let others = || {
            assert!(waits(|| machine.load(second, space, INSIDE)));
            assert!(waits(|| space.unmap(second, only(NEXT))));
        };
        machine.meanwhile(others, || assert_eq!(machine.load(changer, space, NEXT), Ok(0)));
        assert_eq!((space.resident(), space.audit(changer).gigabytes), (GIB, 1));
        for cpu in [first, second] {
            assert_eq!(machine.load(cpu, space, INSIDE), Ok(0));
        }
    });
}

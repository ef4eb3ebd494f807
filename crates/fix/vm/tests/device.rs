//! Device memory: frames that do not belong to the machine.

#[path = "architectures/each.rs"]
mod each;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use each::{on_each_architecture, on_each_format};
use knee_models::random::Random;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, Frame, Machine, MapError, MemoryType, Object, Page, Pages, PartialCopy, Protection,
    Sharing, Space, Usage,
};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;
const SHARED: Sharing = Sharing::Shared;
/// The first page of most tests, just before the end of a leaf table.
const START: Page = Page(508);
/// The number of pages of the device.
const PAGES: u64 = 8;

on_each_architecture!(
    programs_access_the_frames,
    operations_keep_the_content_and_give_no_frame_back,
    a_revoked_device_is_out_of_reach_for_all_cpus,
    a_protected_device_is_read_only_for_all_cpus,
    random_operations_agree_with_a_model,
);
on_each_format!(a_device_that_allows_stores_also_allows_loads, invalid_requests_change_nothing);

/// A device whose registers are in frames that the machine no longer allocates.
struct Device<'m, A: Architecture> {
    machine: &'m Hosted<A>,
    first: Frame,
    object: Object<'m, Hosted<A>>,
}

impl<'m, A: Architecture> Device<'m, A> {
    fn new(machine: &'m Hosted<A>, cpu: &Processor<'m, A>) -> Device<'m, A> {
        let mut frames = [Frame(0); PAGES as usize];
        assert_eq!(machine.allocate(&mut frames), frames.len());
        frames.sort();
        let first = frames[0];
        assert!((0..).zip(frames).all(|(index, frame)| frame == Frame(first.0 + index)));
        // SAFETY: nobody else uses the frames, which contain only atomic words.
        let object =
            unsafe { Object::of_device(cpu, first, PAGES, MemoryType::Device, WRITE) }.unwrap();
        let device = Device { machine, first, object };
        (0..PAGES).for_each(|index| device.register(index).store(100 + index, SeqCst));
        device
    }

    /// The first word of a page.
    fn register(&self, index: u64) -> &AtomicU64 {
        let address = self.machine.address(Frame(self.first.0 + index));
        // SAFETY: the frames belong to the device, and programs access them with atomics.
        unsafe { address.cast().as_ref() }
    }
}

fn programs_access_the_frames<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let device = Device::new(&machine, &cpu);
    let (one, other) = (Space::new(&cpu).unwrap(), Space::new(&cpu).unwrap());
    one.map_object(&cpu, Pages::new(START, PAGES), &device.object, 0, WRITE, SHARED).unwrap();
    other.map_object(&cpu, Pages::new(Page(7), 2), &device.object, 3, READ, SHARED).unwrap();
    assert_eq!(cpu.load(&one, (START + 4).address()), Ok(104));
    assert_eq!(cpu.load(&other, Page(8).address()), Ok(104));
    cpu.store(&one, (START + 4).address(), 9).unwrap();
    assert_eq!(device.register(4).load(SeqCst), 9);
    assert_eq!(cpu.load(&other, Page(8).address()), Ok(9));
    assert_eq!(cpu.store(&other, Page(8).address(), 1), Err(Fault::AccessDenied));
    assert_eq!((one.resident(), device.object.resident()), (1, 0));

    let mut found = Vec::new();
    device.object.mappings(&cpu, 4, |space, page| found.push((space, page)));
    found.sort();
    assert_eq!(found, [(one.number(), START + 4), (other.number(), Page(8))]);
}

fn operations_keep_the_content_and_give_no_frame_back<A: Architecture>() {
    type Operation<A> = for<'m> fn(&Processor<'m, A>, &Space<'m, Hosted<A>>);
    let all = Pages::new(START, PAGES);
    let operations: [(&str, Operation<A>); 10] = [
        ("populate", |cpu, space| space.populate(cpu, Pages::new(START, PAGES)).unwrap()),
        ("discard", |cpu, space| space.discard(cpu, Pages::new(START, PAGES)).unwrap()),
        ("protect", |cpu, space| {
            space.protect(cpu, Pages::new(START, PAGES), READ).unwrap();
            assert_eq!(cpu.store(space, START.address(), 1), Err(Fault::AccessDenied));
            space.protect(cpu, Pages::new(START, PAGES), Protection::NONE).unwrap();
            assert_eq!(cpu.load(space, START.address()), Err(Fault::AccessDenied));
            space.protect(cpu, Pages::new(START, PAGES), WRITE).unwrap();
        }),
        ("remap", |cpu, space| {
            space.remap(cpu, Pages::new(START, 4), Pages::new(Page(5), 4)).unwrap();
            assert_eq!(cpu.load(space, Page(6).address()), Ok(101));
            space.remap(cpu, Pages::new(Page(5), 4), Pages::new(START, 4)).unwrap();
        }),
        ("fork", |cpu, space| {
            let copy = space.fork(cpu).unwrap();
            assert_eq!(cpu.load(&copy, (START + 5).address()), Ok(105));
            cpu.store(&copy, (START + 5).address(), 105).unwrap();
            copy.audit(cpu);
            cpu.leave(&copy);
        }),
        ("usage", |cpu, space| {
            let never = |page, _| panic!("{page:?} is device memory");
            space.usage(cpu, Pages::new(START, PAGES), Usage::all(), never).unwrap();
        }),
        ("read and write", |cpu, space| {
            let read = space.read(cpu, START.address(), &mut [0]);
            let write = space.write(cpu, START.address(), &[1]);
            let failed = Err(PartialCopy { copied: 0, fault: Fault::Device });
            assert_eq!((read, write), (failed, failed));
        }),
        ("unmap a part", |cpu, space| {
            space.unmap(cpu, Pages::new(START + 2, 3)).unwrap();
            assert_eq!(cpu.load(space, (START + 2).address()), Err(Fault::Unmapped));
        }),
        ("replace", |cpu, space| {
            space.replace(cpu, Pages::new(START + 2, 2), WRITE).unwrap();
            assert_eq!(cpu.load(space, (START + 2).address()), Ok(0));
        }),
        ("unmap", |cpu, space| space.unmap(cpu, Pages::new(START, PAGES)).unwrap()),
    ];
    for touches in [false, true] {
        for (name, operation) in operations {
            let machine = Hosted::<A>::with_architecture(128, 1);
            let cpu = machine.cpu(0);
            let device = Device::new(&machine, &cpu);
            let free = machine.free_frames();
            let space = Space::new(&cpu).unwrap();
            space.map_object(&cpu, all, &device.object, 0, WRITE, SHARED).unwrap();
            if touches {
                all.iter().for_each(|page| _ = cpu.load(&space, page.address()).unwrap());
                assert_eq!(space.audit(&cpu).present, PAGES);
            }
            operation(&cpu, &space);
            space.audit(&cpu);
            for page in all.iter() {
                if space.mappings(&cpu).any(|run| run.pages.contains(page) && run.object.is_some())
                {
                    let value = cpu.load(&space, page.address());
                    assert_eq!(value, Ok(100 + (page - START)), "after {name}");
                }
            }
            cpu.leave(&space);
            drop((space, device, cpu));
            assert_eq!(machine.free_frames(), free, "after {name}");
        }
    }
}

/// Another CPU keeps storing through its TLB until a store fails. After `revoke` has returned, no store may
/// reach the device.
fn no_store_arrives_after<A: Architecture>(
    revoke: impl for<'m> Fn(&Processor<'m, A>, &Space<'m, Hosted<A>>, &Object<'m, Hosted<A>>),
    fault: Fault,
) {
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 30 };
    for _ in 0..ROUNDS {
        let machine = Hosted::<A>::with_architecture(128, 2);
        let cpu = machine.cpu(0);
        let device = Device::new(&machine, &cpu);
        let space = Space::new(&cpu).unwrap();
        let pages = Pages::new(START, PAGES);
        space.map_object(&cpu, pages, &device.object, 0, WRITE, SHARED).unwrap();
        let (is_running, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let cpu = machine.cpu(1);
                for value in 0.. {
                    let result = cpu.store(&space, START.address(), value);
                    is_running.store(true, SeqCst);
                    if result.is_err() || is_over.load(SeqCst) {
                        assert_eq!(result, Err(fault), "a CPU still reaches the device");
                        break;
                    }
                }
                cpu.leave(&space);
            });
            while !is_running.load(SeqCst) {
                cpu.handle_ipis();
                thread::yield_now();
            }
            revoke(&cpu, &space, &device.object);
            let last = device.register(0).load(SeqCst);
            for _ in 0..20 {
                cpu.handle_ipis();
                thread::yield_now();
            }
            is_over.store(true, SeqCst);
            assert_eq!(device.register(0).load(SeqCst), last, "a store arrives");
        });
        cpu.leave(&space);
    }
}

fn a_revoked_device_is_out_of_reach_for_all_cpus<A: Architecture>() {
    no_store_arrives_after::<A>(|cpu, _, object| object.resize(cpu, 0).unwrap(), Fault::BeyondEnd);
}

fn a_protected_device_is_read_only_for_all_cpus<A: Architecture>() {
    no_store_arrives_after::<A>(
        |cpu, space, _| space.protect(cpu, Pages::new(START, PAGES), READ).unwrap(),
        Fault::AccessDenied,
    );
}

fn random_operations_agree_with_a_model<A: Architecture>() {
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 3000 };
    let machine = Hosted::<A>::with_architecture(512, 1);
    let cpu = machine.cpu(0);
    let device = Device::new(&machine, &cpu);
    let mut space = Space::new(&cpu).unwrap();
    // For each mapped page: the page of the device and the protection.
    let mut model = BTreeMap::<Page, (u64, Protection)>::new();
    let mut random = Random::new(1);
    for _ in 0..ROUNDS {
        let count = 1 + random.below(4);
        let pages = Pages::new(Page(504 + random.below(13)), count);
        let first = random.below(PAGES - count + 1);
        let protection = if random.below(2) == 0 { READ } else { WRITE };
        let is_free = pages.iter().all(|page| !model.contains_key(&page));
        let is_mapped = pages.iter().all(|page| model.contains_key(&page));
        let indexes = pages.iter().zip(first..);
        match random.below(9) {
            0 | 1 => {
                let result =
                    space.map_object(&cpu, pages, &device.object, first, protection, SHARED);
                assert_eq!(result, if is_free { Ok(()) } else { Err(MapError::Occupied) });
                if is_free {
                    model.extend(indexes.map(|(page, index)| (page, (index, protection))));
                }
            }
            2 => {
                space
                    .replace_with_object(&cpu, pages, &device.object, first, protection, SHARED)
                    .unwrap();
                model.extend(indexes.map(|(page, index)| (page, (index, protection))));
            }
            3 => {
                space.unmap(&cpu, pages).unwrap();
                pages.iter().for_each(|page| _ = model.remove(&page));
            }
            4 => {
                let result = space.protect(&cpu, pages, protection);
                assert_eq!(result.is_ok(), is_mapped);
                if is_mapped {
                    pages.iter().for_each(|page| model.get_mut(&page).unwrap().1 = protection);
                }
            }
            5 => space.discard(&cpu, pages).unwrap(),
            6 => _ = device.object.discard(&cpu, first..first + count),
            7 => {
                let copy = space.fork(&cpu).unwrap();
                cpu.leave(&space);
                space = copy;
            }
            _ => {
                let to = Pages::new(Page(1020 + random.below(4)), count);
                let result = space.remap(&cpu, pages, to);
                assert_eq!(result.is_ok(), is_mapped, "{result:?}");
                if is_mapped {
                    for page in pages.iter() {
                        let value = model.remove(&page).unwrap();
                        model.insert(to.start + (page - pages.start), value);
                    }
                    space.remap(&cpu, to, pages).unwrap();
                    for page in to.iter() {
                        let value = model.remove(&page).unwrap();
                        model.insert(pages.start + (page - to.start), value);
                    }
                }
            }
        }
        let page = Page(504 + random.below(16));
        let (load, store) = match model.get(&page) {
            None => (Err(Fault::Unmapped), Err(Fault::Unmapped)),
            Some(&(index, WRITE)) => (Ok(100 + index), Ok(())),
            Some(&(index, _)) => (Ok(100 + index), Err(Fault::AccessDenied)),
        };
        assert_eq!(cpu.load(&space, page.address()), load);
        assert_eq!(cpu.store(&space, page.address(), load.unwrap_or_default()), store);
        let audit = space.audit(&cpu);
        assert_eq!((audit.mapped, audit.present), (model.len() as u64, space.resident()));
    }
}

/// Page-table entries cannot deny loads alone.
fn a_device_that_allows_stores_also_allows_loads<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let (device, space) = (Device::new(&machine, &cpu), Space::new(&cpu).unwrap());
    let (first, memory) = (device.first, MemoryType::Device);
    for (page, access) in [
        (Page(7), Protection::WRITE),
        (Page(8), Protection::WRITE | Protection::EXECUTE),
        (Page(9), Protection::WRITE | Protection::GUARD),
    ] {
        // SAFETY: as in `Device::new`.
        let object = unsafe { Object::of_device(&cpu, first, 1, memory, access) }.unwrap();
        space
            .map_object(&cpu, Pages::new(page, 1), &object, 0, access - Protection::GUARD, SHARED)
            .unwrap();
        space.fault(&cpu, page, Protection::WRITE).unwrap();
        assert_eq!(space.audit(&cpu).present, page - Page(6), "{access:?}");
        cpu.store(&space, page.address(), page.0).unwrap();
        assert_eq!(cpu.load(&space, page.address()), Ok(page.0));
        let written = space.write(&cpu, page.address(), &[1]);
        assert_eq!(written, Err(PartialCopy { copied: 0, fault: Fault::Device }));
    }
    let only = Protection::EXECUTE;
    // SAFETY: as in `Device::new`.
    let object = unsafe { Object::of_device(&cpu, first, 1, memory, only) }.unwrap();
    space.map_object(&cpu, Pages::new(Page(10), 1), &object, 0, WRITE, SHARED).unwrap();
    assert_eq!(cpu.load(&space, Page(10).address()), Err(Fault::AccessDenied));
}

fn invalid_requests_change_nothing<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let free = machine.free_frames();
    let object = |first: u64, pages: u64| {
        // SAFETY: each object is dropped at once, so no space ever maps the frames.
        unsafe { Object::of_device(&cpu, Frame(first), pages, MemoryType::Device, WRITE) }.map(drop)
    };
    assert_eq!(object(1000, 0), Err(MapError::Empty));
    assert_eq!(object(A::FRAMES - 1, 1), Ok(()));
    for (first, pages) in [(A::FRAMES - 1, 2), (A::FRAMES, 1), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(object(first, pages), Err(MapError::OutOfRange));
    }
    assert_eq!(machine.free_frames(), free);

    let device = Device::new(&machine, &cpu);
    // SAFETY: as in `Device::new`.
    let read_only = unsafe {
        Object::of_device(&cpu, device.first, PAGES, MemoryType::Device, READ | Protection::EXECUTE)
    };
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(Page(7), 1);
    let all = Protection::READ_WRITE | Protection::EXECUTE;
    space.map_object(&cpu, pages, &read_only.unwrap(), 3, all, SHARED).unwrap();
    for _ in 0..2 {
        assert_eq!(cpu.store(&space, Page(7).address(), 1), Err(Fault::AccessDenied));
        assert_eq!(space.fault(&cpu, Page(7), Protection::EXECUTE), Err(Fault::AccessDenied));
        assert_eq!(cpu.load(&space, Page(7).address()), Ok(103));
    }

    let pages = Pages::new(START, PAGES);
    let private = space.map_object(&cpu, pages, &device.object, 0, READ, Sharing::Private);
    assert_eq!(private, Err(MapError::Device));
    space.map_object(&cpu, Pages::new(START, PAGES + 1), &device.object, 0, all, SHARED).unwrap();
    // Programs cannot execute device memory, or access anything beyond the device.
    for _ in 0..2 {
        let execute = space.fault(&cpu, START, Protection::EXECUTE);
        assert_eq!(execute, Err(Fault::AccessDenied));
        assert_eq!(cpu.load(&space, START.address()), Ok(100));
    }
    let beyond = (START + PAGES).address();
    assert_eq!(cpu.load(&space, beyond), Err(Fault::BeyondEnd));
    assert!(device.object.resize(&cpu, PAGES + 1).is_err());
    device.object.resize(&cpu, 1).unwrap();
    assert_eq!(cpu.load(&space, (START + 1).address()), Err(Fault::BeyondEnd));
    device.object.resize(&cpu, PAGES).unwrap();
    assert_eq!(cpu.load(&space, (START + 1).address()), Ok(101));
}

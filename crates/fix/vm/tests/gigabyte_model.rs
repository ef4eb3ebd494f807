//! Compares a space that maps 2 GiB of device memory, whole or in part, with a model of its 4 KiB pages.

#[path = "architectures/each.rs"]
mod each;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use each::on_each_format;
use knee_models::random::Random;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Entry, Fault, Frame, Machine, MapError, MemoryType, Object, Page, Pages, Protection, Sharing,
    Space,
};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// The number of 4 KiB pages in 1 GiB, and in 2 MiB.
const GIB: u64 = 1 << 18;
const LARGE: u64 = 512;
/// The number of pages of the device, and of pages at which it may be mapped.
const COUNT: u64 = 2 * GIB;
/// The first page at which the device may be mapped.
const START: Page = Page(4 * GIB);
/// The first frames of the device are memory, which CPUs access. The machine does not have the other frames.
const MEMORY: u64 = 2048;

on_each_format!(random_operations_agree_with_a_model);

/// What is mapped at each page: the protection, and the index of the device's page.
struct Model(Vec<Option<(Protection, u64)>>);

impl Model {
    fn pages(&self, pages: Pages) -> &[Option<(Protection, u64)>] {
        &self.0[(pages.start - START) as usize..(pages.end - START) as usize]
    }

    /// Replaces the state of each page with what `new` returns for its state and its place in `pages`.
    fn set(
        &mut self,
        pages: Pages,
        new: impl Fn(Option<(Protection, u64)>, u64) -> Option<(Protection, u64)>,
    ) {
        let from = (pages.start - START) as usize;
        for (page, place) in self.0[from..].iter_mut().zip(0..pages.count()) {
            *page = new(*page, place);
        }
    }

    /// The index of the device's page that an access to this page finds.
    fn find(&self, page: Page, access: Protection) -> Result<u64, Fault> {
        match self.0[(page - START) as usize] {
            None => Err(Fault::Unmapped),
            Some((protection, _)) if !protection.contains(access) => Err(Fault::AccessDenied),
            Some((_, index)) if index >= COUNT => Err(Fault::BeyondEnd),
            Some((_, index)) => Ok(index),
        }
    }

    /// The number of aligned ranges of 1 GiB that one entry can map: all pages have the same protection, and
    /// consecutive pages of the device, the first of which is a multiple of 1 GiB.
    fn gigabytes(&self) -> u64 {
        let is_whole = |pages: &&[Option<(Protection, u64)>]| {
            let Some((protection, first)) = pages[0] else { return false };
            first.is_multiple_of(GIB)
                && first < COUNT
                && pages.iter().zip(first..).all(|(page, index)| *page == Some((protection, index)))
        };
        self.0.chunks(GIB as usize).filter(is_whole).count() as u64
    }
}

/// A page: in most cases one near a multiple of 1 GiB.
fn page(random: &mut Random) -> Page {
    START
        + match random.below(8) {
            0 => random.below(COUNT),
            1 => GIB - 1 - random.below(3),
            2 => COUNT - 1 - random.below(3),
            3 | 4 => GIB + random.below(MEMORY),
            _ => random.below(MEMORY),
        }
}

/// Pages: in most cases whole large pages.
fn pages(random: &mut Random) -> Pages {
    let (first, other) = (page(random), page(random));
    match random.below(8) {
        0 | 1 => Pages::new(START, COUNT),
        2 => Pages::new(START, GIB),
        3 => Pages::new(START + GIB, GIB),
        4 => Pages::new(Page(first.0 / LARGE * LARGE), LARGE),
        5 => Pages { start: first.min(other), end: first.max(other) + 1 },
        _ => Pages::new(first, 1),
    }
}

/// Allocates the memory of the device. Each page contains its own number.
fn allocate<A: Architecture>(machine: &Hosted<A>) {
    let mut frames = [Frame(0); MEMORY as usize];
    assert_eq!(machine.allocate(&mut frames), frames.len());
    frames.sort();
    for (frame, number) in frames.into_iter().zip(0..) {
        assert_eq!(frame, Frame(number));
        // SAFETY: this is the first word of a frame that was just allocated.
        let word: &AtomicU64 = unsafe { machine.address(frame).cast().as_ref() };
        word.store(number, SeqCst);
    }
}

fn random_operations_agree_with_a_model<A: Architecture>() {
    let mut gigabytes = 0;
    for seed in 0..8 {
        let machine = Hosted::<A>::with_architecture(2 * MEMORY as usize, 1);
        allocate(&machine);
        let free = machine.free_frames();
        {
            let cpu = machine.cpu(0);
            let memory = MemoryType::WriteBack;
            // SAFETY: the CPU accesses only the frames that `allocate` has allocated, with atomics.
            let object =
                unsafe { Object::of_device(&cpu, Frame(0), COUNT, memory, WRITE) }.unwrap();
            let space = Space::new(&cpu).unwrap();
            let mut model = Model(vec![None; COUNT as usize]);
            let mut random = Random::new(seed);
            for _ in 0..40 {
                step(&cpu, &space, &object, &mut model, &mut random);
                for _ in 0..4 {
                    access(&cpu, &space, &model, &mut random);
                }
                let audit = space.audit(&cpu);
                let mapped = model.0.iter().filter(|page| page.is_some()).count() as u64;
                assert_eq!((audit.mapped, audit.present), (mapped, space.resident()));
                assert!(audit.gigabytes <= model.gigabytes(), "seed {seed}");
                gigabytes += audit.gigabytes;
            }
            cpu.leave(&space);
        }
        assert_eq!(machine.free_frames(), free, "all other frames are free again");
    }
    assert!(gigabytes > 20, "only {gigabytes} times, a page of 1 GiB was present");
}

/// Changes the mappings.
fn step<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &Space<'m, Hosted<A>>,
    object: &Object<'m, Hosted<A>>,
    model: &mut Model,
    random: &mut Random,
) {
    let pages = pages(random);
    let protection = [READ, WRITE, WRITE, Protection::NONE][random.below(4) as usize];
    match random.below(8) {
        0..3 => {
            // In most cases, frames are aligned like addresses. In the others, the pages of the device are
            // shifted, some of them beyond its end.
            let shift = [0, 0, 0, 0, GIB, LARGE, 7][random.below(7) as usize];
            let first = pages.start - START + shift;
            let result = space.map_object(cpu, pages, object, first, protection, Sharing::Shared);
            if model.pages(pages).iter().any(Option::is_some) {
                return assert_eq!(result, Err(MapError::Occupied), "{pages:?}");
            }
            assert_eq!(result, Ok(()), "{pages:?}");
            model.set(pages, |_, place| Some((protection, first + place)));
        }
        3 => {
            space.unmap(cpu, pages).unwrap();
            model.set(pages, |_, _| None);
        }
        4 | 5 => {
            let result = space.protect(cpu, pages, protection);
            if model.pages(pages).iter().any(Option::is_none) {
                return assert_eq!(result, Err(MapError::Unmapped), "{pages:?}");
            }
            assert_eq!(result, Ok(()), "{pages:?}");
            model.set(pages, |old, _| old.map(|(_, index)| (protection, index)));
        }
        6 => space.discard(cpu, pages).unwrap(),
        _ => _ = space.prune(cpu, pages),
    }
}

/// The frame to which the tables translate a page of the device.
fn walk<A: Architecture>(
    machine: &Hosted<A>,
    space: &Space<'_, Hosted<A>>,
    page: Page,
) -> Option<Frame> {
    let mut table = space.table();
    for level in (0..A::LEVELS).rev() {
        let shift = 9 * u32::from(level);
        let index = (page.0 >> shift) as usize % 512;
        // SAFETY: this is a word of a table. The space keeps its tables, because no other CPU changes it.
        let entry: &AtomicU64 =
            unsafe { machine.address(table).cast::<AtomicU64>().add(index).as_ref() };
        match A::read(entry.load(SeqCst), level) {
            Entry::Table(next) => table = next,
            Entry::Device { frame, .. } => return Some(Frame(frame.0 + page.0 % (1 << shift))),
            _ => break,
        }
    }
    None
}

/// Loads from a page, or stores to the page the word that it contains. If the machine does not have the page's
/// frame, only raises a page fault, and checks the frame in the tables.
fn access<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &Space<'m, Hosted<A>>,
    model: &Model,
    random: &mut Random,
) {
    let page = page(random);
    let access = [READ, WRITE][random.below(2) as usize];
    let (expected, mapped) = (model.find(page, access), model.pages(Pages::new(page, 1))[0]);
    assert_eq!(space.query(cpu, page), mapped.map(|(protection, _)| protection), "{page:?}");
    if mapped.is_some_and(|(_, index)| index >= MEMORY) {
        assert_eq!(space.fault(cpu, page, access), expected.map(|_| ()), "{page:?}");
        if let Ok(index) = expected {
            assert_eq!(walk(cpu.machine(), space, page), Some(Frame(index)), "{page:?}");
        }
    } else if access == WRITE {
        let stored = cpu.store(space, page.address(), expected.unwrap_or(0));
        assert_eq!(stored, expected.map(|_| ()), "{page:?}");
    } else {
        assert_eq!(cpu.load(space, page.address()), expected, "{page:?}");
    }
}

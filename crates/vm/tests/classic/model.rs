//! A space against a map of pages: what is mapped, what may be done, and what was stored.

use std::collections::BTreeMap;

use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{AddressSpace, Fault, MapError, PAGE, Pages, Protection};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::designs::{Design, for_each_design};
use crate::random::Random;

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

/// Pages of the universe, by small numbers: around the ends of tables of three levels, where ranges are
/// in one table, in two, or cover many.
fn page(number: u64) -> u64 {
    match number {
        0..24 => 500 + number,
        24..48 => 512 * 512 - 12 + number - 24,
        _ => 512 * 512 * 3 + 512 * (number - 48),
    }
}

const NUMBERS: u64 = 72;

#[derive(Debug, Clone)]
enum Operation {
    Map(Pages, Protection),
    Unmap(Pages),
    Protect(Pages, Protection),
    Discard(Pages),
    Populate(Pages),
    Store(u64, u64),
    Load(u64),
}

fn pages() -> impl Strategy<Value = Pages> {
    prop_oneof![
        8 => (0..NUMBERS, 1_u64..24).prop_map(|(number, count)| Pages::new(page(number), count)),
        2 => (0..NUMBERS, 0..NUMBERS).prop_map(|(one, other)| {
            let (first, last) = (page(one.min(other)), page(one.max(other)));
            Pages { start: first, end: last + 1 }
        }),
    ]
}

fn protection() -> impl Strategy<Value = Protection> {
    prop_oneof![Just(READ), Just(READ | WRITE), Just(Protection::NONE)]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (pages(), protection()).prop_map(|(pages, protection)| Operation::Map(pages, protection)),
        3 => pages().prop_map(Operation::Unmap),
        2 => (pages(), protection())
            .prop_map(|(pages, protection)| Operation::Protect(pages, protection)),
        1 => pages().prop_map(Operation::Discard),
        1 => (0..NUMBERS, 1_u64..5)
            .prop_map(|(number, count)| Operation::Populate(Pages::new(page(number), count))),
        4 => (0..NUMBERS, 1_u64..).prop_map(|(number, value)| Operation::Store(page(number), value)),
        2 => (0..NUMBERS).prop_map(|number| Operation::Load(page(number))),
    ]
}

/// What is mapped: runs of pages, and what was stored in the first word of pages.
#[derive(Default)]
struct Model {
    runs: BTreeMap<u64, (u64, Protection)>,
    words: BTreeMap<u64, u64>,
}

impl Model {
    fn find(&self, page: u64) -> Option<Protection> {
        let (_, &(end, protection)) = self.runs.range(..=page).next_back()?;
        (page < end).then_some(protection)
    }

    /// Cuts runs so that none goes across an end of these pages.
    fn cut(&mut self, pages: Pages) {
        for at in [pages.start, pages.end] {
            let Some((&start, &(end, protection))) = self.runs.range(..at).next_back() else {
                continue;
            };
            if at < end {
                self.runs.insert(start, (at, protection));
                self.runs.insert(at, (end, protection));
            }
        }
    }

    fn mapped(&self, pages: Pages) -> u64 {
        self.runs.iter().map(|(&start, &(end, _))| Pages { start, end }.and(pages).count()).sum()
    }

    fn apply(&mut self, operation: &Operation) -> Result<u64, Result<MapError, Fault>> {
        match *operation {
            Operation::Map(pages, protection) => {
                let everywhere = Pages { start: 0, end: u64::MAX };
                if self.mapped(everywhere) + pages.count() > LIMIT {
                    return Err(Ok(MapError::Limit));
                }
                if self.mapped(pages) > 0 {
                    return Err(Ok(MapError::Occupied));
                }
                self.runs.insert(pages.start, (pages.end, protection));
            }
            Operation::Unmap(pages) => {
                self.cut(pages);
                self.runs.retain(|start, _| !pages.contains(*start));
                self.words.retain(|page, _| !pages.contains(*page));
            }
            Operation::Protect(pages, protection) => {
                if self.mapped(pages) < pages.count() {
                    return Err(Ok(MapError::OutOfRange));
                }
                self.cut(pages);
                for (_, run) in self.runs.range_mut(pages.start..pages.end) {
                    run.1 = protection;
                }
            }
            Operation::Discard(pages) => self.words.retain(|page, _| !pages.contains(*page)),
            Operation::Populate(pages) if self.mapped(pages) < pages.count() => {
                return Err(Err(Fault::Unmapped));
            }
            Operation::Populate(_) => (),
            Operation::Store(page, value) => {
                self.allows(page, WRITE)?;
                self.words.insert(page, value);
            }
            Operation::Load(page) => {
                self.allows(page, READ)?;
                return Ok(self.words.get(&page).copied().unwrap_or(0));
            }
        }
        Ok(0)
    }

    fn allows(&self, page: u64, access: Protection) -> Result<(), Result<MapError, Fault>> {
        match self.find(page) {
            None => Err(Err(Fault::Unmapped)),
            Some(protection) if !protection.allows(access) => Err(Err(Fault::Forbidden)),
            Some(_) => Ok(()),
        }
    }
}

fn apply<'m>(
    cpu: &Processor<'m>,
    space: &impl AddressSpace<'m, Hosted>,
    operation: &Operation,
) -> Result<u64, Result<MapError, Fault>> {
    let address = |page: u64| page * PAGE as u64;
    match *operation {
        Operation::Map(pages, protection) => {
            space.map(cpu, pages, protection).map(|()| 0).map_err(Ok)
        }
        Operation::Unmap(pages) => space.unmap(cpu, pages).map(|()| 0).map_err(Ok),
        Operation::Protect(pages, protection) => {
            space.protect(cpu, pages, protection).map(|()| 0).map_err(Ok)
        }
        Operation::Discard(pages) => space.discard(cpu, pages).map(|()| 0).map_err(Ok),
        Operation::Populate(pages) => space.populate(cpu, pages).map(|()| 0).map_err(Err),
        Operation::Store(page, value) => {
            cpu.store(space, address(page), value).map(|()| 0).map_err(Err)
        }
        Operation::Load(page) => cpu.load(space, address(page)).map_err(Err),
    }
}

/// So many pages may be mapped: more than most ranges, and less than the largest.
const LIMIT: u64 = 1 << 19;

fn a_space_does_what_a_map_of_pages_does<D: Design>() {
    let config = ProptestConfig { cases: 60, ..ProptestConfig::default() };
    let operations = prop::collection::vec(operation(), 1..80);
    let result = TestRunner::new(config).run(&operations, |operations| {
        let machine = Hosted::new(4096, 1);
        let all = machine.free_frames();
        {
            let cpu = machine.cpu(0);
            let shared = D::shared(&machine, LIMIT);
            let space = D::space(&shared, &cpu);
            let mut model = Model::default();
            for operation in &operations {
                prop_assert_eq!(apply(&cpu, &space, operation), model.apply(operation));
                for number in 0..NUMBERS {
                    let page = page(number);
                    prop_assert_eq!(space.query(&cpu, page), model.find(page), "{:#x}", page);
                }
                let found = D::audit(&space, &cpu);
                prop_assert_eq!(found.mapped, model.mapped(space.pages()));
                prop_assert_eq!(found.present, space.resident());
                prop_assert_eq!(found.mapped, D::used(&shared));
            }
            D::audit_all(&shared, &[&space], &cpu);
            drop(space);
            prop_assert_eq!(D::used(&shared), 0);
        }
        prop_assert_eq!(machine.free_frames(), all, "all frames come back");
        Ok(())
    });
    result.unwrap();
}

for_each_design!(a_space_does_what_a_map_of_pages_does);

/// Single pages that differ from their neighbours: as many entries as pages, where a tree has several
/// levels. They come and go in stretches, so that nodes become empty from either end and are filled again.
fn entries_by_the_hundred_are_found<D: Design>() {
    const COUNT: u64 = 700;
    let machine = Hosted::new(4096, 1);
    let cpu = machine.cpu(0);
    let shared = D::shared(&machine, u64::MAX);
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let space = D::space(&shared, &cpu);
        let mut model = Model::default();
        for _ in 0..60 {
            let first = random.below(COUNT);
            let last = (first + random.below(80)).min(COUNT - 1);
            let (upward, kind) = (random.below(2) == 0, random.below(3));
            for step in 0..=last - first {
                let page = if upward { first + step } else { last - step };
                let (pages, other) =
                    (Pages::new(page, 1), [READ, READ | WRITE][(page % 2) as usize]);
                let operation = match kind {
                    0 => Operation::Unmap(pages),
                    1 => Operation::Map(pages, other),
                    _ => Operation::Protect(pages, random.protection()),
                };
                assert_eq!(
                    apply(&cpu, &space, &operation),
                    model.apply(&operation),
                    "{operation:?}"
                );
            }
            for page in 0..COUNT {
                assert_eq!(space.query(&cpu, page), model.find(page), "page {page}");
            }
            assert_eq!(D::audit(&space, &cpu).mapped, model.mapped(space.pages()));
        }
    }
    assert_eq!(D::used(&shared), 0);
}

for_each_design!(entries_by_the_hundred_are_found);

/// Frames end in the middle: what is there stays, and can be gone to.
fn who_has_no_frame_left_keeps_what_is_there<D: Design>() {
    let machine = Hosted::new(100, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let shared = D::shared(&machine, u64::MAX);
        let space = D::space(&shared, &cpu);
        let pages = Pages::new(500, 200);
        space.map(&cpu, pages, READ | WRITE).unwrap();
        let store = |page: u64| cpu.store(&space, page * PAGE as u64, page);
        let end = (pages.start..pages.end).find(|page| store(*page).is_err()).unwrap();
        assert_eq!(store(end), Err(Fault::OutOfMemory));
        assert_eq!(space.resident(), end - pages.start);
        // A fork needs tables, and leaves all as it was.
        assert_eq!(space.fork(&cpu).err(), Some(MapError::OutOfMemory));
        assert_eq!(D::used(&shared), 200);
        for page in pages.start..end {
            assert_eq!(cpu.load(&space, page * PAGE as u64), Ok(page));
            assert_eq!(store(page), Ok(()));
            assert_eq!(space.fault(&cpu, page, WRITE), Ok(()));
        }
        D::audit_all(&shared, &[&space], &cpu);
        space.discard(&cpu, Pages::new(pages.start, 10)).unwrap();
        assert_eq!(store(end), Ok(()), "there are frames again");
        assert_eq!(D::audit(&space, &cpu).present, space.resident());
    }
    assert_eq!(machine.free_frames(), all, "all frames come back");
}

for_each_design!(who_has_no_frame_left_keeps_what_is_there);

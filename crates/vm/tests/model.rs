//! A space against a map of pages: what is mapped, what may be done, and what was stored.

use std::collections::BTreeMap;

use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{Fault, MapError, PAGE, Pages, Protection, Space};
use proptest::prelude::*;

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
    space: &Space<'m, Hosted>,
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_space_does_what_a_map_of_pages_does(
        operations in prop::collection::vec(operation(), 1..80)
    ) {
        let machine = Hosted::new(4096, 1);
        let all = machine.free_frames();
        {
            let cpu = machine.cpu(0);
            let space = Space::new(&cpu).unwrap();
            let mut model = Model::default();
            for operation in &operations {
                prop_assert_eq!(apply(&cpu, &space, operation), model.apply(operation));
                for number in 0..NUMBERS {
                    let page = page(number);
                    prop_assert_eq!(space.query(&cpu, page), model.find(page), "{:#x}", page);
                }
                prop_assert_eq!(space.audit(&cpu).mapped, model.mapped(space.pages()));
            }
        }
        prop_assert_eq!(machine.free_frames(), all, "all frames come back");
    }
}

/// It went on for ever: the page was mapped, and the hardware found none that may be written only.
#[test]
fn what_may_be_written_may_be_read() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(7, 2);
    for protection in [WRITE, Protection::EXECUTE] {
        space.map(&cpu, pages, protection).unwrap();
        assert_eq!(space.query(&cpu, 7), Some(protection | READ));
        assert_eq!(cpu.load(&space, 7 * PAGE as u64), Ok(0));
        space.protect(&cpu, pages, Protection::NONE).unwrap();
        space.protect(&cpu, pages, WRITE).unwrap();
        assert_eq!(cpu.store(&space, 7 * PAGE as u64, 1), Ok(()));
        space.unmap(&cpu, pages).unwrap();
    }
    assert_eq!(space.query(&cpu, u64::MAX), None);
}

//! Compares a space with a model. The model records which pages are mapped, and the protection and contents
//! of these pages.

use knee_baselines::AddressSpace;
use knee_models::random::Random;
use knee_models::space::{Model, Operation, Wrong, operation};
use knee_vm::hosted::MmuContext;
use knee_vm::{Fault, MapError, Page, Pages, Protection};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::choices;
use crate::designs::{Design, MachineOf, ProcessorOf, for_each_design};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

/// The limit on mapped pages. Most ranges fit within this limit, but the largest ranges exceed it.
const LIMIT: u64 = 1 << 19;

/// Performs an operation on a space of any design, like [`knee_models::space::apply`] on a space of knee-vm.
fn apply<'m, D: Design>(
    cpu: &ProcessorOf<'m, D>,
    space: &D::Space<'m>,
    operation: &Operation,
) -> Result<u64, Wrong> {
    match *operation {
        Operation::Map(pages, protection) => {
            space.map(cpu, pages, protection).map(|()| 0).map_err(Ok)
        }
        Operation::Unmap(pages) => space.unmap(cpu, pages).map(|()| 0).map_err(Ok),
        Operation::Guard(_)
        | Operation::Replace(..)
        | Operation::SwapOut(_)
        | Operation::Reclaim(_) => unreachable!("the older designs do not have it"),
        Operation::Protect(pages, protection) => {
            space.protect(cpu, pages, protection).map(|()| 0).map_err(Ok)
        }
        Operation::Discard(pages) => space.discard(cpu, pages).map(|()| 0).map_err(Ok),
        Operation::Populate(pages) => space.populate(cpu, pages).map(|()| 0).map_err(Err),
        Operation::Store(page, value) => {
            cpu.store(space, page.address(), value).map(|()| 0).map_err(Err)
        }
        Operation::Load(page) => cpu.load(space, page.address()).map_err(Err),
    }
}

fn a_space_behaves_like_a_map_of_pages<D: Design>() {
    let config = ProptestConfig { cases: 60, ..ProptestConfig::default() };
    let operation = operation().prop_filter("the designs have it", |one| {
        !matches!(
            one,
            Operation::Guard(_)
                | Operation::Replace(..)
                | Operation::SwapOut(_)
                | Operation::Reclaim(_)
        )
    });
    let operations = prop::collection::vec(operation, 1..80);
    let result = TestRunner::new(config).run(&operations, |operations| {
        let machine = MachineOf::<D>::with_architecture(4096, 1);
        let all = machine.free_frames();
        {
            let cpu = machine.cpu(0);
            let shared = D::shared(&machine, LIMIT);
            let space = D::space(&shared, &cpu);
            let mut model = Model::default();
            for operation in &operations {
                let expected = match *operation {
                    Operation::Map(pages, _) if D::used(&shared) + pages.count() > LIMIT => {
                        Err(Ok(MapError::QuotaExceeded))
                    }
                    _ => model.apply(operation),
                };
                prop_assert_eq!(apply::<D>(&cpu, &space, operation), expected);
                model.check_pages(|page| space.query(&cpu, page));
                let found = D::audit(&space, &cpu);
                prop_assert_eq!(found.mapped, model.mapped(space.pages()));
                prop_assert_eq!(found.present, space.resident());
                prop_assert_eq!(found.mapped, D::used(&shared));
            }
            D::audit_all(&shared, &[&space], &cpu);
            drop(space);
            prop_assert_eq!(D::used(&shared), 0);
        }
        prop_assert_eq!(machine.free_frames(), all, "all frames are free again");
        Ok(())
    });
    result.unwrap();
}

for_each_design!(a_space_behaves_like_a_map_of_pages);

/// Each page differs from its neighbors in protection, so there is an entry for each page, and trees have
/// several levels. The test maps and unmaps ranges page by page, upward or downward, so that nodes are
/// emptied from either end and filled again.
fn hundreds_of_entries_are_found<D: Design>() {
    const COUNT: u64 = 700;
    let machine = MachineOf::<D>::with_architecture(4096, 1);
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
                    (Pages::new(Page(page), 1), [READ, READ | WRITE][(page % 2) as usize]);
                let operation = match kind {
                    0 => Operation::Unmap(pages),
                    1 => Operation::Map(pages, other),
                    _ => Operation::Protect(pages, choices::protection(&mut random)),
                };
                assert_eq!(
                    apply::<D>(&cpu, &space, &operation),
                    model.apply(&operation),
                    "{operation:?}"
                );
            }
            for page in 0..COUNT {
                assert_eq!(space.query(&cpu, Page(page)), model.find(Page(page)), "page {page}");
            }
            assert_eq!(D::audit(&space, &cpu).mapped, model.mapped(space.pages()));
        }
    }
    assert_eq!(D::used(&shared), 0);
}

for_each_design!(hundreds_of_entries_are_found);

/// When the machine runs out of frames, pages that are present stay accessible.
fn a_space_without_free_frames_keeps_its_present_pages<D: Design>() {
    let machine = MachineOf::<D>::with_architecture(100, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let shared = D::shared(&machine, u64::MAX);
        let space = D::space(&shared, &cpu);
        let pages = Pages::new(Page(500), 200);
        space.map(&cpu, pages, READ | WRITE).unwrap();
        let store = |page: Page| cpu.store(&space, page.address(), page.0);
        let end = pages.iter().find(|page| store(*page).is_err()).unwrap();
        assert_eq!(store(end), Err(Fault::OutOfMemory));
        assert_eq!(space.resident(), end - pages.start);
        // A fork needs frames for tables, so it fails and changes nothing.
        assert_eq!(space.fork(&cpu).err(), Some(MapError::OutOfMemory));
        assert_eq!(D::used(&shared), 200);
        for page in (Pages { end, ..pages }).iter() {
            assert_eq!(cpu.load(&space, page.address()), Ok(page.0));
            assert_eq!(store(page), Ok(()));
            assert_eq!(space.fault(&cpu, page, WRITE), Ok(()));
        }
        D::audit_all(&shared, &[&space], &cpu);
        space.discard(&cpu, Pages::new(pages.start, 10)).unwrap();
        assert_eq!(store(end), Ok(()), "the discard has freed frames");
        assert_eq!(D::audit(&space, &cpu).present, space.resident());
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

for_each_design!(a_space_without_free_frames_keeps_its_present_pages);

/// Like Linux's `MADV_POPULATE_READ`.
fn populate_stops_at_the_first_page_that_cannot_be_read<D: Design>() {
    let machine = MachineOf::<D>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let shared = D::shared(&machine, u64::MAX);
    let space = D::space(&shared, &cpu);
    let populate = |start, count| space.populate(&cpu, Pages::new(Page(start), count));
    assert_eq!((populate(10, 4), populate(10, 0)), (Err(Fault::Unmapped), Ok(())));
    space.map(&cpu, Pages::new(Page(10), 2), READ).unwrap();
    space.map(&cpu, Pages::new(Page(13), 1), Protection::NONE).unwrap();
    assert_eq!((populate(10, 4), space.resident()), (Err(Fault::Unmapped), 2));
    assert_eq!(populate(13, 1), Err(Fault::AccessDenied));
    assert_eq!((populate(10, 2), space.resident()), (Ok(()), 2));
}

for_each_design!(populate_stops_at_the_first_page_that_cannot_be_read);

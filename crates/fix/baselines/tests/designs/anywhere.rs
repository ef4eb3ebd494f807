//! Tests which ranges `map_anywhere` chooses.

use knee_baselines::AddressSpace;
use knee_vm::hosted::MmuContext;
use knee_vm::{MapError, Page, Pages, Protection};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::designs::{Design, MachineOf, for_each_design};

#[derive(Debug, Clone)]
enum Operation {
    Anywhere(u64),
    At(Pages),
    Unmap(Pages),
    /// Unmaps one of the ranges that `map_anywhere` has chosen.
    UnmapOne(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let pages = || (0_u64..80, 1_u64..20).prop_map(|(start, count)| Pages::new(Page(start), count));
    prop_oneof![
        4 => (1_u64..9).prop_map(Operation::Anywhere),
        1 => pages().prop_map(Operation::At),
        2 => pages().prop_map(Operation::Unmap),
        2 => any::<usize>().prop_map(Operation::UnmapOne),
    ]
}

const LOWEST: u64 = 16;

fn map_anywhere_uses_an_unmapped_range<D: Design>() {
    let operations = prop::collection::vec(operation(), 1..100);
    let config = ProptestConfig { cases: 100, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&operations, |operations| {
        let machine = MachineOf::<D>::with_architecture(256, 1);
        let cpu = machine.cpu(0);
        let shared = D::shared(&machine, u64::MAX);
        let space = D::space(&shared, &cpu);
        let (read, mut known) = (Protection::READ, Vec::new());
        // Whether each of the first 2000 pages is mapped. Pages after these are mapped only by
        // `map_anywhere`.
        let mut used = vec![false; 2000];
        for operation in operations {
            let (pages, is_mapped) = match operation {
                Operation::Anywhere(count) => {
                    let pages = space.map_anywhere(&cpu, count, read).unwrap();
                    prop_assert_eq!(pages.count(), count);
                    prop_assert!(pages.start >= Page(LOWEST) && pages.end <= space.pages().end);
                    let free =
                        |start: &u64| (*start..start + count).all(|page| !used[page as usize]);
                    if D::IS_FIRST_FIT {
                        prop_assert_eq!(Some(pages.start.0), (LOWEST..1000).find(free));
                    }
                    known.push(pages);
                    (pages, true)
                }
                Operation::At(pages) if space.map(&cpu, pages, read).is_ok() => (pages, true),
                Operation::UnmapOne(number) if !known.is_empty() => {
                    (known.swap_remove(number % known.len()), false)
                }
                Operation::Unmap(pages) => (pages, false),
                _ => continue,
            };
            if !is_mapped {
                space.unmap(&cpu, pages).unwrap();
            }
            for page in pages.iter() {
                let Some(now) = used.get_mut(page.0 as usize) else { break };
                prop_assert!(!is_mapped || !*now, "{:?} was mapped already", page);
                *now = is_mapped;
            }
            for page in 0..120 {
                prop_assert_eq!(space.query(&cpu, Page(page)).is_some(), used[page as usize]);
            }
        }
        Ok(())
    });
    result.unwrap();
}

for_each_design!(map_anywhere_uses_an_unmapped_range);

fn map_anywhere_rejects_empty_and_too_large_ranges<D: Design>() {
    let machine = MachineOf::<D>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let shared = D::shared(&machine, u64::MAX);
    let space = D::space(&shared, &cpu);
    let map = |count| space.map_anywhere(&cpu, count, Protection::READ);
    let end = space.pages().end.0;
    assert_eq!(map(0), Err(MapError::Empty));
    assert_eq!(map(end), Err(MapError::NoAddressSpace));
    let all = map(end - LOWEST).unwrap();
    assert_eq!(map(1), Err(MapError::NoAddressSpace));
    space.unmap(&cpu, Pages::new(Page(100), 1)).unwrap();
    assert_eq!(map(2), Err(MapError::NoAddressSpace));
    assert_eq!(map(1), Ok(Pages::new(Page(100), 1)));
    space.unmap(&cpu, all).unwrap();
    assert_eq!(D::used(&shared), 0, "a failed `map_anywhere` charges nothing");
}

for_each_design!(map_anywhere_rejects_empty_and_too_large_ranges);

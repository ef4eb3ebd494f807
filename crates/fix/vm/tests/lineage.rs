//! Compares forks of forks with a model: their contents, and which spaces share a frame.

#[path = "architectures/each.rs"]
mod each;

use std::collections::{BTreeMap, BTreeSet};

use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{Fault, Page, Pages, Protection, Space};
use proptest::prelude::*;

use each::{ARCHITECTURES, on_architecture};

/// The pages of each space, around the end of a leaf.
const FIRST: u64 = 506;
const PAGES: u64 = 12;

#[derive(Debug, Clone)]
enum Operation {
    /// Forks this space.
    Fork(usize),
    /// Drops this space.
    Drop(usize),
    Store(usize, Page, u64),
    Load(usize, Page),
    Discard(usize, Page),
    Protect(usize, Page, bool),
    Unmap(usize, Page),
    Map(usize, Page),
}

fn operation() -> impl Strategy<Value = Operation> {
    let at = || (any::<prop::sample::Index>(), (FIRST..FIRST + PAGES).prop_map(Page));
    let space = |index: prop::sample::Index| index.index(1 << 16);
    prop_oneof![
        // Most forks copy the newest space, so that chains become long.
        3 => Just(Operation::Fork(0)),
        2 => any::<prop::sample::Index>().prop_map(move |at| Operation::Fork(space(at))),
        2 => any::<prop::sample::Index>().prop_map(move |at| Operation::Drop(space(at))),
        6 => (at(), 1_u64..).prop_map(move |((at, page), value)| Operation::Store(space(at), page, value)),
        3 => at().prop_map(move |(at, page)| Operation::Load(space(at), page)),
        1 => at().prop_map(move |(at, page)| Operation::Discard(space(at), page)),
        2 => (at(), any::<bool>()).prop_map(move |((at, page), is)| Operation::Protect(space(at), page, is)),
        1 => at().prop_map(move |(at, page)| Operation::Unmap(space(at), page)),
        1 => at().prop_map(move |(at, page)| Operation::Map(space(at), page)),
    ]
}

/// For each page: whether it is writable, and the last value stored.
type Model = BTreeMap<Page, (bool, u64)>;

fn apply<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    all: &mut Vec<(Space<'m, Hosted<A>>, Model)>,
    operation: &Operation,
) -> Result<(), TestCaseError> {
    let count = all.len();
    // Number 0 is the newest space.
    let place = |space: usize| count - 1 - space % count;
    match *operation {
        Operation::Fork(space) => {
            let (space, model) = &all[place(space)];
            let copy = (space.fork(cpu).unwrap(), model.clone());
            all.push(copy);
        }
        Operation::Drop(_) if count == 1 => (),
        Operation::Drop(space) => drop(all.remove(place(space))),
        Operation::Store(space, page, value) => {
            let (space, model) = &mut all[place(space)];
            let expected = match model.get_mut(&page) {
                None => Err(Fault::Unmapped),
                Some((false, _)) => Err(Fault::AccessDenied),
                Some((true, word)) => {
                    *word = value;
                    Ok(())
                }
            };
            prop_assert_eq!(cpu.store(space, page.address(), value), expected);
        }
        Operation::Load(space, page) => {
            let (space, model) = &all[place(space)];
            let expected = model.get(&page).map(|&(_, word)| word).ok_or(Fault::Unmapped);
            prop_assert_eq!(cpu.load(space, page.address()), expected);
        }
        Operation::Discard(space, page) => {
            let (space, model) = &mut all[place(space)];
            space.discard(cpu, Pages::new(page, 1)).unwrap();
            model.entry(page).and_modify(|(_, word)| *word = 0);
        }
        Operation::Protect(space, page, is_writable) => {
            let (space, model) = &mut all[place(space)];
            let protection = if is_writable { Protection::READ_WRITE } else { Protection::READ };
            let is_mapped = space.protect(cpu, Pages::new(page, 1), protection).is_ok();
            prop_assert_eq!(is_mapped, model.contains_key(&page));
            model.entry(page).and_modify(|(is, _)| *is = is_writable);
        }
        Operation::Unmap(space, page) => {
            let (space, model) = &mut all[place(space)];
            space.unmap(cpu, Pages::new(page, 1)).unwrap();
            model.remove(&page);
        }
        Operation::Map(space, page) => {
            let (space, model) = &mut all[place(space)];
            let is_new = space.map(cpu, Pages::new(page, 1), Protection::READ_WRITE).is_ok();
            prop_assert_eq!(is_new, !model.contains_key(&page));
            model.entry(page).or_insert((true, 0));
        }
    }
    Ok(())
}

/// Compares forks of forks with their models.
fn are_as_modelled<A: Architecture>(operations: &[Operation]) -> Result<(), TestCaseError> {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let free = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let first = Space::new(&cpu).unwrap();
        let pages = Pages::new(Page(FIRST), PAGES);
        first.map(&cpu, pages, Protection::READ_WRITE).unwrap();
        let model = pages.iter().map(|page| (page, (true, 0))).collect();
        let mut all = vec![(first, model)];
        for operation in operations {
            apply(&cpu, &mut all, operation)?;
            let mut places: BTreeMap<_, BTreeSet<(u64, Page)>> = BTreeMap::new();
            for (space, _) in &all {
                for page in pages.iter() {
                    if let Some(frame) = space.frame(&cpu, page) {
                        places.entry(frame).or_default().insert((space.number(), page));
                    }
                }
            }
            for (space, _) in &all {
                for page in pages.iter() {
                    let mut found = BTreeSet::new();
                    space.sharers(&cpu, page, |space, page| assert!(found.insert((space, page))));
                    let frame = space.frame(&cpu, page);
                    let expected = frame.map(|frame| places[&frame].clone()).unwrap_or_default();
                    prop_assert_eq!(found, expected);
                }
                space.audit(&cpu);
            }
        }
        for (space, model) in &all {
            for (&page, &(_, word)) in model {
                prop_assert_eq!(cpu.load(space, page.address()), Ok(word));
            }
        }
    }
    prop_assert_eq!(machine.free_frames(), free, "all frames are free again");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, ..ProptestConfig::default() })]

    #[test]
    fn sharers_finds_exactly_the_spaces_that_share_a_page(
        operations in prop::collection::vec(operation(), 1..if cfg!(miri) { 12 } else { 80 }),
        architecture in 0..ARCHITECTURES
    ) {
        on_architecture!(architecture, are_as_modelled(&operations))?;
    }
}

/// Chains have a limited length: a space with pages from five origins becomes the origin of all its pages
/// before it is forked again.
#[test]
fn the_sixth_generation_has_its_own_pages() {
    const GENERATIONS: u64 = if cfg!(miri) { 7 } else { 12 };
    let machine = Hosted::new(1024, 1);
    let cpu = machine.cpu(0);
    let pages = Pages::new(Page(16), GENERATIONS);
    let first = Space::new(&cpu).unwrap();
    first.map(&cpu, pages, Protection::READ_WRITE).unwrap();
    let mut all = vec![first];
    for generation in 0..GENERATIONS {
        let space = all.last().unwrap();
        cpu.store(space, (pages.start + generation).address(), generation + 1).unwrap();
        all.push(space.fork(&cpu).unwrap());
    }
    // For each space, the number of spaces that share the frame of its first page. No space writes to that
    // page after the first fork.
    let mut shared = Vec::new();
    for space in &all {
        let mut count = 0;
        space.sharers(&cpu, Page(16), |_, _| count += 1);
        shared.push(count);
        let words = pages.iter().map(|page| cpu.load(space, page.address()).unwrap());
        assert!(words.enumerate().all(|(page, word)| word == 0 || word == page as u64 + 1));
    }
    assert!(shared.iter().all(|&count| (2..=6).contains(&count)), "{shared:?}");
    let newest = all.last().unwrap();
    for (page, word) in pages.iter().zip(1..) {
        assert_eq!(cpu.load(newest, page.address()), Ok(word));
    }
}

/// A chain of forks, such as `init`, a shell, `make` and its children, copies only the pages that are
/// written.
#[test]
fn a_chain_of_forks_copies_no_page_that_nobody_writes() {
    const PAGES: u64 = 64;
    let machine = Hosted::new(4096, 1);
    let cpu = machine.cpu(0);
    let pages = Pages::new(Page(16), PAGES);
    let first = Space::new(&cpu).unwrap();
    first.map(&cpu, pages, Protection::READ_WRITE).unwrap();
    pages.iter().for_each(|page| cpu.store(&first, page.address(), page.0).unwrap());
    let mut all = vec![first];
    for _ in 0..if cfg!(miri) { 6 } else { 20 } {
        all.push(all.last().unwrap().fork(&cpu).unwrap());
    }
    for space in &all {
        let mut count = 0;
        space.sharers(&cpu, pages.start, |_, _| count += 1);
        assert_eq!(count, all.len());
        assert_eq!(space.frame(&cpu, pages.start), all[0].frame(&cpu, pages.start));
    }
    let newest = all.last().unwrap();
    cpu.store(newest, pages.start.address(), 1).unwrap();
    let words = all.iter().map(|space| cpu.load(space, pages.start.address()).unwrap());
    assert!(words.eq((1..all.len()).map(|_| pages.start.0).chain([1])));
}
